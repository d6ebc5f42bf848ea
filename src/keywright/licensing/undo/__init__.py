"""Undo changes of a license, with the former values in its events."""
