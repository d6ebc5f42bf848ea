"""Update the search terms from new events, in small steps and while no call waits."""

import asyncio
import logging
from time import monotonic, process_time

from keywright.background.loops import ORIGIN, read_clock
from keywright.core.command import Context
from keywright.core.errors import KeywrightError, StoreUnavailable, Unavailable
from keywright.engine.desk import Desk
from keywright.search.commands import ProjectEvents
from keywright.search.projector import Projected

#: The most events in a step: with a million licenses, changes wait about 15 ms for it.
_MAX_EVENTS = 100
#: The time between two steps when everything is up to date, in seconds.
_INTERVAL = 1.0
#: A step waits until no call waits at the desk, but not longer than the second of these, in seconds; the
#: first is the time between two checks.
_CHECK_INTERVAL, _MAX_DELAY = 0.05, 5.0
#: While much is left to do, the pause after a step is as long as the step on an idle server, and
#: 1 + 5,000 × load² times as long on a busy one: 3 times at a load of 0.02, 51 times at 0.1.
_LOAD_FACTOR = 5000.0
#: The least and the largest part of the time that steps may take. The second counts where steps are so slow
#: that a pause of ``_MAX_DELAY`` would leave them more.
_MIN_SHARE, _MAX_SHARE = 0.01, 0.1
#: The time over which the load is averaged, in seconds.
_LOAD_WINDOW = 0.5
#: The pause after the first fault, and the longest one, in seconds.
_FIRST_PAUSE, _MAX_PAUSE = 1.0, 30.0

log = logging.getLogger(__name__)


async def project_events(desk: Desk) -> None:
    """Take one step after the other, until this is cancelled."""
    load, faults, pause = _Load(), _Faults(), _INTERVAL
    while True:
        load.start()
        await asyncio.sleep(pause)
        await _wait_for_quiet(desk)
        load.stop()
        started = monotonic()
        try:
            step = await desk.execute(ProjectEvents(context=Context(read_clock(), ORIGIN), limit=_MAX_EVENTS))
        except KeywrightError as fault:
            pause = faults.pause_after(fault)
        else:
            faults.reset()
            pause = _pause_after(step, monotonic() - started, load.average)


async def _wait_for_quiet(desk: Desk) -> None:
    """Return when no call waits at the desk, or after ``_MAX_DELAY``."""
    end = monotonic() + _MAX_DELAY
    while desk.waiting and monotonic() < end:
        await asyncio.sleep(_CHECK_INTERVAL)


def _pause_after(step: Projected, seconds: float, load: float) -> float:
    """The pause after a step that took ``seconds``, in seconds."""
    if not step.rows or step.lag.is_complete:
        return _INTERVAL
    pause = seconds * min(1 + _LOAD_FACTOR * load**2, 1 / _MIN_SHARE)
    return min(pause, max(_MAX_DELAY, seconds / _MAX_SHARE))


class _Load:
    """The part of the time in which the process is busy, measured between steps."""

    def __init__(self) -> None:
        self.average = 0.0
        self._started = (0.0, 0.0)

    def start(self) -> None:
        """Start to measure: the step is over."""
        self._started = (monotonic(), process_time())

    def stop(self) -> None:
        """Stop measuring: the next step begins."""
        seconds = max(monotonic() - self._started[0], 1e-6)
        measured = (process_time() - self._started[1]) / seconds
        self.average += (measured - self.average) * min(1.0, seconds / _LOAD_WINDOW)


class _Faults:
    """Faults in a row: the pauses grow, and the log says it once."""

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
