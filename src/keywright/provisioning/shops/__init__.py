"""Shops: connections to them, the events that they send, and the licenses of their sales."""
