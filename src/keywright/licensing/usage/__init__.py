"""Usage: what meters count."""
