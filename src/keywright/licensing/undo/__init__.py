"""Undo: what events say of a license as it was before them, and how to go back there."""
