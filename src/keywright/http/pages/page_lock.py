"""A lock that lets one page run at a time, and leaves API calls their share of the interpreter."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep, thread_time

#: After a page during which calls arrived, the next page waits this many times as long as that page ran, but
#: at most this long, in seconds.
_PAUSE_FACTOR = 2.0
_MAX_PAUSE = 0.05


class PageLock:
    """Lets one thread run at a time: two would take the interpreter from each other, and twice as much of it
    from the event loop.
    """

    def __init__(self, count_calls: Callable[[], int]) -> None:
        """``count_calls`` returns the number of API calls since the process started."""
        self._count_calls = count_calls
        self._lock = threading.Lock()
        self._local = threading.local()
        self._paused_until = 0.0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock. If calls arrive meanwhile, the next thread that gets it pauses first."""
        with self._lock:
            sleep(max(0.0, self._paused_until - monotonic()))
            started, calls = thread_time(), self._count_calls()
            self._local.has_lock = True
            try:
                yield
            finally:
                self._local.has_lock = False
                if self._count_calls() > calls:
                    pause = _PAUSE_FACTOR * (thread_time() - started)
                    self._paused_until = monotonic() + min(_MAX_PAUSE, pause)

    @contextmanager
    def release(self) -> Iterator[None]:
        """Release the lock while this thread waits, or does work that does not need the interpreter."""
        if not getattr(self._local, "has_lock", False):
            yield
            return
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()
