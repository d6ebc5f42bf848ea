"""Errors, commands, parsing and cryptography. Nothing here uses a database, the clock or the environment."""
