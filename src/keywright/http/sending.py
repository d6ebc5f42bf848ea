"""Send the answers of the v2 interface."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.types import Receive, Send

from keywright import errors as e
from keywright.http import problems
from keywright.http.calls import Answer, Call

_JSON = (b"content-type", b"application/json; charset=UTF-8")
#: What every answer says.
ALWAYS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


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
    status, body = problems.write(e.FateUnknown(), problems.NO_SAYINGS)
    length = (b"content-length", b"%d" % len(body))
    headers = [_JSON, length, *problems.headers(e.FateUnknown())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
