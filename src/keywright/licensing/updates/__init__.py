"""Releases of a product: what is new, and which license covers it."""
