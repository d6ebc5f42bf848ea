"""Settle events, and update the search terms from new events, in small steps that use a limited share of the
time, and a larger share while the process is idle.
"""

import asyncio
import logging
from contextlib import suppress
from datetime import datetime, timedelta
from time import monotonic, process_time

from keywright.background.loops import ORIGIN, read_clock
from keywright.background.queue import Queue
from keywright.core.command import Context
from keywright.core.errors import KeywrightError, StoreUnavailable, Unavailable
from keywright.engine.desk import Desk
from keywright.events.model import SettleEvents
from keywright.events.store import UNSETTLED
from keywright.search.projector import MAX_EVENTS, Lag, Projected
from keywright.search.statistics import ProjectEvents
from keywright.search.terms_store import NEW_EVENTS

#: The largest share of the time for steps: usually, and while this process is idle or busy.
_SHARE, _SHARE_WHEN_IDLE, _SHARE_WHEN_BUSY = 0.07, 0.5, 0.02
#: The share of a processor up to which the process counts as idle between steps, and from which it counts as
#: busy.
_IDLE, _BUSY = 0.1, 0.6
#: How old the oldest event may become in a busy process before steps get their usual share again.
_RECENT = timedelta(seconds=30)
#: The target duration of a step, in seconds: changes wait while it runs.
_STEP_SECONDS = 0.02
#: The lowest limit of events in a step, however slow it is: the commit takes most of a small step.
_MIN_EVENTS = 100
#: The shortest pause between two steps when everything is up to date, in seconds.
_INTERVAL = 1.0
#: The polling interval while events are not settled, in seconds.
_SETTLING_INTERVAL = 0.25
#: The pause after the first fault, and the longest one, in seconds.
_FIRST_PAUSE, _MAX_PAUSE = 1.0, 30.0

log = logging.getLogger(__name__)


async def project_events(desk: Desk, queue: Queue) -> None:
    """Update the search terms step by step while there are new events, until this is cancelled."""
    limit, pause, load, faults = _MIN_EVENTS, _INTERVAL, 0.0, _Faults()
    is_complete, bell = False, queue.add_bell(NEW_EVENTS)
    while True:
        used = process_time()
        await asyncio.sleep(pause)
        # An average over the last second or so.
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
            share = _find_share(load, projected.lag, read_clock())
            limit, pause = _next_limit(limit, projected, seconds), _pause_after(projected, seconds, share)


async def settle_events(desk: Desk, queue: Queue) -> None:
    """Settle events while there are new ones, until this is cancelled; webhooks and the event feed wait for
    it. A database with a single writer does not need it.
    """
    if desk.is_local:
        return
    bell = queue.add_bell(UNSETTLED)
    while True:
        await bell.wait()
        # The bell also rings while the database does not answer.
        with suppress(KeywrightError):
            while not await desk.execute(SettleEvents(context=Context(read_clock(), ORIGIN))):
                await asyncio.sleep(_SETTLING_INTERVAL)


class _TimedCall:
    """Measures a call from the moment the desk begins to decide it, without its time in the queue."""

    is_gone = False

    def __init__(self) -> None:
        self._started = monotonic()

    @property
    def is_begun(self) -> bool:
        """Whether the desk has begun this call; setting it starts the measurement."""
        return True

    @is_begun.setter
    def is_begun(self, _: bool) -> None:
        self._started = monotonic()

    def seconds(self) -> float:
        """Return the time since the desk began, in seconds."""
        return monotonic() - self._started


def _next_limit(limit: int, projected: Projected, seconds: float) -> int:
    """Return the limit of events in the next step, after one with ``limit`` that took ``seconds``."""
    if projected.rows < limit and seconds <= _STEP_SECONDS:
        # It was fast because it found few events.
        return limit
    # At most twice as many: one fast step may be an exception.
    wanted = int(min(projected.rows, limit) * min(_STEP_SECONDS / seconds, 2.0))
    return min(max(wanted, _MIN_EVENTS), MAX_EVENTS)


def _find_share(load: float, lag: Lag, now: datetime) -> float:
    """Return the share of the time for steps at this processor load."""
    if load <= _IDLE:
        return _SHARE_WHEN_IDLE
    is_recent = lag.oldest_at is not None and now - lag.oldest_at < _RECENT
    return _SHARE_WHEN_BUSY if load >= _BUSY and is_recent else _SHARE


def _pause_after(projected: Projected, seconds: float, share: float) -> float:
    """Return the pause in seconds after a step that took ``seconds``; ``share`` is the time for steps."""
    pause = seconds / share - seconds
    has_more = projected.rows and not projected.lag.is_complete
    return pause if has_more else max(pause, _INTERVAL)


class _Faults:
    """Backs off after consecutive faults, and logs them once."""

    def __init__(self) -> None:
        self._pause = _FIRST_PAUSE
        self._is_logged = False

    def pause_after(self, fault: KeywrightError) -> float:
        """Return the pause after the fault, in seconds."""
        if isinstance(fault, StoreUnavailable) and not self._is_logged:
            self._is_logged = True
            log.warning("the search of the administration pages waits for the database: %s", fault)
        pause, self._pause = self._pause, min(2 * self._pause, _MAX_PAUSE)
        # Any other fault is a bug, which the desk has logged.
        return pause if isinstance(fault, Unavailable) else 10 * _MAX_PAUSE

    def reset(self) -> None:
        """Reset the pause after a successful step."""
        self._pause, self._is_logged = _FIRST_PAUSE, False
