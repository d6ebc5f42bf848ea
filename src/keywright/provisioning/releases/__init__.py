"""Releases: making, filling, publishing and yanking them."""
