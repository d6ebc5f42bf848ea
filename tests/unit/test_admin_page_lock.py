"""Pages run one at a time, and leave time on the interpreter to calls."""

import threading
from collections.abc import Callable
from time import monotonic, thread_time

import pytest

from keywright.http.pages.runner import PageLock


def work(seconds: float) -> None:
    """Use the processor for this long."""
    end = thread_time() + seconds
    while thread_time() < end:
        pass


def start(target: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=target)
    thread.start()
    return thread


def time_to_acquire(lock: PageLock) -> float:
    """Measure how long a page waits for the lock."""
    started = monotonic()
    with lock.hold():
        return monotonic() - started


def test_one_page_runs_at_a_time() -> None:
    lock = PageLock(lambda: 0)
    running, most = 0, 0

    def run() -> None:
        nonlocal running, most
        with lock.hold():
            running += 1
            most = max(most, running)
            work(0.005)
            running -= 1

    for thread in [start(run) for _ in range(5)]:
        thread.join()
    assert most == 1


def test_a_page_that_waits_lets_others_run() -> None:
    lock = PageLock(lambda: 0)
    has_run = threading.Event()

    def run() -> None:
        with lock.hold():
            has_run.set()

    with lock.hold():
        thread = start(run)
        with lock.release():
            assert has_run.wait(10)
        thread.join()


def test_a_thread_without_the_lock_can_release_it_too() -> None:
    lock = PageLock(lambda: 0)
    has_run = threading.Event()

    def release() -> None:
        with lock.release():
            has_run.set()

    with lock.release(), lock.release():
        pass
    with lock.hold():
        # Another thread holds the lock, and still holds it.
        start(release).join()
    assert has_run.is_set()


def test_after_a_page_during_which_calls_came_the_next_one_pauses() -> None:
    calls = 0
    lock = PageLock(lambda: calls)
    with lock.hold():
        calls += 1
        work(0.02)
    assert time_to_acquire(lock) >= 0.03


def test_no_page_pauses_while_no_calls_come() -> None:
    lock = PageLock(lambda: 7)
    with lock.hold():
        work(0.02)
    # Far shorter than a pause would be. The minimum, because the machine may be busy.
    assert min(time_to_acquire(lock) for _ in range(20)) < 0.01


def test_a_page_that_fails_releases_the_lock() -> None:
    lock = PageLock(lambda: 0)
    with pytest.raises(RuntimeError), lock.hold():
        raise RuntimeError
    assert time_to_acquire(lock) < 10
