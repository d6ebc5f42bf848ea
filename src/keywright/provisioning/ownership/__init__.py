"""Whose license it is: customers claim licenses with their keys, and hand them on to others."""
