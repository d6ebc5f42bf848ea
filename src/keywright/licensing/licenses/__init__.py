"""Licenses."""
