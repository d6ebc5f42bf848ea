"""Keywright, a license server."""

__version__ = "0.1.0"
