"""Releases of a product, and which licenses cover them."""
