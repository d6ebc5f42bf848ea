"""Read and parse the bodies of requests, bounded in bytes for the whole process; large ones are parsed one at
a time in a thread.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from starlette.types import Message, Receive

from keywright.core.errors import BodyIncomplete, BodyTooLarge, EncodedBody, QueueFull, RequestTooSlow
from keywright.http.middleware.thread_pool import ThreadPool
from keywright.http.server.sockets import source_of

#: How long a body may take to arrive, in seconds.
BODY_TIMEOUT = 10
#: The longest body of a caller that is not trusted, in bytes.
MAX_UNTRUSTED_BODY = 64 * 1024
#: The most bytes of bodies at once, and how many of them only trusted callers may use.
MAX_BYTES, RESERVED_BYTES = 32 * 1024 * 1024, 8 * 1024 * 1024
#: The most bytes of bodies at once that come from one address, of callers who are not trusted.
MAX_BYTES_OF_ADDRESS = 4 * 1024 * 1024
#: A longer body, in bytes, takes longer to parse than another call should wait.
LARGE = 4 * 1024
#: The most large bodies that wait for the thread, and how many places only trusted callers may use.
_MAX_WAITING, _RESERVED_PLACES = 64, 32

Result = TypeVar("Result")


class BodyReader:
    """Reads and parses bodies."""

    def __init__(self) -> None:
        self._pool = ThreadPool(1, _MAX_WAITING, "parsing")
        self._bytes = 0
        #: The bytes of bodies of callers who are not trusted, by where they come from.
        self._bytes_of: Counter[str] = Counter()

    async def read(
        self,
        headers: Mapping[bytes, bytes],
        receive: Receive,
        limit: int,
        parse: Callable[[bytes], Result],
        *,
        address: str,
        is_trusted: bool,
        untrusted_limit: int = MAX_UNTRUSTED_BODY,
        timeout: float = BODY_TIMEOUT,
    ) -> Result:
        """The result of ``parse`` for a body of at most ``limit`` bytes. ``is_trusted`` means that the caller
        has an API key that may read or write, or is signed in; others may send ``untrusted_limit`` bytes.
        ``address`` is the client's; ``timeout`` is in seconds. Raises what ``read_body`` and ``parse`` raise,
        and ``QueueFull`` when there are too many bodies, in all or from there.
        """
        max_bytes, reserved, source = MAX_BYTES, 0, source_of(address)
        if not is_trusted:
            limit, max_bytes, reserved = (
                min(limit, untrusted_limit),
                max_bytes - RESERVED_BYTES,
                _RESERVED_PLACES,
            )
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            is_too_much = not is_trusted and self._bytes_of[source] + size > MAX_BYTES_OF_ADDRESS
            if is_too_much or self._bytes + size > max_bytes:
                raise QueueFull
            held += size
            self._bytes += size
            self._bytes_of[source] += 0 if is_trusted else size

        try:
            body = await read_body(headers, receive, limit, hold, timeout=timeout)
            if len(body) > LARGE:
                return await self._pool.run(partial(parse, body), reserved=reserved)
            return parse(body)
        finally:
            self._bytes -= held
            self._bytes_of[source] -= 0 if is_trusted else held
            if not self._bytes_of[source]:
                del self._bytes_of[source]

    def close(self) -> None:
        """End the thread."""
        self._pool.executor.shutdown(wait=False, cancel_futures=True)


def take_small_body(
    headers: Mapping[bytes, bytes], receive: Receive, limit: int
) -> tuple[bytes | None, Receive]:
    """The whole body, if it is small and has come already, as most have: to count it and to watch the clock
    would take longer than to read it. Otherwise None, and what receives the body.
    """
    announced = headers.get(b"content-length", b"")
    if not announced.isdigit() or int(announced) > min(limit, LARGE) or b"content-encoding" in headers:
        return None, receive
    waiting = receive().__await__()
    try:
        next(waiting)
    except StopIteration as ready:
        message: Message = ready.value
        if message["type"] == "http.request" and not message.get("more_body", False):
            return message.get("body", b""), receive
        return None, _receive_again(message, receive)
    # Nothing was taken: the next call of ``receive`` waits anew.
    waiting.close()
    return None, receive


def _receive_again(message: Message, receive: Receive) -> Receive:
    """Receives this message first."""
    messages = [message]

    async def receive_next() -> Message:
        return messages.pop() if messages else await receive()

    return receive_next


async def read_body(
    headers: Mapping[bytes, bytes],
    receive: Receive,
    limit: int,
    hold: Callable[[int], None],
    *,
    timeout: float = BODY_TIMEOUT,
) -> bytes:
    """The whole body. ``hold`` gets the size of each piece before the piece is kept.

    Raises ``EncodedBody``, ``BodyTooLarge``, ``BodyIncomplete``, ``RequestTooSlow`` or what ``hold`` raises.
    """
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding not in (b"", b"identity"):
        raise EncodedBody
    announced = headers.get(b"content-length", b"0")
    if announced.isdigit() and int(announced) > limit:
        raise BodyTooLarge
    body = bytearray()
    try:
        async with asyncio.timeout(timeout):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    # The missing part may have the parameter with the amount of the change.
                    raise BodyIncomplete
                piece = message.get("body", b"")
                if len(body) + len(piece) > limit:
                    raise BodyTooLarge
                hold(len(piece))
                body += piece
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise RequestTooSlow from None
