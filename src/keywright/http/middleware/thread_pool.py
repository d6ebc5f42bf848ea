"""Threads beside the event loop, and a bound on how many may wait for them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from keywright.core.errors import QueueFull

Result = TypeVar("Result")


class Room:
    """Some threads, and how many may wait for them."""

    def __init__(self, threads: int, most_waiting: int, name: str) -> None:
        self.threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._most_waiting = most_waiting
        self._waiting = 0

    async def run(self, work: Callable[[], Result], *, is_begun: bool = False, spare: int = 0) -> Result:
        """Run ``work`` in one of the threads. Raises ``QueueFull`` when too many wait for that, or
        fewer than ``spare`` places are left for others; but not for the rest of what ``is_begun``.
        """
        if self._waiting + spare >= self._most_waiting and not is_begun:
            raise QueueFull
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.threads, work)
        finally:
            self._waiting -= 1
