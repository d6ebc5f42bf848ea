"""Policies: recipes for licenses and their keys."""
