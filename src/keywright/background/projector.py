"""Let the search follow the events while nobody is kept waiting by that."""

import asyncio
import logging
from datetime import UTC, datetime
from time import monotonic, process_time

from keywright.core.command import Origin
from keywright.core.errors import KeywrightError, StoreUnavailable, Unavailable
from keywright.engine.desk import Desk
from keywright.search.commands import ProjectEvents
from keywright.search.projector import Projected

#: How many events are followed at once: with a million licenses, changes wait for some 15 ms meanwhile.
_AT_ONCE = 100
#: How often it is looked whether there are events to be followed, and whether nobody waits meanwhile; and how
#: often at least some are followed, however busy it is. In seconds.
_LOOK_EVERY = 1.0
_GLANCE_EVERY = 0.05
_AT_LEAST_EVERY = 5.0
#: While much is left, a step is followed by as long a rest when nothing else is done, and by a longer one,
#: 1 + 5,000 × load² times as long, when the process is otherwise busy for this part (load) of the time:
#: three times as long at 0.02, 51 times at 0.1.
_REST_FOR_LOAD = 5000.0
#: Yet this part of the time is always for steps; and this at most, where they take so long that a rest of
#: some seconds would leave more.
_LEAST_OF_TIME, _MOST_OF_TIME = 0.01, 0.1
#: Over how long the load is averaged, in seconds.
_LOAD_OVER = 0.5
#: How long is waited after the first fault, and at most, in seconds.
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0
_ORIGIN = Origin("keywright", "", "")

log = logging.getLogger(__name__)


async def follow(desk: Desk) -> None:
    """Let the search follow the events, without end."""
    load, trouble, rest = _Load(), _Trouble(), _LOOK_EVERY
    while True:
        load.begin()
        await asyncio.sleep(rest)
        await _until_nobody_waits(desk)
        load.end()
        began = monotonic()
        try:
            followed = await desk.execute(ProjectEvents(now=_now(), origin=_ORIGIN, limit=_AT_ONCE))
        except KeywrightError as fault:
            rest = trouble.met(fault)
        else:
            trouble.is_over()
            rest = _rest_after(followed, monotonic() - began, load.now)


async def _until_nobody_waits(desk: Desk) -> None:
    end = monotonic() + _AT_LEAST_EVERY
    while desk.waiting and monotonic() < end:
        await asyncio.sleep(_GLANCE_EVERY)


def _rest_after(followed: Projected, seconds: float, load: float) -> float:
    """How long to rest after a step that took so long."""
    if not followed.rows or followed.lag.is_complete:
        return _LOOK_EVERY
    rest = seconds * min(1 + _REST_FOR_LOAD * load**2, 1 / _LEAST_OF_TIME)
    return min(rest, max(_AT_LEAST_EVERY, seconds / _MOST_OF_TIME))


class _Load:
    """How busy the process is with other things than following: for which part of the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._began = (0.0, 0.0)

    def begin(self) -> None:
        """Nothing is followed from now on."""
        self._began = (monotonic(), process_time())

    def end(self) -> None:
        """Nothing was followed until now."""
        seconds = max(monotonic() - self._began[0], 1e-6)
        measured = (process_time() - self._began[1]) / seconds
        self.now += (measured - self.now) * min(1.0, seconds / _LOAD_OVER)


class _Trouble:
    """What keeps the search from following: said once, until it is over."""

    def __init__(self) -> None:
        self._wait = _FIRST_WAIT
        self._is_said = False

    def met(self, fault: KeywrightError) -> float:
        """How long to leave it alone, in seconds."""
        if isinstance(fault, StoreUnavailable) and not self._is_said:
            self._is_said = True
            log.warning("the search of the administration pages waits for the database: %s", fault)
        wait, self._wait = self._wait, min(2 * self._wait, _LONGEST_WAIT)
        # Anything else is a fault of the program, which has been written to the log.
        return wait if isinstance(fault, Unavailable) else 10 * _LONGEST_WAIT

    def is_over(self) -> None:
        self._wait, self._is_said = _FIRST_WAIT, False


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
