"""Moments of a license that come by themselves, and are events: it expires soon, it has expired."""
