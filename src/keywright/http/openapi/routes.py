"""The landing page and the API reference.

Each is made and its code imported at its first request, and then kept: the start of the server stays fast.
"""

import asyncio
import json
import re
from collections.abc import Callable
from functools import lru_cache

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from keywright import __version__
from keywright.config import Settings

_JSON = "application/json; charset=UTF-8"
_HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
#: In the kept page, the placeholder for the server's URL as the reader knows it.
_BASE = b"http://KEYWRIGHT"


class Documents:
    """The routes of the landing page and the API reference."""

    def __init__(self, settings: Settings, has_admin: Callable[[Scope], bool]) -> None:
        """``has_admin`` tells whether the administration pages are served where a request came in."""
        self._settings = settings
        self._has_admin = has_admin
        self.routes = [
            Route("/", self._landing),
            Route("/openapi/v2", self._reference),
            Route("/openapi/v2.json", self._document),
        ]

    async def _landing(self, request: Request) -> Response:
        """Answer with the landing page: Keywright is running, and links to the other pages."""
        if "rest_route" in request.query_params:
            # A call to an interface that Keywright does not have.
            raise HTTPException(404)
        return _html(await asyncio.to_thread(_landing, has_admin=self._has_admin(request.scope)))

    async def _reference(self, request: Request) -> Response:
        """Answer with the API reference."""
        host = request.headers.get("host", "")
        base = f"{request.url.scheme}://{host}" if _HOST.fullmatch(host) else "http://127.0.0.1:8000"
        base = self._settings.public_url or base
        page = await asyncio.to_thread(_reference, self._settings)
        return _html(page.replace(_BASE, base.encode()))

    async def _document(self, _request: Request) -> Response:
        """Answer with the OpenAPI 3.1 document."""
        return Response(await asyncio.to_thread(_document, self._settings), media_type=_JSON)


@lru_cache(maxsize=2)
def _landing(*, has_admin: bool) -> bytes:
    from keywright.http.openapi import page

    return page.render("landing.html", has_admin=has_admin, version=__version__).encode()


@lru_cache(maxsize=1)
def _reference(settings: Settings) -> bytes:
    from keywright.http.openapi import page
    from keywright.http.openapi.document import build

    document = build(settings)
    return page.render_reference(document, _BASE.decode() + document["servers"][0]["url"]).encode()


@lru_cache(maxsize=1)
def _document(settings: Settings) -> bytes:
    from keywright.http.openapi.document import build

    return json.dumps(build(settings), ensure_ascii=False, separators=(",", ":")).encode()


def _html(page: bytes) -> Response:
    from keywright.http.openapi.page import security_policy

    headers = {"Content-Security-Policy": security_policy(), "Referrer-Policy": "no-referrer"}
    return HTMLResponse(page, headers=headers)
