"""Products: what licenses are for."""
