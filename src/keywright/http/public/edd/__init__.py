"""The API of EDD Software Licensing, which WordPress plugins call at their vendor's host."""
