"""The rate limits of calls: what a source may do in a minute, and which calls do not count."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from keywright.config import Settings
from keywright.core import errors as e
from keywright.http.middleware.attempts import Attempts
from keywright.http.middleware.call import Call
from keywright.http.middleware.call_limits import (
    ADDRESS_BURST,
    KEPT_BURST,
    KEPT_BYTES,
    LICENSE_BURST,
    CallLimits,
)
from keywright.http.v2.interface import V2
from keywright.identity.model import Caller, Permissions
from tests.tables import each_row

NOTHING: Any = None
INTERFACE = V2(Settings(), NOTHING)
PEER = "192.0.2.1"
LIMITED = e.TooManyChanges.code


def a_call(key: str, address: str = PEER, permissions: Permissions | None = None, **fields: Any) -> Call:
    call = Call(INTERFACE, {"method": "GET", "headers": []}, NOTHING, None, key)
    call.client_address = address
    if permissions is not None:
        call.set_caller(Caller(7, "a shop", permissions, None))
    for name, value in fields.items():
        setattr(call, name, value)
    return call


async def activate(limits: CallLimits, call: Call, error: e.KeywrightError | None = None) -> str:
    """The result of an activation that ends with this error, or with success."""
    try:
        await limits.begin(call, takes_place=True)
    except e.RateLimited as limited:
        error = limited
    return getattr(limits.end(call, error), "code", "success")


def activate_all(calls: list[Call], error: e.KeywrightError | None = None) -> Counter[str]:
    """The results of these activations, one after the other."""

    async def scenario() -> Counter[str]:
        limits = CallLimits(Settings(unknown_key_limit=0))
        return Counter([await activate(limits, call, error) for call in calls])

    return asyncio.run(scenario())


def test_activations_from_an_address_are_limited() -> None:
    found = activate_all([a_call(f"KEY-{number}") for number in range(ADDRESS_BURST + 500)])
    # Few tokens are refilled meanwhile.
    assert ADDRESS_BURST <= found["success"] <= ADDRESS_BURST + 100
    assert found[LIMITED] >= 400


def test_addresses_of_one_ipv6_network_are_one_source() -> None:
    found = activate_all(
        [a_call(f"KEY-{number}", f"2001:db8::{number:x}") for number in range(ADDRESS_BURST + 500)]
    )
    assert found[LIMITED] >= 400


def test_behind_a_proxy_that_is_not_trusted_only_the_license_counts() -> None:
    calls = [a_call(f"KEY-{number}", is_behind_unknown_proxy=True) for number in range(ADDRESS_BURST + 500)]
    assert activate_all(calls)[LIMITED] == 0
    found = activate_all([a_call("KEY", is_behind_unknown_proxy=True) for _ in range(LICENSE_BURST + 200)])
    assert found[LIMITED] >= 150


@pytest.mark.parametrize("permissions", [None, Permissions.CLIENT, Permissions.READ])
def test_activations_of_a_license_are_limited_from_all_addresses_together(
    permissions: Permissions | None,
) -> None:
    calls = [a_call("KEY", f"198.51.{n // 250}.{n % 250}", permissions) for n in range(LICENSE_BURST + 200)]
    found = activate_all(calls)
    assert LICENSE_BURST <= found["success"] <= LICENSE_BURST + 50


def test_an_api_key_that_may_read_and_write_has_no_limit() -> None:
    calls = [a_call("KEY", permissions=Permissions.READ_WRITE) for _ in range(LICENSE_BURST + 200)]
    assert set(activate_all(calls)) == {"success"}


@pytest.mark.parametrize("error", [e.LimitReached("KEY"), e.Fault(), e.QueueFull()])
def test_activations_that_fail_do_not_count(error: e.KeywrightError) -> None:
    calls = [a_call("KEY") for _ in range(LICENSE_BURST + 200)]
    assert set(activate_all(calls, error)) == {error.code}


def test_a_replayed_answer_does_not_count_again() -> None:
    calls = [a_call("KEY", is_replayed=True) for _ in range(LICENSE_BURST + 200)]
    assert set(activate_all(calls)) == {"success"}


# --- attempts ---------------------------------------------------------------------------------------


async def attempt(attempts: Attempts, key: str, source: str, *, is_right: bool | None) -> bool:
    """Whether the key is looked up."""
    try:
        begun = await attempts.begin(key, source)
    except e.RateLimited:
        return False
    await asyncio.sleep(0)
    attempts.end(begun, is_right=is_right)
    return True


def test_the_number_of_known_keys_is_bounded() -> None:
    async def scenario() -> None:
        attempts = Attempts(1, max_known=3)
        for number in range(5):
            assert await attempt(attempts, f"KEY-{number}", PEER, is_right=True)
        assert await attempt(attempts, "a guess", PEER, is_right=False)
        known = [await attempt(attempts, f"KEY-{number}", PEER, is_right=True) for number in range(5)]
        assert known == [False, False, True, True, True]

    asyncio.run(scenario())


def test_a_key_is_known_only_at_the_source_where_it_was_right() -> None:
    async def scenario() -> None:
        attempts = Attempts(1)
        assert await attempt(attempts, "KEY", PEER, is_right=True)
        assert await attempt(attempts, "a guess", PEER, is_right=False)
        assert await attempt(attempts, "a guess", "192.0.2.2", is_right=False)
        assert await attempt(attempts, "KEY", PEER, is_right=True)
        assert not await attempt(attempts, "KEY", "192.0.2.2", is_right=True)

    asyncio.run(scenario())


@pytest.mark.parametrize(("is_right", "looked_up"), [(True, 100), (False, 10)])
def test_calls_with_one_key_at_once_wait_for_the_first(*, is_right: bool, looked_up: int) -> None:
    async def scenario() -> int:
        attempts = Attempts(10)
        return sum(
            await asyncio.gather(*(attempt(attempts, "KEY", PEER, is_right=is_right) for _ in range(100)))
        )

    assert asyncio.run(scenario()) == looked_up


def test_a_look_up_without_a_result_costs_nothing() -> None:
    async def scenario() -> None:
        attempts = Attempts(10)
        for _ in range(100):
            assert await attempt(attempts, "KEY", PEER, is_right=None)

    asyncio.run(scenario())


KEYED: dict[str, Any] = {"headers": {b"idempotency-key": b"one"}, "is_change": True}


@each_row(
    ("fields", "is_limited"),
    [
        (KEYED, True),
        (KEYED | {"is_unchanged": True}, False),
        (KEYED | {"is_replayed": True}, False),
        (KEYED | {"is_change": False}, False),
        (KEYED | {"permissions": Permissions.READ_WRITE}, False),
        (KEYED | {"permissions": Permissions.CLIENT}, True),
        ({"is_change": True}, False),
    ],
)
def test_answers_that_are_kept_for_repeated_calls_are_limited(
    fields: dict[str, Any], is_limited: bool
) -> None:
    async def scenario() -> Counter[str]:
        limits = CallLimits(Settings(unknown_key_limit=0))
        calls = [a_call(f"KEY-{number}", **fields) for number in range(KEPT_BURST + 500)]
        return Counter([await answer(limits, call) for call in calls])

    async def answer(limits: CallLimits, call: Call) -> str:
        error: e.KeywrightError | None = None
        try:
            await limits.begin(call, takes_place=False)
        except e.RateLimited as limited:
            error = limited
        return getattr(limits.end(call, error), "code", "success")

    assert (asyncio.run(scenario())[e.TooManyKeptAnswers.code] > 0) is is_limited


def test_a_long_answer_that_is_kept_counts_by_its_bytes() -> None:
    async def scenario() -> int:
        limits = CallLimits(Settings(unknown_key_limit=0))
        for number in range(KEPT_BURST):
            call = a_call("KEY-1", **KEYED)
            try:
                await limits.begin(call, takes_place=False)
            except e.RateLimited:
                return number
            limits.end(call, None, 9 * KEPT_BYTES)
        return KEPT_BURST

    assert asyncio.run(scenario()) == pytest.approx(KEPT_BURST / 10, abs=20)


def test_an_activation_that_changes_nothing_does_not_count() -> None:
    unchanged: dict[str, Any] = {"is_unchanged": True, "operation": "activate"}
    calls = [a_call("KEY-1", **unchanged) for _ in range(LICENSE_BURST + 100)]
    assert activate_all(calls)[LIMITED] == 0
    calls = [a_call("KEY-1", **unchanged | KEYED) for _ in range(LICENSE_BURST + 100)]
    assert activate_all(calls)[LIMITED] == 0
