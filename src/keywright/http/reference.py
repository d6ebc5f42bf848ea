"""The pages for whoever comes with a browser: a first page, and the reference of the interface.

Each is made when somebody asks for it for the first time, and then kept; what makes it is imported
then, too: a server that nobody reads about pays nothing.
"""

import asyncio
import json
import re
from functools import lru_cache

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from keywright import __version__
from keywright.config import Settings

_JSON = "application/json; charset=UTF-8"
_HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
#: Stands in the kept page where the address goes by which the reader knows the server.
_BASE = b"http://KEYWRIGHT"
_ADMIN = "admin"
_LINKS = (
    (_ADMIN, "The pages", "Licenses, customers and their devices, for your staff"),
    ("openapi/v2", "The interface", "Every call, with examples to paste"),
    ("healthz", "healthz", "Is the process alive?"),
    ("readyz", "readyz", "Does the database answer?"),
)


async def landing(request: Request) -> Response:
    """Says that Keywright runs, and where to go from here."""
    if "rest_route" in request.query_params:
        # A call to an interface that is not ours.
        raise HTTPException(404)
    return _html(_landing(has_admin=request.app.state.has_admin(request.scope)))


async def reference(request: Request) -> Response:
    """The interface, to be read."""
    host = request.headers.get("host", "")
    base = f"{request.url.scheme}://{host}" if _HOST.fullmatch(host) else "http://127.0.0.1:8000"
    page = await asyncio.to_thread(_reference, request.app.state.settings)
    return _html(page.replace(_BASE, base.encode()))


async def document(request: Request) -> Response:
    """The interface, for programs: an OpenAPI 3.1 document."""
    return Response(await asyncio.to_thread(_document, request.app.state.settings), media_type=_JSON)


@lru_cache(maxsize=2)
def _landing(*, has_admin: bool) -> bytes:
    from keywright.http.markup import element, page

    items = [
        element("li", element("a", name, href=address), element("span", says))
        for address, name, says in _LINKS
        if has_admin or address != _ADMIN
    ]
    version = element("p", f"A license server, version {__version__}.", class_="soft")
    body = element("main", element("h1", "Keywright runs"), version, element("ul", *items), class_="landing")
    return page("Keywright", body).encode()


@lru_cache(maxsize=1)
def _reference(settings: Settings) -> bytes:
    from keywright.http.openapi import page
    from keywright.http.openapi.document import build

    document = build(settings)
    return page.write(document, _BASE.decode() + document["servers"][0]["url"]).encode()


@lru_cache(maxsize=1)
def _document(settings: Settings) -> bytes:
    from keywright.http.openapi.document import build

    return json.dumps(build(settings), ensure_ascii=False, separators=(",", ":")).encode()


def _html(page: bytes) -> Response:
    from keywright.http.markup import security_policy

    headers = {"Content-Security-Policy": security_policy(), "Referrer-Policy": "no-referrer"}
    return HTMLResponse(page, headers=headers)


ROUTES = [
    Route("/", landing),
    Route("/openapi/v2", reference),
    Route("/openapi/v2.json", document),
]
