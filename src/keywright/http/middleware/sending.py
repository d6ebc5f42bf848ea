"""Send the answers of the v2 interface."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.types import Receive, Send

from keywright.core import errors as e
from keywright.http.v2 import messages
from keywright.http.v2.call import Answer, Call

_JSON = (b"content-type", b"application/json; charset=UTF-8")
#: What every answer says.
ALWAYS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
#: How long the answer to a caller that is over a limit is delayed, in seconds, and how many are at a time.
_DELAY, MOST_DELAYED = 0.25, 256


class RefusalDelay:
    """Delays answers to callers that are over a limit. One that asks again at once, over many connections,
    would keep the server busy with refusals, and every other caller waiting.
    """

    def __init__(self) -> None:
        self._delayed = 0

    async def delay(self) -> None:
        """Wait, unless as many wait already as may: each holds a connection, perhaps a proxy's."""
        if self._delayed >= MOST_DELAYED:
            return
        self._delayed += 1
        try:
            await asyncio.sleep(_DELAY)
        finally:
            self._delayed -= 1


async def send_answer(call: Call, send: Send, answer: Answer) -> None:
    """Send the answer, whole or piece by piece."""
    headers = [_JSON, *ALWAYS, *answer.headers]
    if answer.pieces is not None:
        if call.scope["http_version"] != "1.0":
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await _send_pieces(call, send, answer.pieces)
            return
        # It knows no pieces.
        answer.body = b"".join([piece async for piece in answer.pieces])
    headers.append((b"content-length", b"%d" % len(answer.body)))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


async def _send_pieces(call: Call, send: Send, pieces: AsyncGenerator[bytes, None]) -> None:
    """Send the body piece by piece, as long as the caller is there."""
    gone = asyncio.ensure_future(_until_gone(call.receive))
    try:
        async with aclosing(pieces):
            async for piece in pieces:
                if gone.done() or call.scope["method"] == "HEAD":
                    break
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        gone.cancel()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def say_unknown(send: Send) -> None:
    """Say that the server stops before an answer is known."""
    status, body = messages.write(e.FateUnknown(), messages.NO_SAYINGS)
    length = (b"content-length", b"%d" % len(body))
    headers = [_JSON, length, *messages.headers(e.FateUnknown())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
