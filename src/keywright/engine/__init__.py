"""Run commands and queries in batches: the desk collects them, the executor runs them."""
