"""Middleware that finds the session and language of each request, and turns uncaught errors into pages."""

from functools import partial

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keywright.core.errors import KeywrightError, QueueFull
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.formats import speaking
from keywright.http.pages.render import BASE
from keywright.http.pages.request import PageRequest
from keywright.http.pages.session import BrowserSession
from keywright.http.pages.site import Site
from keywright.languages import Language


class SessionMiddleware:
    """Stores the ``BrowserSession`` of each request in its state; turns errors into pages."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        has_started = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._open_session(request)
            with speaking(self._choose_language(request)):
                await self._app(scope, receive, send_and_note)
        except KeywrightError as error:
            if has_started:
                # Part of a file was sent: only a broken connection can signal the error to the browser.
                raise
            with speaking(self._choose_language(request)):
                await (await self._error_page(request, error))(scope, receive, send)

    async def _open_session(self, request: Request) -> None:
        site = self._site
        request.state.browser = browser = BrowserSession(request, site.settings)
        if browser.token and not request.url.path.startswith(f"{BASE}/static/"):
            await site.runner.run(partial(browser.find_user, site.runner))
            if browser.signed_in is not None:
                site.on_visit(browser.now)

    def _choose_language(self, request: Request) -> Language:
        signed_in = request.state.browser.signed_in
        chosen = None if signed_in is None else signed_in.user.language
        return self._site.languages.choose(chosen, request.headers.get("accept-language", ""))

    async def _error_page(self, request: Request, error: KeywrightError) -> Response:
        try:
            if isinstance(error, QueueFull):
                raise error
            page = PageRequest(self._site, request)
            return await self._site.runner.run(partial(page.error_page, error))
        except QueueFull:
            # Rendering a page would need a thread, too.
            return PlainTextResponse(message_for(QueueFull()).sentence, 503, {"retry-after": "1"})
