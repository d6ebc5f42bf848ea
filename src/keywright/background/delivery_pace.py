"""When deliveries begin: evenly spread, and fewer while calls wait."""

import asyncio
from collections.abc import Callable
from time import monotonic, process_time

#: The most deliveries that begin in a second.
_MOST = 500.0
#: The most of them for each second of processor time that this process gets, while calls wait: then calls
#: wait for what a delivery takes, and a process that gets little time has as much less for deliveries.
_MOST_WHEN_BUSY, _LEAST_WHEN_BUSY = 230.0, 20.0
#: Calls wait, when they do at this part of the moments; and the weight of a moment.
_BUSY, _WEIGHT = 0.4, 0.05
#: Deliveries begin together that are less than this apart, in seconds: to wait has its price, too.
_GRAIN = 0.02
#: The time over which the processor time is measured, at least, in seconds.
_LOOK_INTERVAL = 0.5


class Pace:
    """The turns of all deliveries of a server process."""

    def __init__(self, count_waiting: Callable[[], int]) -> None:
        """``count_waiting`` returns the number of calls that wait now."""
        self._count_waiting = count_waiting
        #: The commands of deliveries themselves that have no outcome yet.
        self.own_commands = 0
        self._waiting = 0.0
        self._rate_when_busy = _MOST_WHEN_BUSY
        self._used, self._looked_at = process_time(), monotonic()
        self._next_at = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether calls wait most of the time."""
        return self._waiting > _BUSY

    def look(self) -> None:
        """Find out how much of the processor this process gets, from time to time."""
        self._note()
        used, now = process_time(), monotonic()
        if now - self._looked_at < _LOOK_INTERVAL:
            return
        share = (used - self._used) / max(now - self._looked_at, 0.001)
        self._rate_when_busy = min(max(_MOST_WHEN_BUSY * share, _LEAST_WHEN_BUSY), _MOST_WHEN_BUSY)
        self._used, self._looked_at = used, now

    async def wait(self) -> None:
        """Wait for a turn."""
        self._note()
        now = monotonic()
        turn_at = max(now, self._next_at)
        self._next_at = turn_at + 1 / (self._rate_when_busy if self.is_busy else _MOST)
        if turn_at - now > _GRAIN:
            await asyncio.sleep(turn_at - now)

    def _note(self) -> None:
        self._waiting += _WEIGHT * ((self._count_waiting() > self.own_commands) - self._waiting)
