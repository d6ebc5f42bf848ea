"""Shops: connections, the events they send, and the licenses that a sale makes."""
