"""What makes licenses: policies, and the catalog of products and customers."""
