"""The administration pages.

``door.Door`` is all that the server knows of them at first; the rest is imported when somebody comes.
"""

#: Where the pages are.
BASE = "/admin"
