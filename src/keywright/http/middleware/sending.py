"""Convert exceptions to errors, and send answers."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Send

from keywright.core import errors as e
from keywright.http.answer import COMMON_HEADERS, Answer, ErrorWriter, to_response
from keywright.http.middleware.call import Call

log = logging.getLogger(__name__)

Handler = Callable[[Request, Exception], Awaitable[Response]]


def to_keywright_error(problem: BaseException, call: Call) -> e.KeywrightError:
    """The error to answer the call with. Unexpected exceptions are logged."""
    if isinstance(problem, e.KeywrightError):
        return problem
    if isinstance(problem, asyncio.CancelledError):
        # The server is stopping and no longer waits. If the desk has not begun the call, nothing was changed.
        return e.FateUnknown() if call.is_change and call.is_begun else e.ShuttingDown()
    log.error("an unexpected error", exc_info=problem)
    return e.Fault()


def exception_handlers(write_error: ErrorWriter) -> Mapping[type[Exception], Handler]:
    """The exception handlers of a Starlette application; ``write_error`` builds their answers."""

    async def refuse(_request: Request, problem: Exception) -> Response:
        if isinstance(problem, HTTPException) and problem.status_code == 405:
            allowed = (problem.headers or {}).get("Allow", "")
            return to_response(write_error(e.MethodNotAllowed(tuple(allowed.split(", ")))))
        return to_response(write_error(e.NoSuchAddress()))

    async def fail(_request: Request, _problem: Exception) -> Response:
        return to_response(write_error(e.Fault()))

    return {HTTPException: refuse, Exception: fail}


#: The delay of answers to rate-limited callers, in seconds, and the maximum number of delayed answers.
DELAY, MAX_DELAYED = 0.25, 256
_NO_CONTENT = 204


class RefusalDelay:
    """Delays answers to rate-limited callers. Otherwise, a caller that retries at once over many connections
    could keep the server busy with refusals, and other calls would wait.
    """

    def __init__(self) -> None:
        self._delayed = 0

    async def wait(self) -> None:
        """Wait, unless the maximum number of answers is waiting: each holds a connection, possibly a proxy's.
        A server that stops cancels the delay, and the answer is sent.
        """
        if self._delayed >= MAX_DELAYED:
            return
        self._delayed += 1
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(DELAY)
        self._delayed -= 1


async def send_answer(call: Call, send: Send, answer: Answer) -> None:
    """Send the answer, whole or in pieces."""
    if answer.app is not None:
        await _send_by_app(call, send, answer, answer.app)
        return
    if answer.status == _NO_CONTENT:
        await send(
            {"type": "http.response.start", "status": 204, "headers": [*COMMON_HEADERS, *answer.headers]}
        )
        await send({"type": "http.response.body", "body": b""})
        return
    headers = [answer.content_type, *COMMON_HEADERS, *answer.headers]
    if answer.pieces is not None:
        if call.scope["http_version"] != "1.0":
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await _send_pieces(call, send, answer.pieces)
            return
        # HTTP/1.0 has no chunked encoding.
        answer.body = b"".join([piece async for piece in answer.pieces])
    headers.append((b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _send_by_app(call: Call, send: Send, answer: Answer, app: ASGIApp) -> None:
    """Let an application send the answer, with our headers added."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            message["headers"] = [*message["headers"], COMMON_HEADERS[0], *answer.headers]
        await send(message)

    await app(call.scope, call.receive, send_with_headers)


async def _send_pieces(call: Call, send: Send, pieces: AsyncGenerator[bytes, None]) -> None:
    """Send the body in pieces, until the caller disconnects."""
    gone = asyncio.ensure_future(_wait_for_disconnect(call.receive))
    try:
        async with aclosing(pieces):
            async for piece in pieces:
                if gone.done() or call.method == "HEAD":
                    break
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        gone.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
