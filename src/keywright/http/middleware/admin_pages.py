"""Serve the administration pages below /admin, at one address alone where the settings name one."""

from starlette.types import ASGIApp, Receive, Scope, Send

from keywright.http.server.listening import Address, is_at


class AdminHost:
    """The address that serves the administration pages."""

    def __init__(self, address: Address | None, *, is_on: bool) -> None:
        """``is_on`` says whether they are served at all; ``address`` is the only one that serves them."""
        self._address = address
        self._is_on = is_on

    def is_here(self, scope: Scope) -> bool:
        """Whether they are served where this request came in."""
        return self._is_on and (self._address is None or is_at(scope["server"], self._address))


class AdminPages:
    """Sends requests below /admin to the administration pages, where they are served, and others on."""

    def __init__(self, host: AdminHost, base: str, pages: ASGIApp, otherwise: ASGIApp) -> None:
        self._host = host
        self._base = f"{base}/"
        self._pages = pages
        self._otherwise = otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_admin = f"{scope['path']}/".startswith(self._base) and self._host.is_here(scope)
        await (self._pages if is_admin else self._otherwise)(scope, receive, send)
