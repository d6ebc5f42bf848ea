"""The bodies of requests while they are read and parsed: bounded in bytes for the whole process; the large
ones are parsed in one lane beside the event loop.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from starlette.types import Receive

from keywright.core.errors import QueueFull
from keywright.http.middleware.thread_pool import ThreadPool
from keywright.http.v2.parameters import read_body

#: The longest body of a caller without an API key that may read or write, in bytes.
MOST_OF_STRANGERS = 64 * 1024
#: The most bytes of bodies at once, and what is left of them to callers who are no strangers.
MOST_BYTES, SPARE_BYTES = 32 * 1024 * 1024, 8 * 1024 * 1024
#: A body of more bytes takes longer to parse than another call should wait for it.
LARGE = 4 * 1024
#: The most large bodies that wait for the lane, and how many of these places are not for strangers.
_MOST_WAITING, _SPARE_PLACES = 64, 32

Result = TypeVar("Result")


class BodyReader:
    """The place where bodies are read and parsed."""

    def __init__(self) -> None:
        self._lane = ThreadPool(1, _MOST_WAITING, "parsing")
        self._bytes = 0

    async def take(
        self,
        headers: Mapping[bytes, bytes],
        receive: Receive,
        limit: int,
        parse: Callable[[bytes], Result],
        *,
        is_stranger: bool,
    ) -> Result:
        """The result of ``parse`` for a body of at most ``limit`` bytes. Raises what ``read_body`` and
        ``parse`` raise, and ``QueueFull`` when there are too many bodies.
        """
        most, spare = MOST_BYTES, 0
        if is_stranger:
            limit, most, spare = min(limit, MOST_OF_STRANGERS), most - SPARE_BYTES, _SPARE_PLACES
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            if self._bytes + size > most:
                raise QueueFull
            held += size
            self._bytes += size

        try:
            body = await read_body(headers, receive, limit, hold)
            if len(body) > LARGE:
                return await self._lane.run(partial(parse, body), reserved=spare)
            return parse(body)
        finally:
            self._bytes -= held

    def close(self) -> None:
        """End the lane's thread."""
        self._lane.executor.shutdown(wait=False, cancel_futures=True)
