"""Undo: a license as its events state it was before them, and how to go back there."""
