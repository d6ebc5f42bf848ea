"""The command line: the operations of the server, for people and scripts.

The commands work on the database itself, while the server runs and while it does not.
"""

from keywright.cli.program import main

__all__ = ["main"]
