"""A site whose pages are imported and built in a thread at the first request; until then, they take no
memory.
"""

import asyncio
import gc
import logging
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keywright.http.middleware.pipeline import MAX_ADDRESS
from keywright.http.pages.runner import Runner
from keywright.http.server.protocol import is_gone

#: The headers of every answer below the site's path.
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    # With "no-referrer", browsers would not send the Origin of a form either.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]

log = logging.getLogger(__name__)


class LazyApp:
    """Answers every request below the path ``base``."""

    def __init__(self, base: str, runner: Runner, build: Callable[[], ASGIApp], *, home: str = "") -> None:
        """``build`` creates the application, in a thread. ``base`` redirects to the path ``home`` below it,
        if given.
        """
        self._base = base
        self._runner = runner
        self._build_app = build
        self._home = home
        self._building: asyncio.Future[ASGIApp] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        has_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                own = {name for name, _value in message["headers"]}
                more = [one for one in _HEADERS if one[0] not in own]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        try:
            if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_ADDRESS:
                await _send_text(send_with_headers, 414, "This address is too long.")
            elif self._home and scope["path"] == self._base:
                location = f"{self._base}{self._home}".encode()
                await _send_text(send_with_headers, 303, "", (b"location", location))
            else:
                app = await self._get_app()
                await app(scope, receive, send_with_headers)
        except Exception as problem:
            if is_gone(scope):
                raise
            log.exception("a page failed", exc_info=problem)
            if not has_started:
                text = "Something went wrong. The server's log has the details."
                await _send_text(send_with_headers, 500, text)

    async def _get_app(self) -> ASGIApp:
        """The application with the pages; the first request builds it."""
        if self._building is None:
            self._building = asyncio.ensure_future(self._runner.run(self._build))
        try:
            return await asyncio.shield(self._building)
        except Exception:
            self._building = None
            raise

    def _build(self) -> ASGIApp:
        # The garbage collector would traverse all modules repeatedly, and every request would wait for it.
        gc.disable()
        try:
            app = self._build_app()
            # The pages stay in memory permanently: the collector need not visit them.
            gc.freeze()
        finally:
            gc.enable()
        return app


async def _send_text(send: Send, status: int, text: str, *headers: tuple[bytes, bytes]) -> None:
    """Answer with plain text, where no page can be rendered."""
    body = f"{text}\n".encode() if text else b""
    plain = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*plain, *headers]})
    await send({"type": "http.response.body", "body": body})
