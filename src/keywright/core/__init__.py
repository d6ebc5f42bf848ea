"""Errors, commands, parsing and cryptography: no driver, no clock, no environment."""
