"""What the calls of a source may use up in a minute, and whose calls do not count."""

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from keywright.background.counters import Counters
from keywright.config import Settings
from keywright.core import errors as e
from keywright.http.middleware.attempts import CredentialAttempts
from keywright.http.middleware.call_limits import ADDRESS_BURST, LICENSE_BURST, RateLimits
from keywright.http.middleware.client_address import Addresses
from keywright.http.middleware.credentials import Network
from keywright.http.v2.call import Call
from keywright.identity.model import Caller, Permissions

NOTHING: Any = None
PEER = "192.0.2.1"


def a_call(key: str, address: str = PEER, permissions: Permissions | None = None, **fields: Any) -> Call:
    call = Call({"method": "GET"}, NOTHING, {})
    call.key, call.address = key, address
    if permissions is not None:
        call.caller = Caller(7, "a shop", permissions, None)
    for name, value in fields.items():
        setattr(call, name, value)
    return call


async def activate(budgets: RateLimits, call: Call, error: e.KeywrightError | None = None) -> str:
    """How an activation ends that would end with this error, or with success."""
    try:
        await budgets.begin(call, takes_place=True)
    except e.RateLimited as limited:
        error = limited
    return getattr(budgets.end(call, error), "code", "success")


async def crowd(calls: list[Call], error: e.KeywrightError | None = None) -> Counter[str]:
    """How these activations end, one after the other."""
    budgets = RateLimits(Settings(unknown_key_limit=0))
    return Counter([await activate(budgets, call, error) for call in calls])


def activations(calls: list[Call], error: e.KeywrightError | None = None) -> Counter[str]:
    return asyncio.run(crowd(calls, error))


LIMITED = e.TooManyChanges.code


def test_activations_from_an_address_are_limited() -> None:
    found = activations([a_call(f"KEY-{number}") for number in range(ADDRESS_BURST + 500)])
    # What time gives back meanwhile is not much.
    assert ADDRESS_BURST <= found["success"] <= ADDRESS_BURST + 100
    assert found[LIMITED] >= 400


def test_addresses_of_one_ipv6_network_are_one_source() -> None:
    found = activations(
        [a_call(f"KEY-{number}", f"2001:db8::{number:x}") for number in range(ADDRESS_BURST + 500)]
    )
    assert found[LIMITED] >= 400


def test_behind_a_proxy_that_is_not_trusted_only_the_license_counts() -> None:
    calls = [a_call(f"KEY-{number}", is_forwarded_blindly=True) for number in range(ADDRESS_BURST + 500)]
    assert activations(calls)[LIMITED] == 0
    found = activations([a_call("KEY", is_forwarded_blindly=True) for _ in range(LICENSE_BURST + 200)])
    assert found[LIMITED] >= 150


@pytest.mark.parametrize("permissions", [None, Permissions.CLIENT, Permissions.READ])
def test_the_activations_of_a_license_are_limited_wherever_they_come_from(
    permissions: Permissions | None,
) -> None:
    calls = [a_call("KEY", f"198.51.{n // 250}.{n % 250}", permissions) for n in range(LICENSE_BURST + 200)]
    found = activations(calls)
    assert LICENSE_BURST <= found["success"] <= LICENSE_BURST + 50


def test_whoever_may_read_and_write_is_free_of_it() -> None:
    calls = [a_call("KEY", permissions=Permissions.READ_WRITE) for _ in range(LICENSE_BURST + 200)]
    assert set(activations(calls)) == {"success"}


@pytest.mark.parametrize("error", [e.LimitReached("KEY"), e.Fault(), e.QueueFull()])
def test_activations_that_fail_do_not_count(error: e.KeywrightError) -> None:
    calls = [a_call("KEY") for _ in range(LICENSE_BURST + 200)]
    assert set(activations(calls, error)) == {error.code}


def test_an_answer_that_is_repeated_does_not_count_again() -> None:
    calls = [a_call("KEY", is_replayed=True) for _ in range(LICENSE_BURST + 200)]
    assert set(activations(calls)) == {"success"}


