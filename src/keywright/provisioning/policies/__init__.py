"""Policies: recipes for license keys."""
