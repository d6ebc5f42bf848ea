"""Find anything: what a text from the top bar may mean, in groups."""
