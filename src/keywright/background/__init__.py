"""The loops of a server process that no request starts."""
