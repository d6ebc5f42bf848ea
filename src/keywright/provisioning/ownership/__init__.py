"""Ownership of licenses: customers claim licenses with their keys, and transfer them to others."""
