"""The OpenAPI 3.1 document of the interface, and the page made from it.

The document is made from the routes, the types of records and parameters, the handlers' docstrings and the
catalog of refusals. Only ``routes`` is imported at start; the rest at the first request.
"""
