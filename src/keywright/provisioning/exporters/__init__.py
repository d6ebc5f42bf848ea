"""Exporters: what is stored, as tables."""
