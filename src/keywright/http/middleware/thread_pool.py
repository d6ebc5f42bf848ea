"""A thread pool with a bound on how many callers may wait for it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from keywright.core.errors import QueueFull

Result = TypeVar("Result")


class ThreadPool:
    """Threads beside the event loop, with a bound on the queue."""

    def __init__(self, threads: int, max_waiting: int, name: str) -> None:
        self.executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._max_waiting = max_waiting
        self._waiting = 0

    async def run(self, work: Callable[[], Result], *, is_started: bool = False, reserved: int = 0) -> Result:
        """Run ``work`` in a thread. Raises ``QueueFull`` when too many wait, or when fewer than ``reserved``
        places would be left for others; but not for the rest of an answer that ``is_started``.
        """
        if self._waiting + reserved >= self._max_waiting and not is_started:
            raise QueueFull
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.executor, work)
        finally:
            self._waiting -= 1
