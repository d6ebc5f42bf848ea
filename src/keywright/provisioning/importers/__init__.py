"""Importers of licenses from other systems."""
