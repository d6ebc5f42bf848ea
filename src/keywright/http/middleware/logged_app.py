"""Serve an application beside the interfaces: health, documents, administration pages."""

import asyncio
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keywright.core.errors import FateUnknown
from keywright.http.answer import COMMON_HEADERS, JSON, ErrorWriter
from keywright.http.middleware.access_log import AccessLog


class LoggedApp:
    """Adds the common headers to the answers of an application, and logs its requests."""

    def __init__(self, app: ASGIApp, access_log: AccessLog, write_error: ErrorWriter) -> None:
        self._app = app
        self._access_log = access_log
        self._write_error = write_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        started = perf_counter()
        status, has_started = 500, False

        async def send_with_headers(message: Message) -> None:
            nonlocal status, has_started
            if message["type"] == "http.response.start":
                status, has_started = message["status"], True
                message["headers"] = _add_common_headers(message["headers"])
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except asyncio.CancelledError:
            # The server stops and waits no longer.
            if has_started:
                raise
            await self._answer_fate_unknown(send_with_headers)
        finally:
            self._access_log.log_page(scope, status, started)

    async def _answer_fate_unknown(self, send: Send) -> None:
        answer = self._write_error(FateUnknown())
        length = (b"content-length", b"%d" % len(answer.body))
        headers = [JSON, length, *answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})


def _add_common_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers, and the common ones that the application has not set: some static files may be cached."""
    names = {name for name, _ in headers}
    return [*headers, *(header for header in COMMON_HEADERS if header[0] not in names)]
