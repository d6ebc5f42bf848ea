"""Terms: what a license allows."""
