"""The command line of the server, for people and scripts.

Commands access the database directly, whether or not the server is running.
"""

from keywright.cli.program import main

__all__ = ["main"]
