"""Pages take turns with each other, and leave calls their share of the interpreter."""

import threading
from time import monotonic, thread_time

from keywright.http.pages.page_lock import Turns


def work(seconds: float) -> None:
    """Use the processor for that long."""
    end = thread_time() + seconds
    while thread_time() < end:
        pass


def begun(target: object, *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments)  # type: ignore[arg-type]
    thread.start()
    return thread


def test_one_works_at_a_time() -> None:
    turns = Turns(lambda: 0)
    working, most = 0, 0

    def one() -> None:
        nonlocal working, most
        with turns.taken():
            working += 1
            most = max(most, working)
            work(0.005)
            working -= 1

    for thread in [begun(one) for _ in range(5)]:
        thread.join()
    assert most == 1


def test_who_waits_lets_others_work() -> None:
    turns = Turns(lambda: 0)
    is_there = threading.Event()

    def another() -> None:
        with turns.taken():
            is_there.set()

    with turns.taken():
        thread = begun(another)
        with turns.aside():
            assert is_there.wait(10)
        thread.join()


def test_who_has_no_turn_can_step_aside_too() -> None:
    turns = Turns(lambda: 0)
    with turns.aside(), turns.aside():
        pass
    with turns.taken():
        assert begun_and_ended(turns)


def begun_and_ended(turns: Turns) -> bool:
    """Whether another thread, which has no turn, can step aside while this one works."""
    ended = threading.Event()

    def aside() -> None:
        with turns.aside():
            ended.set()

    begun(aside).join()
    return ended.is_set()


def time_of(turns: Turns) -> float:
    """How long a page waits for its turn."""
    began = monotonic()
    with turns.taken():
        return monotonic() - began


def test_after_a_page_that_calls_waited_for_the_next_one_rests() -> None:
    calls = 0
    turns = Turns(lambda: calls)
    with turns.taken():
        calls += 1
        work(0.02)
    assert time_of(turns) >= 0.03


def test_no_page_rests_while_nobody_calls() -> None:
    turns = Turns(lambda: 7)
    with turns.taken():
        work(0.02)
    # Far less than it would rest; but the machine may be busy.
    assert min(time_of(turns) for _ in range(20)) < 0.01


def test_a_page_that_fails_gives_its_turn_back() -> None:
    turns = Turns(lambda: 0)
    try:
        with turns.taken():
            raise RuntimeError
    except RuntimeError:
        pass
    assert time_of(turns) < 10
