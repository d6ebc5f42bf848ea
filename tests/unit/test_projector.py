"""The size of the projector's steps, and the pauses between them."""

from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from keywright.background.projector import (
    _MIN_EVENTS,
    _SHARE,
    _STEP_SECONDS,
    _next_limit,
    _pause_after,
    _TimedCall,
)
from keywright.search.projector import MAX_EVENTS, Lag, Projected

BEHIND, UP_TO_DATE = Lag(5_000, None, 1.0), Lag(0, None, 1.0)
Steps = Iterator[tuple[int, float, float]]


def steps(seconds_of: Callable[[int], float], limit: int = _MIN_EVENTS) -> Steps:
    """The limit, time and pause of each step while events are left; ``seconds_of`` a limit is its time."""
    while True:
        projected, seconds = Projected(limit, BEHIND), seconds_of(limit)
        yield limit, seconds, _pause_after(projected, seconds)
        limit = _next_limit(limit, projected, seconds)


def share_of(steps: Steps) -> float:
    taken = list(islice(steps, 200))
    busy = sum(seconds for _, seconds, _ in taken)
    return busy / (busy + sum(pause for _, _, pause in taken))


def fast(limit: int) -> float:
    """A commit of 3 ms, and 0.1 ms for each event."""
    return 0.003 + 0.0001 * limit


def slow(limit: int) -> float:
    return 0.1 + 0.01 * limit


@pytest.mark.parametrize("seconds_of", [fast, slow])
def test_steps_take_a_tenth_of_the_time_however_slow_they_are(seconds_of: Callable[[int], float]) -> None:
    assert share_of(steps(seconds_of)) == pytest.approx(_SHARE)
    # A control: with pauses as long as the steps, it is half of the time.
    assert share_of((limit, seconds, seconds) for limit, seconds, _ in steps(seconds_of)) == 0.5


@pytest.mark.parametrize("first", [_MIN_EVENTS, MAX_EVENTS])
def test_a_step_gets_as_many_events_as_it_can_project_in_its_time(first: int) -> None:
    limit, seconds, pause = list(islice(steps(fast, first), 20))[-1]
    assert seconds == pytest.approx(_STEP_SECONDS, rel=0.05)
    assert limit / (seconds + pause) > 500


def test_a_slow_step_makes_the_next_one_smaller_down_to_the_minimum() -> None:
    limits = [limit for limit, _, _ in islice(steps(slow, MAX_EVENTS), 5)]
    assert limits == [MAX_EVENTS, *[_MIN_EVENTS] * 4]


def test_a_quick_step_at_most_doubles_the_next_one() -> None:
    assert [limit for limit, _, _ in islice(steps(lambda _: 0.0001), 4)] == [100, 200, 400, MAX_EVENTS]


def test_a_step_that_found_little_makes_the_next_one_no_larger() -> None:
    little = Projected(3, UP_TO_DATE)
    assert _next_limit(200, little, 0.004) == 200
    # A control: a full one does.
    assert _next_limit(200, Projected(200, UP_TO_DATE), 0.004) == 400
    assert _next_limit(400, Projected(300, UP_TO_DATE), 0.04) == 150


@pytest.mark.parametrize("projected", [Projected(100, UP_TO_DATE), Projected(0, BEHIND)])
def test_when_up_to_date_or_blocked_it_pauses_for_a_second_at_least(projected: Projected) -> None:
    assert _pause_after(projected, 0.01) == 1.0
    assert _pause_after(projected, 2.0) == pytest.approx(18.0)


def test_the_time_in_the_queue_does_not_count() -> None:
    call = _TimedCall()
    call._started -= 60
    assert call.seconds() >= 60
    call.is_begun = True
    assert call.seconds() < 30
