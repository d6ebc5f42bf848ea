"""Who has the interpreter: pages take turns with each other, and leave calls their share."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep, thread_time

#: After a page that calls had to wait for, the next one waits so many times as long as it worked; at most so
#: long, in seconds.
_REST = 2.0
_LONGEST_REST = 0.05


class Turns:
    """Only one thread works at a time: two would take the interpreter from each other, and twice as much of
    it from the event loop.
    """

    def __init__(self, calls: Callable[[], int]) -> None:
        """``calls`` says how many calls there have been, ever."""
        self._calls = calls
        self._lock = threading.Lock()
        self._here = threading.local()
        self._rests_until = 0.0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Work in here, when nobody else does. If calls come meanwhile, whoever is next rests before."""
        with self._lock:
            sleep(max(0.0, self._rests_until - monotonic()))
            began, calls = thread_time(), self._calls()
            self._here.has_turn = True
            try:
                yield
            finally:
                self._here.has_turn = False
                if self._calls() > calls:
                    rest = _REST * (thread_time() - began)
                    self._rests_until = monotonic() + min(_LONGEST_REST, rest)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Let others work while this thread waits, or has something done that needs no interpreter."""
        if not getattr(self._here, "has_turn", False):
            yield
            return
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()
