"""An attacker that counts the responses."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from time import monotonic
from typing import Any, NamedTuple

from tools.attacks.wire import Answer, Connection, NotAnswered, Target

ADDRESS = "127.0.0.3"
#: The timeout for a response, in seconds.
_TIMEOUT = 10.0


class Stranger:
    """An attacker that runs for ``seconds`` from ``begin`` on, from this address."""

    def __init__(self, target: Target, seconds: float, address: str = ADDRESS) -> None:
        self.target = target
        self.seconds = seconds
        self.address = address
        #: The number of responses by status, and of other outcomes by description.
        self.outcomes: Counter[str] = Counter()
        #: The size of the largest response body, in bytes.
        self.largest = 0
        self._ends_at = monotonic() + seconds

    def begin(self) -> None:
        """Start the time, and reset the outcomes."""
        self.outcomes.clear()
        self._ends_at = monotonic() + self.seconds

    @property
    def left(self) -> float:
        """The seconds until the attack is over, at least 0."""
        return max(0.0, self._ends_at - monotonic())

    def connection(self, address: str | None = None) -> Connection:
        """Create a connection, not yet opened, from this address or the attacker's."""
        return Connection(self.target.server, address or self.address)

    async def ask(self, connection: Connection, request: bytes) -> Answer | None:
        """Send a request and count the response; None if there is none in time."""
        try:
            answer = await connection.ask(request, _TIMEOUT)
        except NotAnswered:
            self.outcomes["not answered"] += 1
            # Yield to the event loop: refused connections fail immediately.
            await asyncio.sleep(0.01)
            return None
        self.outcomes[str(answer.status)] += 1
        self.largest = max(self.largest, len(answer.body))
        return answer

    async def at_a_rate(self, per_second: float) -> AsyncIterator[int]:
        """Yield numbers from 0 at this rate until the attack is over."""
        began, number = monotonic(), 0
        while self.left:
            yield number
            number += 1
            await asyncio.sleep(min(self.left, max(0.0, began + number / per_second - monotonic())))

    async def all_the_time(self, connections: int, request: Callable[[], bytes]) -> None:
        """Send requests at full speed over this many connections until the attack is over."""

        async def over_one() -> None:
            async with self.connection() as connection:
                while self.left:
                    await self.ask(connection, request())

        await asyncio.gather(*(over_one() for _ in range(connections)))

    async def without_waiting(self, per_second: float, request: Callable[[int], Awaitable[object]]) -> None:
        """Start requests at this rate, without waiting for earlier responses."""
        async with asyncio.TaskGroup() as begun:
            async for number in self.at_a_rate(per_second):
                begun.create_task(_awaited(request(number)))


class Attack(NamedTuple):
    """An attack: ``strike`` runs until the attacker's time is over; ``prepare`` runs before, unmeasured."""

    title: str
    strike: Callable[[Stranger], Coroutine[Any, Any, None]]
    prepare: Callable[[Stranger], Awaitable[None]] | None = None
    address: str = ADDRESS


async def _awaited(waiting: Awaitable[object]) -> None:
    await waiting
