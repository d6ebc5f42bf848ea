"""Log messages while background loops have to wait for the database."""

import logging

import pytest

from keywright.background import loops
from keywright.background.loops import Waits
from keywright.core.errors import Fault, StoreUnavailable, WaitedTooLong


def test_a_loop_that_waits_says_the_reason_in_words_and_warns_only_when_it_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for more than two minutes, retrying every second."""
    caplog.set_level(logging.INFO)
    seconds = iter(range(1_000))
    monkeypatch.setattr(loops, "monotonic", lambda: float(next(seconds)))
    waits = Waits("jobs have to wait")
    for _ in range(125):
        waits.log(WaitedTooLong())
    waits.reset()
    waits.log(StoreUnavailable("disk I/O error"))
    assert [one.levelname for one in caplog.records] == ["INFO", "WARNING", "WARNING", "INFO"]
    assert caplog.messages[0] == f"jobs have to wait: {WaitedTooLong.sentence}"
    assert caplog.messages[-1] == "jobs have to wait: disk I/O error"


def test_anything_but_a_busy_database_is_a_warning_at_once(caplog: pytest.LogCaptureFixture) -> None:
    waits = Waits("expiries have to wait")
    for _ in range(2):
        waits.log(Fault("KeyError"))
    assert [one.levelname for one in caplog.records] == ["WARNING", "WARNING"]


def test_an_error_at_every_turn_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter(range(1, 1_000))
    monkeypatch.setattr(loops, "monotonic", lambda: float(next(seconds)))
    waits = Waits("mails have to wait")
    for _ in range(90):
        waits.log(KeyError("x"))
    assert [one.getMessage() for one in caplog.records] == ["mails have to wait: an unexpected error"] * 2
    assert all(one.exc_info for one in caplog.records)
