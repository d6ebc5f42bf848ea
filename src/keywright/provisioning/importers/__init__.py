"""Importers: licenses from other systems."""
