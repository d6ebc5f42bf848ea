"""A caller who attacks, and counts what it is answered."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from time import monotonic
from typing import Any, NamedTuple

from tools.attacks.wire import Answer, Connection, NotAnswered, Target

ADDRESS = "127.0.0.3"
#: A stranger waits so long for an answer, in seconds.
_TIMEOUT = 10.0


class Stranger:
    """An attacker with so many seconds from ``begin`` on, at ``address``."""

    def __init__(self, target: Target, seconds: float, address: str = ADDRESS) -> None:
        self.target = target
        self.seconds = seconds
        self.address = address
        #: How often it was answered with each status, and other outcomes in words.
        self.outcomes: Counter[str] = Counter()
        #: Bytes of the largest answer's body.
        self.largest = 0
        self._ends_at = monotonic() + seconds

    def begin(self) -> None:
        """The time runs from now on; nothing has been answered."""
        self.outcomes.clear()
        self._ends_at = monotonic() + self.seconds

    @property
    def left(self) -> float:
        """Seconds until the attack is over, at least 0."""
        return max(0.0, self._ends_at - monotonic())

    def connection(self, address: str | None = None) -> Connection:
        """A new connection, not opened yet, from this address or the stranger's."""
        return Connection(self.target.server, address or self.address)

    async def ask(self, connection: Connection, request: bytes) -> Answer | None:
        """Ask and count; None when there was no answer in time."""
        try:
            answer = await connection.ask(request, _TIMEOUT)
        except NotAnswered:
            self.outcomes["not answered"] += 1
            # Where connections are refused, nothing else would make the loop wait.
            await asyncio.sleep(0.01)
            return None
        self.outcomes[str(answer.status)] += 1
        self.largest = max(self.largest, len(answer.body))
        return answer

    async def at_a_rate(self, per_second: float) -> AsyncIterator[int]:
        """Numbers from 0, so many a second, until the attack is over."""
        began, number = monotonic(), 0
        while self.left:
            yield number
            number += 1
            await asyncio.sleep(min(self.left, max(0.0, began + number / per_second - monotonic())))

    async def all_the_time(self, connections: int, request: Callable[[], bytes]) -> None:
        """Ask as fast as answers come, over so many connections, until the attack is over."""

        async def over_one() -> None:
            async with self.connection() as connection:
                while self.left:
                    await self.ask(connection, request())

        await asyncio.gather(*(over_one() for _ in range(connections)))

    async def without_waiting(self, per_second: float, request: Callable[[int], Awaitable[object]]) -> None:
        """Begin so many requests a second, whether or not earlier ones were answered."""
        async with asyncio.TaskGroup() as begun:
            async for number in self.at_a_rate(per_second):
                begun.create_task(_awaited(request(number)))


class Attack(NamedTuple):
    """``strike`` goes on until the stranger's time is over. ``prepare``, before, is not measured."""

    title: str
    strike: Callable[[Stranger], Coroutine[Any, Any, None]]
    prepare: Callable[[Stranger], Awaitable[None]] | None = None
    address: str = ADDRESS


async def _awaited(waiting: Awaitable[object]) -> None:
    await waiting
