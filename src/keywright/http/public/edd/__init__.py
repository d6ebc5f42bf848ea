"""The calls of EDD Software Licensing, which plugins of WordPress make to their vendor's host."""
