"""Names of products and customers."""