# --- guesses ----------------------------------------------------------------------------------------


async def guess(guesses: CredentialAttempts, key: str, source: str, *, is_right: bool | None) -> bool:
    """Whether the key is looked up."""
    try:
        begun = await guesses.begin(key, source)
    except e.RateLimited:
        return False
    await asyncio.sleep(0)
    guesses.end(begun, is_right=is_right)
    return True


def test_what_is_remembered_of_right_keys_is_bounded() -> None:
    async def scenario() -> None:
        guesses = CredentialAttempts(1, most_known=3)
        for number in range(5):
            assert await guess(guesses, f"KEY-{number}", PEER, is_right=True)
        assert await guess(guesses, "a guess", PEER, is_right=False)
        known = [await guess(guesses, f"KEY-{number}", PEER, is_right=True) for number in range(5)]
        assert known == [False, False, True, True, True]

    asyncio.run(scenario())


def test_a_key_is_known_only_where_it_was_right() -> None:
    async def scenario() -> None:
        guesses = CredentialAttempts(1)
        assert await guess(guesses, "KEY", PEER, is_right=True)
        assert await guess(guesses, "a guess", PEER, is_right=False)
        assert await guess(guesses, "a guess", "192.0.2.2", is_right=False)
        assert await guess(guesses, "KEY", PEER, is_right=True)
        assert not await guess(guesses, "KEY", "192.0.2.2", is_right=True)

    asyncio.run(scenario())


@pytest.mark.parametrize(("is_right", "looked_up"), [(True, 100), (False, 10)])
def test_many_calls_with_one_key_at_once_share_its_fate(*, is_right: bool, looked_up: int) -> None:
    async def scenario() -> int:
        guesses = CredentialAttempts(10)
        return sum(
            await asyncio.gather(*(guess(guesses, "KEY", PEER, is_right=is_right) for _ in range(100)))
        )

    assert asyncio.run(scenario()) == looked_up


def test_a_look_up_that_came_to_nothing_costs_nothing() -> None:
    async def scenario() -> None:
        guesses = CredentialAttempts(10)
        for _ in range(100):
            assert await guess(guesses, "KEY", PEER, is_right=None)

    asyncio.run(scenario())


# --- proxies ----------------------------------------------------------------------------------------


def call_with(headers: dict[bytes, bytes], *trusted: Network) -> tuple[Call, Counters]:
    tallies = Counters()
    addresses = Addresses(trusted, tallies)
    for _ in range(3):
        call = Call(
            {"method": "GET", "client": (PEER, 5), "headers": list(headers.items())}, NOTHING, headers
        )
        addresses.find(call)
    return call, tallies


@pytest.mark.parametrize("name", [b"x-forwarded-for", b"forwarded", b"x-real-ip"])
def test_a_proxy_that_is_not_trusted_is_noticed_and_logged_once(
    caplog: pytest.LogCaptureFixture, name: bytes
) -> None:
    with caplog.at_level(logging.WARNING):
        call, tallies = call_with({name: b"203.0.113.9"})
    assert (call.address, call.is_forwarded_blindly, tallies.forwarded_blindly) == (PEER, True, 3)
    (warning,) = caplog.messages
    assert PEER in warning
    assert "trusted_proxies" in warning


def test_a_trusted_proxy_and_a_direct_call_are_nothing_to_speak_of(caplog: pytest.LogCaptureFixture) -> None:
    trusted = Settings(trusted_proxies=f"{PEER}").trusted_proxies  # type: ignore[arg-type]
    for headers, address in (({b"x-forwarded-for": b"203.0.113.9"}, "203.0.113.9"), ({}, PEER)):
        call, tallies = call_with(headers, *trusted)
        assert (call.address, call.is_forwarded_blindly, tallies.forwarded_blindly) == (address, False, 0)
    assert caplog.messages == []
