"""Releases: make, fill, publish and yank them."""
