"""Validation: everything that is to be said about a license key, a device and what a program asks for."""
