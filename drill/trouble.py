"""What keeps the drill from going on, and how everything waits."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Trouble(Exception):
    """The drill cannot go on; the message says why."""


def wait_for(what: str, found: Callable[[], T | None], *, timeout: float, pause: float = 0.1) -> T:
    """Ask until something true is found, and return that. Raises ``Trouble`` after ``timeout`` seconds."""
    end = time.monotonic() + timeout
    while True:
        answer = found()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Trouble(f"waited {timeout:.0f} s in vain for {what}")
        time.sleep(pause)
