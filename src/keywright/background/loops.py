"""Shared by the loops in the background: their origin, their clock, and a task around a block."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import Any

from keywright.core.command import Origin
from keywright.core.errors import KeywrightError, Unavailable
from keywright.db import Storage

#: The origin of commands that no user and no caller has sent.
ORIGIN = Origin("keywright", "", "")
#: How long a read may take, in seconds, and how long while the server stops; then its connection is closed.
READ_TIMEOUT, LAST_READ_TIMEOUT = 60.0, 2.0
#: How long a loop may have to wait for the database before it is worth a warning, in seconds.
_USUAL_WAIT = 60.0

log = logging.getLogger(__name__)

#: Whether the clock can be believed now.
IsClockRight = Callable[[], bool]


def read_clock() -> datetime:
    """The time now, in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


@asynccontextmanager
async def running(loop: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run the loop beside the block; cancel it at the end of the block and wait until it has ended."""
    task = asyncio.create_task(loop)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def together(*blocks: AbstractAsyncContextManager[Any]) -> AsyncIterator[tuple[Any, ...]]:
    """Enter the blocks in their order; at the end, leave all at once: each may wait for the database."""
    async with AsyncExitStack() as entering:
        entered = tuple([await entering.enter_async_context(one) for one in blocks])
        entering.pop_all()
    try:
        yield entered
    finally:
        await asyncio.gather(*(one.__aexit__(None, None, None) for one in blocks))


@contextmanager
def interrupting(storage: Storage, after: float = LAST_READ_TIMEOUT) -> Iterator[None]:
    """Close the connection on which another thread reads, if the block takes longer than that, in seconds."""
    timeout = asyncio.get_running_loop().call_later(after, partial(storage.interrupt, writing=False))
    try:
        yield
    finally:
        timeout.cancel()


class Waits:
    """What the log says while a loop has to wait for the database. Calls come first, and a restart of the
    database takes its time: only when it goes on is it worth a warning, and then one a minute.
    """

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence
        self._warns_from: float | None = None
        self._errs_from = 0.0

    def log(self, fault: KeywrightError) -> None:
        """A turn came to nothing. Anything but a busy or absent database is a warning at once."""
        level, now = logging.WARNING, monotonic()
        if isinstance(fault, Unavailable):
            if self._warns_from is None:
                level = logging.INFO
            elif now < self._warns_from:
                return
            self._warns_from = now + _USUAL_WAIT
        log.log(level, "%s: %s", self._sentence, str(fault) or fault.say(fault.sentence))

    def log_unexpected(self, problem: Exception) -> None:
        """A turn met an error that nobody expects: one a minute, as turns that all meet it fill the disk."""
        now = monotonic()
        if now >= self._errs_from:
            self._errs_from = now + _USUAL_WAIT
            log.error("%s: an unexpected error", self._sentence, exc_info=problem)

    def reset(self) -> None:
        """A turn came to its end."""
        self._warns_from = None
