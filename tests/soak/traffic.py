"""Calls at a constant rate, each from a customer who is asking nothing else.

A call is timed from the moment when it was due, so that a server that stands still is not spared the calls
that would have come meanwhile.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from itertools import count

from tests.deploy.plain import Direct, Line
from tests.http.asking import Reply
from tests.server import RunningServer
from tests.soak.customers import Wish
from tests.soak.doors import Asking

_CONNECTIONS = 24
_MAX_COMPLAINTS = 20


class Traffic:
    """What customers ask a server, and how they are served."""

    def __init__(self, server: RunningServer, customers: Sequence[Asking]) -> None:
        self._lines: asyncio.Queue[Line] = asyncio.Queue()
        for number in range(1, _CONNECTIONS + 1):
            # An address may send so many calls with an Idempotency-Key in a minute, and not those of all.
            self._lines.put_nowait(Line(Direct("direct", f"127.0.1.{number}", [server])))
        self._free = list(customers)
        self._running: set[asyncio.Task[None]] = set()
        #: How many calls of each kind were made.
        self.calls: Counter[str] = Counter()
        #: How many of each kind had a wrong answer or none, and what was wrong with the first of these.
        self.wrong: Counter[str] = Counter()
        self.complaints: list[str] = []
        self._seconds: list[float] = []

    @property
    def failed(self) -> int:
        """How many calls had a wrong answer or none."""
        return self.wrong.total()

    async def at_full_speed(self, seconds: float) -> float:
        """Ask without a pause; how many calls a second were answered."""
        began, before = time.monotonic(), self.calls.total()
        while time.monotonic() - began < seconds:
            await self._begin(time.monotonic())
        await self.rest()
        return (self.calls.total() - before) / (time.monotonic() - began)

    async def at_rate(self, rate: float, seconds: float) -> None:
        """So many calls a second, as far as they are answered in time."""
        began = due = time.monotonic()
        for number in count(1):
            if max(due, time.monotonic()) >= began + seconds:
                return
            await self._begin(due)
            due = began + number / rate
            if (early := due - time.monotonic()) > 0:
                await asyncio.sleep(early)

    async def rest(self) -> None:
        """Return when every call has its answer."""
        while self._running:
            await asyncio.wait(self._running)

    def take_seconds(self) -> list[float]:
        """How long each call took that ended since this was asked last."""
        taken, self._seconds = self._seconds, []
        return taken

    def close(self) -> None:
        while not self._lines.empty():
            self._lines.get_nowait().close()

    async def _begin(self, due: float) -> None:
        line = await self._lines.get()
        index = random.randrange(len(self._free))
        self._free[index], self._free[-1] = self._free[-1], self._free[index]
        task = asyncio.create_task(self._call(line, self._free.pop(), due))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _call(self, line: Line, customer: Asking, due: float) -> None:
        wish = customer.wish()
        answer = await line.ask(wish.request)
        self._seconds.append(time.monotonic() - due)
        self.calls[wish.kind] += 1
        self._lines.put_nowait(line)
        self._free.append(customer)
        wrong = "no answer" if answer.reply is None else _heard(wish, answer.reply)
        if wrong is not None:
            self.wrong[wish.kind] += 1
            if len(self.complaints) < _MAX_COMPLAINTS:
                self.complaints.append(f"{wish.kind}: {wrong}")


def _heard(wish: Wish, reply: Reply) -> str | None:
    try:
        return wish.hear(reply)
    except (AssertionError, LookupError, TypeError, ValueError) as problem:
        return f"{problem!r} in {reply.body[:200]!r}"
