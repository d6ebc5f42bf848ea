"""The parts that every page uses: requests, sessions, forms, templates, and threads in which pages run."""
