"""Bring licenses into being: policies, and the catalog of products and customers."""
