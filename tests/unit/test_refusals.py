"""Refused calls are cached within bounds, and similar ones are merged."""

from datetime import timedelta
from typing import Any

from keywright.background import refusals
from keywright.background.refusals import Refusals
from keywright.licensing import refusals as rules
from keywright.licensing.refusals import NamedDevice, RefusedCall, to_known_token
from tests.makers import NOW

LAPTOP = NamedDevice("laptop-1", "Jane's laptop")


def a_call(minutes: int = 0, **fields: Any) -> RefusedCall:
    """A call that was refused this many minutes after NOW."""
    at = NOW + timedelta(minutes=minutes)
    given: dict[str, Any] = {
        "reason": "limit_reached",
        "operation": "activate",
        "ip_address": "",
        "refused_at": at,
    }
    return RefusedCall(**given | fields)


def see(seen: Refusals, key: str, device: NamedDevice = LAPTOP, minutes: int = 0) -> None:
    seen.see(key, a_call(minutes, **device._asdict()))


def test_calls_like_each_other_are_counted_together_with_the_last_time() -> None:
    seen = Refusals()
    for minutes in (1, 2):
        see(seen, "A", minutes=minutes)
    [command] = seen.take()
    [call] = command.refused["A"]
    assert (call.times, call.refused_at, call.device_name) == (2, NOW + timedelta(minutes=2), "Jane's laptop")
    assert seen.take() == []


def test_of_a_license_the_latest_twenty_are_remembered() -> None:
    seen = Refusals()
    for number in range(25):
        see(seen, "A", NamedDevice(f"device-{number}"))
    [command] = seen.take()
    assert [one.fingerprint for one in command.refused["A"]] == [f"device-{i}" for i in range(5, 25)]


def test_the_number_of_licenses_is_bounded_and_saved_in_pieces() -> None:
    seen = Refusals()
    for number in range(refusals.MAX_KEYS + 10):
        see(seen, f"KEY-{number}")
    commands = seen.take()
    assert sum(len(one.refused) for one in commands) == refusals.MAX_KEYS
    assert max(len(one.refused) for one in commands) == 100


def test_what_could_not_be_saved_is_remembered_again() -> None:
    seen = Refusals()
    see(seen, "A")
    [command] = seen.take()
    see(seen, "A", minutes=1)
    seen.give_back(command)
    [again] = seen.take()
    assert [one.times for one in again.refused["A"]] == [2]


def test_the_latest_are_kept_the_last_one_first() -> None:
    calls = [a_call(number, fingerprint=f"device-{number}") for number in range(30)]
    kept = rules.merge([*calls, a_call(40, fingerprint="device-3", times=4)])
    assert len(kept) == rules.MAX_KEPT
    assert (kept[0].fingerprint, kept[0].times) == ("device-3", 5)
    assert [one.fingerprint for one in kept[1:3]] == ["device-29", "device-28"]


def test_only_what_can_be_a_token_is_kept_as_one() -> None:
    assert to_known_token("a1" * 20) == "a1" * 20
    for other in ("A1" * 20, "a1" * 21, "\0", "", None, 7):
        assert to_known_token(other) is None
