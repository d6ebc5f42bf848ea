"""The OpenAPI 3.1 documents of the interfaces, and the pages about them.

That of v2 is a file. That of v3 is made from its routes, the types of records and parameters, the handlers'
docstrings and the table of problems. Only ``routes`` is imported at start; the rest at the first request.
"""
