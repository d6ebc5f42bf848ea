"""The ASGI application below /admin.

The pages are imported and built at the first request, in a thread: until then, they take no memory.
"""

import asyncio
import gc
import logging
from time import monotonic

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keywright.background.counters import Counters
from keywright.config import Settings
from keywright.http.middleware.body import BodyReader
from keywright.http.middleware.pipeline import MAX_ADDRESS
from keywright.http.pages.runner import Runner
from keywright.http.pages.urls import BASE
from keywright.http.server.protocol import is_gone

#: The headers of every answer below /admin.
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
    """Answers every request below /admin."""

    def __init__(
        self, settings: Settings, runner: Runner, body_reader: BodyReader, counters: Counters
    ) -> None:
        self._settings = settings
        self._runner = runner
        self._body_reader = body_reader
        self._counters = counters
        self._started_at = monotonic()
        self._building: asyncio.Future[ASGIApp] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        has_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_ADDRESS:
                await _send_text(send_with_headers, 414, "This address is too long.")
            elif scope["path"] == BASE:
                await _send_text(send_with_headers, 303, "", (b"location", f"{BASE}/".encode()))
            else:
                app = await self._get_app()
                await app(scope, receive, send_with_headers)
        except Exception as problem:
            if is_gone(scope):
                raise
            log.exception("a page failed", exc_info=problem)
            if not has_started:
                text = "Something went wrong. The server's log says more."
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
        # The collector would walk through all modules again and again, and every request would wait for it.
        gc.disable()
        try:
            from keywright.http.admin.app import build_app

            app = build_app(
                self._settings, self._runner, self._body_reader, self._counters, started_at=self._started_at
            )
            # The pages stay in memory for good.
            gc.freeze()
        finally:
            gc.enable()
        return app


async def _send_text(send: Send, status: int, text: str, *headers: tuple[bytes, bytes]) -> None:
    """Answer with plain text, where no page can be made."""
    body = f"{text}\n".encode() if text else b""
    plain = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*plain, *headers]})
    await send({"type": "http.response.body", "body": body})
