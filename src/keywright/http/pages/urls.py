"""Addresses of the pages."""

from urllib.parse import urlencode

#: Where the administration pages are.
BASE = "/admin"
#: Where the customer's portal is.
PORTAL = "/portal"


def url(path: str, **query: object) -> str:
    """The address of a page: ``url("/licenses", status="sold", cursor=None)``. Parameters that are None or
    empty are left out.
    """
    parameters = [(name, value) for name, value in query.items() if value not in (None, "")]
    return f"{BASE}{path}" + (f"?{urlencode(parameters)}" if parameters else "")
