"""Background loops of a server process: work that no request starts."""
