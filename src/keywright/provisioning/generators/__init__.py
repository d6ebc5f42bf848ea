"""Generators: recipes for license keys."""
