"""Policies, which make licenses, and the catalog of products and customers."""
