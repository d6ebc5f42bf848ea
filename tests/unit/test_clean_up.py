"""The hourly clean-up when the database is busy: what it does, and what it logs."""

import logging

import pytest

from keywright.background.clean_up import _INTERVAL, _MAX_BUSY, _PAUSE_WHEN_BUSY, _Turns
from keywright.core.errors import Fault, StoreUnavailable, WaitedTooLong

HOUR = _INTERVAL.total_seconds()


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def levels(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.levelname for one in caplog.records]


def test_a_turn_that_gives_way_to_calls_is_repeated_soon_and_a_warning_only_when_it_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turns = _Turns()
    for _ in range(2):
        assert {turns.pause_after(WaitedTooLong()) for _ in range(_MAX_BUSY)} == {_PAUSE_WHEN_BUSY}
        turns.reset()
    assert set(levels(caplog)) == {"INFO"}
    pauses = [turns.pause_after(WaitedTooLong()) for _ in range(_MAX_BUSY + 2)]
    assert levels(caplog)[-3:] == ["INFO", "WARNING", "WARNING"]
    assert pauses[-3:] == [_PAUSE_WHEN_BUSY, HOUR, HOUR]


def test_anything_but_a_busy_database_is_a_warning_at_once(caplog: pytest.LogCaptureFixture) -> None:
    assert _Turns().pause_after(Fault("KeyError")) == HOUR
    assert levels(caplog) == ["WARNING"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(WaitedTooLong(), WaitedTooLong.sentence), (StoreUnavailable("disk I/O error"), "disk I/O error")],
)
def test_the_reason_is_said_in_words(caplog: pytest.LogCaptureFixture, fault: Fault, reason: str) -> None:
    _Turns().pause_after(fault)
    assert caplog.messages == [f"old answers and events could not be deleted (turn 1 in a row): {reason}"]
