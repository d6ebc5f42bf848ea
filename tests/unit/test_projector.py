"""The pause between two steps of the projector."""

from keywright.background.projector import _pause_after
from keywright.search.projector import Lag, Projected

BEHIND = Projected(100, Lag(5_000, None, 1.0))
UP_TO_DATE = Projected(100, Lag(0, None, 1.0))
BLOCKED = Projected(0, Lag(5_000, None, 1.0))


def test_when_up_to_date_or_blocked_it_pauses_for_a_second() -> None:
    assert [_pause_after(step, 0.01, load) for step in (UP_TO_DATE, BLOCKED) for load in (0, 1)] == [1.0] * 4


def test_on_an_idle_server_the_pause_is_as_long_as_the_step() -> None:
    assert _pause_after(BEHIND, 0.01, 0.0) == 0.01


def test_the_pause_grows_with_the_load_up_to_100_steps_and_five_seconds() -> None:
    pauses = [_pause_after(BEHIND, 0.01, load / 100) for load in range(101)]
    assert pauses == sorted(pauses)
    assert pauses[10] >= 50 * 0.01
    assert pauses[50:] == [1.0] * 51
    assert _pause_after(BEHIND, 0.1, 1.0) == 5.0


def test_slow_steps_on_a_busy_server_take_a_tenth_of_the_time() -> None:
    assert _pause_after(BEHIND, 3.0, 0.5) == 30.0
