"""Read and parse request bodies, with a limit on their total size in the process. Large bodies are parsed in
a thread, one at a time.
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

#: The timeout for receiving a body, in seconds.
BODY_TIMEOUT = 10
#: The maximum size of a body from an untrusted caller, in bytes.
MAX_UNTRUSTED_BODY = 64 * 1024
#: The maximum size of all bodies in memory, in bytes, and the part of it that is reserved for trusted
#: callers.
MAX_BYTES, RESERVED_BYTES = 32 * 1024 * 1024, 8 * 1024 * 1024
#: The maximum size of all bodies in memory from untrusted callers at one address, in bytes.
MAX_BYTES_OF_ADDRESS = 4 * 1024 * 1024
#: Larger bodies, in bytes, take longer to parse than other calls should have to wait.
LARGE = 4 * 1024
#: The most large bodies that may wait for the thread, and how many of these places are reserved for trusted
#: callers.
_MAX_WAITING, _RESERVED_PLACES = 64, 32

Result = TypeVar("Result")


class BodyReader:
    """Reads and parses bodies."""

    def __init__(self) -> None:
        self._pool = ThreadPool(1, _MAX_WAITING, "parsing")
        self._bytes = 0
        #: The size of bodies from untrusted callers, in bytes, by source.
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
        """Read a body of at most ``limit`` bytes, and return the result of ``parse``. A trusted caller has an
        API key that may read or write, or is signed in; others may send ``untrusted_limit`` bytes.
        ``address`` is the client's; ``timeout`` is in seconds. Raises what ``read_body`` and ``parse`` raise,
        and ``QueueFull`` if there are too many bodies, in total or from that source.
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
        """Shut down the thread."""
        self._pool.executor.shutdown(wait=False, cancel_futures=True)


def take_small_body(
    headers: Mapping[bytes, bytes], receive: Receive, limit: int
) -> tuple[bytes | None, Receive]:
    """The whole body if it is small and has already arrived, which is the usual case: accounting and a
    timeout would cost more than reading it. Otherwise None, and the function to receive it with.
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
    # Nothing was received: the next call of ``receive`` starts over.
    waiting.close()
    return None, receive


def _receive_again(message: Message, receive: Receive) -> Receive:
    """A ``receive`` that returns this message first."""
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
    """Read the whole body. ``hold`` is called with the size of each chunk before the chunk is kept.

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
                    # The missing part may contain the parameter that limits the change.
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
