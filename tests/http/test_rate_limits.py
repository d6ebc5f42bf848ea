"""Guessing keys or credentials is slowed down; nobody else is."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from keywright.model import Permissions
from tests.http.asking import Client, Reply, a_key, assert_refused, basic, in_query
from tests.server import NO_LIMITS, RunningServer, running, wait_until

#: Failures a minute; one more is allowed every second.
LIMIT = 60


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with small limits, behind a proxy, so that a test can come from anywhere."""
    limits: dict[str, Any] = dict.fromkeys(NO_LIMITS, LIMIT)
    limits["trusted_proxies"] = "127.0.0.1"
    with running(tmp_path_factory.mktemp("guarded") / "data", **limits) as server:
        yield server


@pytest.fixture(scope="module")
def anyone(guarded: RunningServer) -> Iterator[Client]:
    with Client(guarded) as client:
        yield client


@pytest.fixture(scope="module")
def known(guarded: RunningServer) -> str:
    with Client(guarded, guarded.api_key()) as vendor:
        return vendor.license(product_id=1)


def at(address: str) -> dict[str, str]:
    return {"X-Forwarded-For": address}


def until_limited(call: Callable[[int], Reply], expected: int) -> Reply:
    """Fail until told to stop: after LIMIT failures, or a few more that time gave back."""
    statuses: list[int] = []
    for attempt in range(3 * LIMIT):
        reply = call(attempt)
        if reply.status != expected:
            assert LIMIT <= len(statuses) <= LIMIT + 30, statuses
            return reply
        statuses.append(reply.status)
    raise AssertionError("never told to stop")


def assert_limited(reply: Reply) -> None:
    sentence = "Too many failed requests. Please try again later."
    assert_refused(reply, sentence, code="rate_limited", status=429)
    assert 1 <= int(reply.header("retry-after") or 0) <= 60


@pytest.mark.parametrize(
    ("call", "address"), [("activate", "192.0.2.1"), ("validate", "192.0.2.2"), ("deactivate", "192.0.2.3")]
)
def test_too_many_unknown_keys_from_an_address_are_stopped(
    anyone: Client, known: str, call: str, address: str
) -> None:
    ask = getattr(anyone, call)
    limited = until_limited(lambda _: ask(a_key(), headers=at(address)), 404)
    assert_limited(limited)
    # Others go on.
    assert anyone.validate(known, headers=at("192.0.2.99")).status == 200
    assert anyone.validate(a_key(), headers=at("192.0.2.99")).status == 404


def test_known_keys_and_other_refusals_are_no_failures(anyone: Client, known: str) -> None:
    here = at("192.0.2.4")
    for _ in range(2 * LIMIT):
        assert anyone.validate(known, headers=here).status == 200
        assert anyone.validate(known, "0" * 40, headers=here).status == 404
    assert anyone.validate(a_key(), headers=here).status == 404


def test_it_ends_when_it_was_said_to_end(anyone: Client, known: str) -> None:
    here = at("192.0.2.5")
    limited = until_limited(lambda _: anyone.validate(a_key(), headers=here), 404)
    told = int(limited.header("retry-after") or 0)
    started = time.monotonic()
    wait_until(lambda: anyone.validate(known, headers=here).status == 200, "the end of the limit")
    assert time.monotonic() - started <= told + 5


def test_addresses_of_one_ipv6_network_count_together(anyone: Client, known: str) -> None:
    limited = until_limited(lambda n: anyone.validate(a_key(), headers=at(f"2001:db8:1:2::{n + 1:x}")), 404)
    assert_limited(limited)
    assert anyone.validate(known, headers=at("2001:db8:1:3::1")).status == 200


def test_rotating_addresses_do_not_help_an_api_key(
    guarded: RunningServer, anyone: Client, known: str
) -> None:
    client = basic(*guarded.api_key(Permissions.READ))

    def guess(attempt: int) -> Reply:
        headers = {**at(f"198.51.100.{attempt + 1}"), "Authorization": client}
        return anyone.validate(a_key(), headers=headers)

    assert_limited(until_limited(guess, 404))
    assert anyone.validate(known, headers=at("198.51.100.250")).status == 200


def test_a_client_key_that_is_shipped_to_many_is_not_stopped_by_one(
    guarded: RunningServer, anyone: Client, known: str
) -> None:
    client = basic(*guarded.api_key(Permissions.CLIENT))

    def guess(attempt: int) -> Reply:
        return anyone.validate(a_key(), headers={**at("198.51.100.251"), "Authorization": client})

    assert_limited(until_limited(guess, 404))
    elsewhere = {**at("198.51.100.252"), "Authorization": client}
    assert anyone.validate(known, headers=elsewhere).status == 200


def test_licenses_of_another_product_count_as_unknown_keys(
    guarded: RunningServer, anyone: Client, known: str
) -> None:
    headers = {**at("192.0.2.6"), "Authorization": basic(*guarded.api_key(Permissions.CLIENT, 2))}
    assert_limited(until_limited(lambda _: anyone.validate(known, headers=headers), 404))


@pytest.mark.parametrize(("way", "address"), [("query", "192.0.2.7"), ("Basic", "192.0.2.8")])
@pytest.mark.parametrize("wrong", ["key", "secret"])
def test_too_many_bad_credentials_from_an_address_are_stopped(
    *, guarded: RunningServer, anyone: Client, known: str, way: str, address: str, wrong: str
) -> None:
    here = f"{address}{'0' if wrong == 'key' else '1'}"
    key, secret = guarded.api_key()
    bad = (f"ck_{'0' * 40}", secret) if wrong == "key" else (key, f"cs_{'0' * 40}")
    given: dict[str, Any] = {"headers": at(here)}
    if way == "query":
        given["query"] = in_query(bad)
    else:
        given["headers"]["Authorization"] = basic(*bad)
    assert_limited(until_limited(lambda _: anyone.get("generators", **given), 401))
    # Who needs no credentials, and who comes from elsewhere, is not hindered.
    assert anyone.validate(known, headers=at(here)).status == 200
    elsewhere = {**at("192.0.2.98"), "Authorization": basic(key, secret)}
    assert anyone.get("generators/0", headers=elsewhere).status == 404


def test_missing_credentials_and_permissions_are_no_guesses(guarded: RunningServer, anyone: Client) -> None:
    reader = basic(*guarded.api_key(Permissions.READ))
    here = at("192.0.2.9")
    for _ in range(2 * LIMIT):
        assert anyone.get("licenses", headers=here).status == 401
        assert anyone.delete("generators/1", headers={**here, "Authorization": reader}).status == 401
    assert anyone.get("generators/0", headers={**here, "Authorization": reader}).status == 404


def test_unknown_keys_in_management_calls_are_no_guesses(guarded: RunningServer, anyone: Client) -> None:
    headers = {**at("192.0.2.10"), "Authorization": basic(*guarded.api_key())}
    statuses = {anyone.get(f"licenses/{a_key()}", headers=headers).status for _ in range(2 * LIMIT)}
    assert statuses <= {404}
