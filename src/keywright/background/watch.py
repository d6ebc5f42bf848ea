"""Look for work in the tables, once for all loops in the background, and wake those that have some.

If each loop looked by itself, an idle server would begin several transactions a second.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from keywright.background.loops import IsClockRight, running
from keywright.core.errors import KeywrightError, ShuttingDown
from keywright.db import Question
from keywright.engine.desk import Desk
from keywright.engine.looking import LookForWork

#: The time between two looks, in seconds.
_INTERVAL = 0.5
#: The longest wait of a loop, in seconds.
_LONGEST_WAIT = 10.0


class Watch:
    """The loops that wait for work, each with the question that finds it; and whether the clock is right."""

    def __init__(self, desk: Desk, is_clock_right: IsClockRight = lambda: True) -> None:
        self._desk = desk
        self.is_clock_right = is_clock_right
        self._bells: dict[Question, Bell] = {}

    def add(self, question: Question, bell: "Bell") -> None:
        """Ring at each look at which the question finds a row. While the database does not answer, ring, too:
        the loop meets the same fault, and logs it.
        """
        self._bells[question] = bell

    async def run(self) -> None:
        """Look twice a second until this is cancelled or the desk is closed."""
        while True:
            await asyncio.sleep(_INTERVAL)
            try:
                found = await self._desk.query(LookForWork(questions=tuple(self._bells)))
            except ShuttingDown:
                return
            except KeywrightError:
                found = [True] * len(self._bells)
            for bell, has_work in zip(self._bells.values(), found, strict=True):
                if has_work:
                    bell.ring()


class Bell:
    """Rings when a loop has work. Belongs to one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._has_rung = asyncio.Event()

    def ring(self) -> None:
        """End the wait, or the next one. May be called in any thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._has_rung.set)

    async def wait(self) -> None:
        """Wait until it has rung since the last wait, but not for ever: a loop also has work by the hour."""
        # Not wait_for: before Python 3.12, one that is cancelled as it rings goes on.
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_WAIT):
                await self._has_rung.wait()
        self._has_rung.clear()


@asynccontextmanager
async def watching(desk: Desk, is_clock_right: IsClockRight = lambda: True) -> AsyncIterator[Watch]:
    """Look for work until the end of the block."""
    watch = Watch(desk, is_clock_right)
    async with running(watch.run()):
        yield watch
