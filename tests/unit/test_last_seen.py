"""The last-seen times of licenses and activations are cached within bounds."""

import pytest

from keywright.background import last_seen
from keywright.background.last_seen import LastSeen


def test_the_last_time_of_each_is_saved_once() -> None:
    seen = LastSeen()
    for now in (100.9, 200.9):
        seen.see(1, 5, now, is_validation=True)
        seen.see(2, None, now, is_validation=True)
        seen.see(3, 6, now, is_validation=False)
    [command] = seen.take()
    assert command.seen == {(1, 0): 200, (1, 5): 200, (2, 0): 200, (3, 6): 200}
    assert seen.take() == []


def test_a_new_version_is_saved_with_the_device_that_has_it() -> None:
    seen = LastSeen()
    seen.see(1, 5, 100, is_validation=True, version="4.1")
    seen.see(1, 5, 200, is_validation=True, version="4.2")
    seen.see(1, 6, 200, is_validation=True)
    seen.see(2, None, 200, is_validation=True, version="9")
    [command] = seen.take()
    assert command.versions == {(1, 5): "4.2"}
    assert seen.take() == []


def test_what_is_remembered_is_bounded_and_saved_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_seen, "MAX_REMEMBERED", 2_500)
    seen = LastSeen()
    for number in range(3_000):
        seen.see(number, None, 100, is_validation=True)
    seen.see(1, None, 200, is_validation=True)
    commands = seen.take()
    assert [len(one.seen) for one in commands] == [1_000, 1_000, 500]
    assert commands[0].seen[1, 0] == 200
