"""Bring licenses into being: generators, and the catalog of products and customers."""
