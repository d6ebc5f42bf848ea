"""Helpers of the background loops: their origin and clock, a task that runs during a block, a thread with its
own connection.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from keywright.core.command import Origin
from keywright.core.errors import KeywrightError, TookTooLong, Unavailable
from keywright.db import ReadTransaction, Storage, run_read

Answer = TypeVar("Answer")

#: The origin of commands that neither a user nor a caller has sent.
ORIGIN = Origin("keywright", "", "")
#: The timeout of a read, and the one while the server stops, in seconds; then its connection is interrupted.
READ_TIMEOUT, LAST_READ_TIMEOUT = 60.0, 2.0
#: How long a loop may have to wait for the database before that is logged as a warning, in seconds.
_USUAL_WAIT = 60.0

log = logging.getLogger(__name__)

#: Returns whether the clock can be trusted now.
IsClockRight = Callable[[], bool]


def read_clock() -> datetime:
    """Return the current time, in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


@asynccontextmanager
async def running(loop: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run the loop during the block; at the end of the block, cancel it and wait until it has ended."""
    task = asyncio.create_task(loop)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


class Aside:
    """A thread with its own database connection. Belongs to one event loop."""

    def __init__(self, storage: Storage, name: str) -> None:
        self.storage = storage.clone()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._is_free = asyncio.Lock()
        self._timers: list[asyncio.TimerHandle] = []

    def run(self, work: Callable[[], Answer]) -> "asyncio.Future[Answer]":
        """Run a function in the thread."""
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def read(self, question: Callable[[ReadTransaction], Answer]) -> Answer:
        """Run a read in the thread, and return its result. Raises ``TookTooLong`` after a timeout."""
        async with self._is_free:
            began = monotonic()
            timeout = asyncio.get_running_loop().call_later(READ_TIMEOUT, self._interrupt)
            try:
                return await self.run(partial(run_read, self.storage, question))
            except Unavailable as fault:
                if monotonic() - began < READ_TIMEOUT:
                    raise
                raise TookTooLong("a query took too long") from fault
            finally:
                timeout.cancel()

    def stop(self) -> None:
        """Interrupt the read after a short timeout, if it is still running."""
        self.call_later(LAST_READ_TIMEOUT, self._interrupt)

    def call_later(self, seconds: float, call: Callable[..., Any], *given: Any) -> None:
        """Call a function in the event loop after this time, unless this is closed before."""
        self._timers.append(asyncio.get_running_loop().call_later(seconds, call, *given))

    def cancel_calls(self) -> None:
        """Cancel all calls of ``call_later``."""
        while self._timers:
            self._timers.pop().cancel()

    async def close(self) -> None:
        """Close the connection, and end the thread."""
        await self.run(self.storage.close)
        self.cancel_calls()
        self._thread.shutdown()

    def _interrupt(self) -> None:
        self.storage.interrupt(writing=False)


class Waits:
    """Logs that a loop has to wait for the database. Calls have priority, and a restart of the database takes
    time, so a warning is logged only if the wait continues, and then once a minute.
    """

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence
        self._warns_from: float | None = None
        self._errs_from = 0.0

    def log(self, fault: Exception) -> None:
        """Log that a run failed. Anything but a busy or unavailable database is a warning at once."""
        if not isinstance(fault, KeywrightError):
            self._log_unexpected(fault)
            return
        level, now = logging.WARNING, monotonic()
        if isinstance(fault, Unavailable):
            if self._warns_from is None:
                level = logging.INFO
            elif now < self._warns_from:
                return
            self._warns_from = now + _USUAL_WAIT
        log.log(level, "%s: %s", self._sentence, str(fault) or fault.fill(fault.sentence))

    def _log_unexpected(self, problem: Exception) -> None:
        """Log an unexpected error, at most once a minute: repeated tracebacks could fill the disk."""
        now = monotonic()
        if now >= self._errs_from:
            self._errs_from = now + _USUAL_WAIT
            log.error("%s: an unexpected error", self._sentence, exc_info=problem)

    def reset(self) -> None:
        """Note that a run succeeded."""
        self._warns_from = None
