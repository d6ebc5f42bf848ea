"""Licenses and activations: the aggregate that decides together in one transaction."""
