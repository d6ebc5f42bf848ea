"""Addresses of the pages."""

#: Where the administration pages are.
BASE = "/admin"
