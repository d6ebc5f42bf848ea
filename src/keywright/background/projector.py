"""Find out which events are settled, and update the search terms from new ones, in small steps that take a
part of the time: more of it while nothing else is done.
"""

import asyncio
import logging
from contextlib import suppress
from time import monotonic, process_time

from keywright.background.loops import ORIGIN, read_clock
from keywright.background.queue import Queue
from keywright.core.command import Context
from keywright.core.errors import KeywrightError, StoreUnavailable, Unavailable
from keywright.engine.desk import Desk
from keywright.events.model import SettleEvents
from keywright.events.store import UNSETTLED
from keywright.search.projector import MAX_EVENTS, Projected
from keywright.search.statistics import ProjectEvents
from keywright.search.terms_store import NEW_EVENTS

#: The largest part of the time that steps may take, and while this process is idle: between steps, it uses no
#: more than this part of a processor.
_SHARE, _SHARE_WHEN_IDLE, _IDLE = 0.07, 0.5, 0.1
#: How long a step should take, in seconds: changes that arrive meanwhile wait for it.
_STEP_SECONDS = 0.02
#: The least limit of events in a step, however slow it is: a small step is mostly its commit.
_MIN_EVENTS = 100
#: The shortest pause between two steps when everything is up to date, in seconds.
_INTERVAL = 1.0
#: The pause between two looks at what is settled, in seconds.
_SETTLING_INTERVAL = 0.25
#: The pause after the first fault, and the longest one, in seconds.
_FIRST_PAUSE, _MAX_PAUSE = 1.0, 30.0

log = logging.getLogger(__name__)


async def project_events(desk: Desk, queue: Queue) -> None:
    """Take one step after the other while there are new events, until this is cancelled."""
    limit, pause, load, faults = _MIN_EVENTS, _INTERVAL, 0.0, _Faults()
    is_complete, bell = False, queue.add_bell(NEW_EVENTS)
    while True:
        used = process_time()
        await asyncio.sleep(pause)
        # As it was in the last second or so.
        load += min(pause, 1.0) * ((process_time() - used) / pause - load)
        if is_complete:
            await bell.wait()
        step = ProjectEvents(context=Context(read_clock(), ORIGIN), limit=limit)
        call = _TimedCall()
        try:
            projected = await desk.execute(step, call)
        except KeywrightError as fault:
            pause = faults.pause_after(fault)
        else:
            faults.reset()
            seconds = call.seconds()
            is_complete = projected.lag.is_complete
            share = _SHARE_WHEN_IDLE if load <= _IDLE else _SHARE
            limit, pause = _next_limit(limit, projected, seconds), _pause_after(projected, seconds, share)


async def settle_events(desk: Desk, queue: Queue) -> None:
    """Find out what is settled while there are new events, until this is cancelled: webhooks and the event
    feed wait for it. Nothing needs to be found out where one writes at a time.
    """
    if desk.is_local:
        return
    bell = queue.add_bell(UNSETTLED)
    while True:
        await bell.wait()
        # While the database does not answer, the bell rings, too.
        with suppress(KeywrightError):
            while not await desk.execute(SettleEvents(context=Context(read_clock(), ORIGIN))):
                await asyncio.sleep(_SETTLING_INTERVAL)


class _TimedCall:
    """Measures a call from when the desk begins to decide it; the time in the queue does not count."""

    is_gone = False

    def __init__(self) -> None:
        self._started = monotonic()

    @property
    def is_begun(self) -> bool:
        """Whether the desk has begun; setting it starts the clock."""
        return True

    @is_begun.setter
    def is_begun(self, _: bool) -> None:
        self._started = monotonic()

    def seconds(self) -> float:
        """The time since the desk began, in seconds."""
        return monotonic() - self._started


def _next_limit(limit: int, projected: Projected, seconds: float) -> int:
    """The most events in the next step, after one with ``limit`` that took ``seconds``."""
    if projected.rows < limit and seconds <= _STEP_SECONDS:
        # It was quick because it found little.
        return limit
    # At most twice as many: one quick step may be an exception.
    wanted = int(min(projected.rows, limit) * min(_STEP_SECONDS / seconds, 2.0))
    return min(max(wanted, _MIN_EVENTS), MAX_EVENTS)


def _pause_after(projected: Projected, seconds: float, share: float) -> float:
    """The pause after a step that took ``seconds``, in seconds; steps may take this share of the time."""
    pause = seconds / share - seconds
    has_more = projected.rows and not projected.lag.is_complete
    return pause if has_more else max(pause, _INTERVAL)


class _Faults:
    """Faults in a row: the pauses grow, and it is logged once."""

    def __init__(self) -> None:
        self._pause = _FIRST_PAUSE
        self._is_logged = False

    def pause_after(self, fault: KeywrightError) -> float:
        """The pause after the fault, in seconds."""
        if isinstance(fault, StoreUnavailable) and not self._is_logged:
            self._is_logged = True
            log.warning("the search of the administration pages waits for the database: %s", fault)
        pause, self._pause = self._pause, min(2 * self._pause, _MAX_PAUSE)
        # Anything else is a bug, which the desk has logged.
        return pause if isinstance(fault, Unavailable) else 10 * _MAX_PAUSE

    def reset(self) -> None:
        """A step succeeded."""
        self._pause, self._is_logged = _FIRST_PAUSE, False
