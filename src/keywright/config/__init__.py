"""Settings: their values and sources, and the installation that they describe.

Only this package reads the environment.
"""

from keywright.config.settings import Settings

__all__ = ["Settings"]
