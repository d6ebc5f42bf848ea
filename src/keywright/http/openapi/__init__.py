"""The v2 interface, described: an OpenAPI 3.1 document, and a page for people made from it.

What the code knows is taken from the code: addresses and methods from ``v2``, statuses, codes and
sentences from ``problems``, fields from ``wire``, examples from what ``wire`` and ``problems`` write.
Nothing here is imported before somebody asks for it.
"""
