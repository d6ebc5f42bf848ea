"""A thread pool with a bounded queue."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from keywright.core.errors import QueueFull

Result = TypeVar("Result")


class ThreadPool:
    """Threads for work outside the event loop, with a bounded queue."""

    def __init__(self, threads: int, max_waiting: int, name: str) -> None:
        self.executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._max_waiting = max_waiting
        self._waiting = 0

    async def run(self, work: Callable[[], Result], *, is_started: bool = False, reserved: int = 0) -> Result:
        """Run ``work`` in a thread. Raises ``QueueFull`` if the queue is full or would leave fewer than
        ``reserved`` places for others, except for the rest of an answer that ``is_started``.
        """
        if self._waiting + reserved >= self._max_waiting and not is_started:
            raise QueueFull
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.executor, work)
        finally:
            self._waiting -= 1
