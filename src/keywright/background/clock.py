"""Decide whether this server's clock can be trusted. While it is not, nothing is deleted because of its age,
no event of an expiry is made, no usage period is closed, and no mail or webhook is sent.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from time import monotonic

from keywright.background.loops import ORIGIN, Waits, read_clock, running
from keywright.core.command import Context
from keywright.core.errors import KeywrightError
from keywright.core.parsing import write_time
from keywright.engine.desk import Desk
from keywright.maintenance.clock import is_plausible
from keywright.maintenance.tasks import BelieveClock, FindBelieved

#: After being in doubt for this long, a clock is trusted, whatever time it shows.
DOUBTED_FOR = timedelta(hours=48)
#: The time between two checks, and between two saves of a trusted time, in seconds.
_INTERVAL, _SAVE_INTERVAL = 10.0, 1800.0

log = logging.getLogger(__name__)


class ClockGuard:
    """Compares the clock with the last trusted time; it trusts no clock until ``look`` was called."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._believed: datetime | None = None
        self._doubted_since: float | None = None
        self._next_save = 0.0

    def is_right(self) -> bool:
        """Return whether the clock can be trusted now."""
        now = read_clock()
        is_right = self._believed is not None and is_plausible(now, self._believed)
        if is_right:
            self._believed = now
        return is_right

    async def look(self) -> None:
        """Check a clock again that is not trusted; save the time of a trusted one now and then. Raises the
        desk's faults.
        """
        if not self.is_right():
            await self._doubt(read_clock())
        if not self.is_right():
            return
        if self._doubted_since is not None:
            self._doubted_since, self._next_save = None, 0.0
            log.info("the clock is believed again")
        if monotonic() >= self._next_save:
            await self._desk.execute(BelieveClock(context=Context(read_clock(), ORIGIN)))
            self._next_save = monotonic() + _SAVE_INTERVAL

    async def _doubt(self, now: datetime) -> None:
        believed: datetime | None = await self._desk.query(FindBelieved())
        since = self._doubted_since
        is_over = since is not None and monotonic() - since >= DOUBTED_FOR.total_seconds()
        if believed is None or is_over or is_plausible(now, believed):
            self._believed = now
        elif since is None:
            self._doubted_since = monotonic()
            log.warning(
                "the clock says %s UTC, and the last moment known to be right was %s UTC: nothing is deleted "
                "and nothing is sent until the clock is right, or `keywright doctor --confirm-clock` says "
                "that it is, or for 48 hours",
                write_time(now),
                write_time(believed),
            )


@asynccontextmanager
async def watching_clock(desk: Desk) -> AsyncIterator[ClockGuard]:
    """Check the clock before the block, and repeatedly until the end of the block."""
    guard = ClockGuard(desk)
    with suppress(KeywrightError):
        await guard.look()
    async with running(_watch(guard)):
        yield guard


async def _watch(guard: ClockGuard) -> None:
    waits = Waits("the clock has to be believed later")
    while True:
        await asyncio.sleep(_INTERVAL)
        try:
            await guard.look()
            waits.reset()
        except KeywrightError as fault:
            waits.log(fault)
