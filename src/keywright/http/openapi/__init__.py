"""The OpenAPI 3.1 documents of the interfaces, and their reference pages.

The document of v2 is a file. That of v3 is generated from its routes, the types of records and parameters,
the handlers' docstrings and the table of problems. Only ``routes`` is imported at startup.
"""
