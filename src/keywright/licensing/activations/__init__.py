"""Activations: places taken on a license."""
