"""The rate limits of calls: how many changes a source may make per minute, and which calls do not count."""

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
KEYED: dict[str, Any] = {"headers": {b"idempotency-key": b"one"}, "is_change": True}
UNCHANGED: dict[str, Any] = {"is_unchanged": True, "operation": "activate"}


def a_call(key: str, address: str = PEER, permissions: Permissions | None = None, **fields: Any) -> Call:
    call = Call(INTERFACE, {"method": "GET", "headers": []}, NOTHING, None, key)
    call.client_address = address
    if permissions is not None:
        call.set_caller(Caller(7, "a shop", permissions, None))
    for name, value in fields.items():
        setattr(call, name, value)
    return call


async def activate(limits: CallLimits, call: Call, error: e.KeywrightError | None = None) -> str:
    """Return the result of an activation that ends with this error, or with success."""
    try:
        await limits.begin(call, takes_place=True)
    except e.RateLimited as limited:
        error = limited
    return getattr(limits.end(call, error), "code", "success")


def activate_all(calls: list[Call], error: e.KeywrightError | None = None) -> Counter[str]:
    """Return the results of these activations, run sequentially."""

    async def scenario() -> Counter[str]:
        limits = CallLimits(Settings(unknown_key_limit=0))
        return Counter([await activate(limits, call, error) for call in calls])

    return asyncio.run(scenario())


@each_row(
    ("burst", "key", "address", "fields"),
    [
        (ADDRESS_BURST, "KEY-{n}", PEER, {}),
        # Addresses of one IPv6 network are one source.
        (ADDRESS_BURST, "KEY-{n}", "2001:db8::{n:x}", {}),
        (None, "KEY-{n}", "2001:db8:{n:x}::1", {}),
        # The limit for all addresses together.
        *(
            (LICENSE_BURST, "KEY", "2001:db8:{n:x}::1", {"permissions": one})
            for one in (None, Permissions.CLIENT, Permissions.READ)
        ),
        (None, "KEY", PEER, {"permissions": Permissions.READ_WRITE}),
        # Behind a proxy that is not trusted, only the license counts.
        (None, "KEY-{n}", PEER, {"is_behind_unknown_proxy": True}),
        (LICENSE_BURST, "KEY", PEER, {"is_behind_unknown_proxy": True}),
        (None, "KEY", PEER, {"is_replayed": True}),
        (None, "KEY", PEER, UNCHANGED),
        (None, "KEY", PEER, UNCHANGED | KEYED),
    ],
)
def test_activations_from_an_address_and_of_a_license_are_limited_where_they_change_something(
    burst: int | None, key: str, address: str, fields: dict[str, Any]
) -> None:
    amount = (burst or ADDRESS_BURST) + 500
    found = activate_all([a_call(key.format(n=n), address.format(n=n), **fields) for n in range(amount)])
    if burst is None:
        assert set(found) == {"success"}
    else:
        # Few tokens are refilled during the test.
        assert burst <= found["success"] <= burst + 100
        assert found[e.TooManyChanges.code] == amount - found["success"]


@pytest.mark.parametrize("error", [e.LimitReached("KEY"), e.Fault(), e.QueueFull()])
def test_activations_that_fail_do_not_count(error: e.KeywrightError) -> None:
    calls = [a_call("KEY") for _ in range(LICENSE_BURST + 200)]
    assert set(activate_all(calls, error)) == {error.code}


# --- attempts ---------------------------------------------------------------------------------------


async def attempt(attempts: Attempts, key: str, source: str, *, is_right: bool | None) -> bool:
    """Return whether the key is looked up."""
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
