"""Serve sites of pages below their paths; the administration pages perhaps at one address alone."""

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from keywright.http.server.listening import Address, is_at


class AdminHost:
    """The address that serves the administration pages."""

    def __init__(self, address: Address | None, *, is_on: bool) -> None:
        """``is_on`` is whether they are served at all; ``address`` is the only one that serves them."""
        self._address = address
        self._is_on = is_on

    def is_here(self, scope: Scope) -> bool:
        """Whether they are served where this request came in."""
        return self._is_on and (self._address is None or is_at(scope["server"], self._address))


class SitePages:
    """Sends requests below a path to the pages of a site, where they are served, and others on."""

    def __init__(
        self, is_here: Callable[[Scope], bool], base: str, pages: ASGIApp, otherwise: ASGIApp
    ) -> None:
        self._is_here = is_here
        self._base = f"{base}/"
        self._pages = pages
        self._otherwise = otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_page = f"{scope['path']}/".startswith(self._base) and self._is_here(scope)
        await (self._pages if is_page else self._otherwise)(scope, receive, send)
