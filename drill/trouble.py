"""What keeps the drill from going on, and the patience that everything waits with."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Trouble(Exception):
    """The drill cannot go on; the message says why."""


def wait_for(what: str, found: Callable[[], T | None], *, patience: float, pause: float = 0.1) -> T:
    """Ask until something true is found, and return that. Raises ``Trouble`` after ``patience`` seconds."""
    end = time.monotonic() + patience
    while True:
        answer = found()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Trouble(f"waited {patience:.0f} s in vain for {what}")
        time.sleep(pause)
