"""Shared by the loops in the background: their origin, their clock, and a task around a block."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

from keywright.core.command import Origin
from keywright.db import Storage

#: The origin of commands that no user and no caller has sent.
ORIGIN = Origin("keywright", "", "")
#: How long a read may take, in seconds, and how long while the server stops; then its connection is closed.
READ_TIMEOUT, LAST_READ_TIMEOUT = 60.0, 2.0


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
