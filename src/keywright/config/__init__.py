"""Settings: their values and sources, and the installation that they describe.

This package is the only reader of the environment.
"""

from keywright.config.settings import Settings

__all__ = ["Settings"]
