"""The administration pages.

The server imports ``lazy_app`` only; everything else is imported at the first request for a page.
"""
