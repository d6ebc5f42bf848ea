"""Keywright over HTTP."""
