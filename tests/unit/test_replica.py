"""When a replica is queried, and when it is taken out of use."""

import pytest

from keywright.db.replica import MAX_BEHIND, MAX_PAUSE, MIN_PAUSE, Availability


def set_aside(now: float = 0.0) -> Availability:
    availability = Availability()
    for _ in range(MAX_BEHIND):
        assert availability.may_ask(now)
        availability.note_behind(now, is_far=False)
    return availability


def test_a_replica_that_is_behind_again_and_again_is_not_asked_for_a_while() -> None:
    availability = set_aside(100.0)
    assert not availability.may_ask(100.0)
    assert not availability.may_ask(100.0 + MIN_PAUSE - 0.01)
    assert availability.may_ask(100.0 + MIN_PAUSE)


def test_a_replica_that_is_behind_now_and_then_is_asked_each_time() -> None:
    availability = Availability()
    for _ in range(10):
        for _ in range(MAX_BEHIND - 1):
            assert availability.may_ask(0.0)
            availability.note_behind(0.0, is_far=False)
        availability.note_answer()
    assert availability.may_ask(0.0)


def test_a_replica_that_is_far_behind_or_fails_is_set_aside_at_once() -> None:
    far, failed, control = Availability(), Availability(), Availability()
    far.note_behind(0.0, is_far=True)
    failed.note_failure(0.0)
    control.note_behind(0.0, is_far=False)
    assert (far.may_ask(0.0), failed.may_ask(0.0), control.may_ask(0.0)) == (False, False, True)


def test_after_the_pause_one_question_decides_whether_the_replica_is_back() -> None:
    back, behind = set_aside(), set_aside()
    back.note_answer()
    behind.note_behind(MIN_PAUSE, is_far=False)
    assert (back.may_ask(MIN_PAUSE), behind.may_ask(MIN_PAUSE)) == (True, False)
    # Fully back: it takes as many late answers as before to take it out of use again.
    back.note_behind(MIN_PAUSE, is_far=False)
    assert back.may_ask(MIN_PAUSE)


def test_each_trial_that_fails_makes_the_pause_twice_as_long_up_to_half_a_minute() -> None:
    availability, now, pauses = set_aside(), MIN_PAUSE, []
    for _ in range(7):
        assert availability.may_ask(now)
        availability.note_behind(now, is_far=False)
        start = now
        while not availability.may_ask(now):
            now += 1.0
        pauses.append(now - start)
    assert pauses == [2.0, 4.0, 8.0, 16.0, MAX_PAUSE, MAX_PAUSE, MAX_PAUSE]


def test_the_log_says_once_that_a_replica_is_set_aside_and_once_that_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    availability = set_aside()
    for now in range(100):
        if availability.may_ask(now):
            availability.note_behind(now, is_far=True)
    assert caplog.messages == ["the replica is behind; the primary answers until it can be used"]
    for _ in range(3):
        availability.note_answer()
    assert caplog.messages[1:] == ["the replica answers questions again"]
