"""Guessing keys or credentials is rate-limited; other callers are not."""

import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from keywright.http.middleware.call_limits import LICENSE_BURST
from keywright.identity.model import Permissions
from tests.http.asking import V2, Client, Reply, a_key, assert_refused, basic, core, in_query, license_path
from tests.server import NO_LIMITS, RunningServer, running, wait_until
from tests.tables import each_row

#: The maximum of failures per minute; one more is allowed every second.
LIMIT = 60
#: The number of concurrent calls; while they run, some more may be allowed.
CROWD = 250
SOME_SECONDS = 30


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with low limits, behind a proxy, so that tests can use any address."""
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


def at_once(server: RunningServer, path: str, requests: Sequence[dict[str, str]]) -> Counter[int]:
    """Send this many GET requests with these headers (``path`` may use ``{n}``, their number), each on a
    separate connection, so that all arrive before the first response; return the statuses.
    """
    with ExitStack() as stack:
        place = ("127.0.0.1", server.port)
        everyone = [stack.enter_context(socket.create_connection(place, 30)) for _ in requests]
        for number, (one, headers) in enumerate(zip(everyone, requests, strict=True)):
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            head = f"GET {V2}{path.format(n=number)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{lines}\r\n"
            one.sendall(head.encode())
        return Counter(int(one.makefile("rb").readline().split()[1]) for one in everyone)


def until_limited(call: Callable[[int], Reply], expected: int, *, at_least: int = LIMIT) -> Reply:
    """Fail until limited: after LIMIT failures, or a few more that were refilled."""
    statuses: list[int] = []
    for attempt in range(3 * LIMIT):
        reply = call(attempt)
        if reply.status != expected:
            assert at_least <= len(statuses) <= LIMIT + 30, statuses
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
    # Other callers are not affected.
    assert anyone.validate(known, headers=at("192.0.2.99")).status == 200
    assert anyone.validate(a_key(), headers=at("192.0.2.99")).status == 404


def test_known_keys_and_other_refusals_are_no_failures(anyone: Client, known: str) -> None:
    here = at("192.0.2.4")
    for _ in range(2 * LIMIT):
        assert anyone.validate(known, headers=here).status == 200
        assert anyone.validate(known, "0" * 40, headers=here).status == 404
    assert anyone.validate(a_key(), headers=here).status == 404


def test_addresses_of_one_ipv6_network_count_together(anyone: Client, known: str) -> None:
    limited = until_limited(lambda n: anyone.validate(a_key(), headers=at(f"2001:db8:1:2::{n + 1:x}")), 404)
    assert_limited(limited)
    assert anyone.validate(known, headers=at("2001:db8:1:3::1")).status == 200


def test_rotating_addresses_do_not_help_an_api_key(
    guarded: RunningServer, anyone: Client, known: str
) -> None:
    client = {"Authorization": basic(*guarded.api_key(Permissions.READ))}
    assert_limited(
        until_limited(lambda n: anyone.validate(a_key(), headers=at(f"198.51.100.{n + 1}") | client), 404)
    )
    assert anyone.validate(known, headers=at("198.51.100.250")).status == 200


def test_license_keys_are_guessed_no_faster_by_retrieving_them_with_a_client_key(
    guarded: RunningServer, anyone: Client, known: str
) -> None:
    client = basic(*guarded.api_key(Permissions.CLIENT))
    headers = {**at("198.51.100.240"), "Authorization": client}

    def retrieve(key: str) -> int:
        return anyone.get(license_path(key), headers=headers).status

    assert retrieve(known) == 200
    statuses = [retrieve(a_key()) for _ in range(LIMIT + SOME_SECONDS)]
    assert set(statuses) == {404, 429}
    assert retrieve(known) == 200


def test_a_client_key_that_is_shipped_to_many_is_not_stopped_by_one(
    guarded: RunningServer, anyone: Client, known: str
) -> None:
    client = {"Authorization": basic(*guarded.api_key(Permissions.CLIENT))}
    here = at("198.51.100.251") | client
    assert_limited(until_limited(lambda _: anyone.validate(a_key(), headers=here), 404))
    assert anyone.validate(known, headers=at("198.51.100.252") | client).status == 200


def test_licenses_of_another_product_count_as_unknown_keys(
    guarded: RunningServer, anyone: Client, known: str
) -> None:
    headers = {**at("192.0.2.6"), "Authorization": basic(*guarded.api_key(Permissions.CLIENT, 2))}
    assert_limited(until_limited(lambda _: anyone.validate(known, headers=headers), 404))


@each_row("way", ["query", "Basic"])
@each_row("wrong", ["key", "secret"])
def test_too_many_bad_credentials_from_an_address_are_stopped(
    guarded: RunningServer, anyone: Client, known: str, way: str, wrong: str
) -> None:
    here = at(f"192.0.2.{70 + 2 * (way == 'query') + (wrong == 'key')}")
    key, secret = guarded.api_key()
    bad = (f"ck_{'0' * 40}", secret) if wrong == "key" else (key, f"cs_{'0' * 40}")
    given: dict[str, Any] = {"headers": here | ({"Authorization": basic(*bad)} if way == "Basic" else {})}
    if way == "query":
        given["query"] = in_query(bad)
    assert_limited(until_limited(lambda _: anyone.get("generators", **given), 401))
    # Callers without credentials, or from elsewhere, are not affected.
    assert anyone.validate(known, headers=here).status == 200
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


# --- many calls at once -----------------------------------------------------------------------------


def test_unknown_keys_that_come_at_once_cannot_pass_the_limit(guarded: RunningServer) -> None:
    statuses = at_once(guarded, core("validate", f"{a_key()}-") + "{n}", [at("192.0.2.20")] * CROWD)
    assert set(statuses) == {404, 429}
    assert statuses[404] <= LIMIT + SOME_SECONDS


def test_a_right_key_is_never_too_often_at_once(guarded: RunningServer, known: str) -> None:
    here = at("192.0.2.23")
    assert at_once(guarded, core("validate", known), [here] * CROWD) == {200: CROWD}
    here["Authorization"] = basic(*guarded.api_key())
    assert at_once(guarded, "generators/0", [here] * CROWD) == {404: CROWD}


# --- who goes on though the address is limited ------------------------------------------------------


def test_a_key_that_was_right_at_this_address_can_be_used_there_after_all(
    guarded: RunningServer, anyone: Client, known: str
) -> None:
    here = at("192.0.2.30")
    with Client(guarded, guarded.api_key()) as vendor:
        another = vendor.license()
    assert anyone.validate(known, headers=here).status == 200
    at_once(guarded, core("validate", f"{a_key()}-") + "{n}", [here] * CROWD)
    assert {anyone.validate(known, headers=here).status for _ in range(2 * LIMIT)} == {200}
    # No other key is looked up, so guessing gains nothing.
    statuses = {anyone.validate(another, headers=here).status for _ in range(5)}
    assert statuses <= {200, 429}
    assert at_once(guarded, core("validate", f"{a_key()}-") + "{n}", [here] * CROWD)[404] <= SOME_SECONDS


def test_credentials_that_were_right_at_this_address_can_be_used_there_after_all(
    guarded: RunningServer, anyone: Client
) -> None:
    right, other = basic(*guarded.api_key()), guarded.api_key()
    here = at("192.0.2.31")
    assert anyone.get("generators/0", headers={**here, "Authorization": right}).status == 404
    wrong = {**here, "Authorization": basic(other[0], f"cs_{'0' * 40}")}
    guesses = at_once(guarded, "generators", [wrong] * CROWD)
    assert set(guesses) == {401, 429}
    assert guesses[401] <= LIMIT + SOME_SECONDS
    own = {**here, "Authorization": right}
    assert {anyone.get("generators/0", headers=own).status for _ in range(20)} == {404}


def test_a_known_key_that_exists_no_more_is_known_no_more(guarded: RunningServer, anyone: Client) -> None:
    here = at("192.0.2.32")
    with Client(guarded, guarded.api_key()) as vendor:
        key = vendor.license()
        assert anyone.validate(key, headers=here).status == 200
        assert vendor.delete(f"licenses/{key}").status == 200
    assert_limited(until_limited(lambda _: anyone.validate(key, headers=here), 404))


# --- names as they are meant ------------------------------------------------------------------------


def test_credentials_in_an_encoded_name_are_counted_like_others(guarded: RunningServer) -> None:
    path = f"generators?c%6fnsumer_key=ck_{'0' * 40}&%63onsumer_secret=cs_{'0' * 37}{{n:03}}"
    assert at_once(guarded, path, [at("192.0.2.40")] * CROWD)[401] <= LIMIT + SOME_SECONDS


# --- malformed requests -----------------------------------------------------------------------------


def malformed(client: Client, key: str, address: str) -> Reply:
    headers = {**at(address), "Content-Type": "application/json"}
    return client.post(core("validate", key), body=b"[" * 100, headers=headers)


def test_too_many_malformed_requests_of_a_stranger_are_stopped(
    guarded: RunningServer, anyone: Client, known: str
) -> None:
    assert_limited(until_limited(lambda _: malformed(anyone, a_key(), "192.0.2.50"), 400))
    query = at("192.0.2.51")
    ask = lambda _: anyone.get(core("validate", a_key()), query="a=b&" * 1001, headers=query)  # noqa: E731
    assert_limited(until_limited(ask, 400))
    # A client key is public.
    headers = {**at("192.0.2.52"), "Authorization": basic(*guarded.api_key(Permissions.CLIENT))}
    retry = {**headers, "Idempotency-Key": "x" * 256}
    assert_limited(until_limited(lambda _: anyone.activate(known, headers=retry), 400))


def test_malformed_requests_of_others_do_not_stop_a_key_that_is_known(
    guarded: RunningServer, anyone: Client, known: str
) -> None:
    here = at("192.0.2.53")
    assert anyone.validate(known, headers=here).status == 200
    until_limited(lambda _: malformed(anyone, a_key(), "192.0.2.53"), 400)
    assert anyone.post(core("validate", known), form={"a": "b"}, headers=here).status == 200


def test_malformed_requests_of_a_shop_are_not_counted(guarded: RunningServer, anyone: Client) -> None:
    headers = {**at("192.0.2.54"), "Authorization": basic(*guarded.api_key())}
    headers["Content-Type"] = "application/json"
    statuses = {anyone.post("licenses", body=b"{", headers=headers).status for _ in range(2 * LIMIT)}
    assert statuses == {400}


# --- changes that succeed ---------------------------------------------------------------------------


def test_too_many_activations_of_a_license_are_stopped_and_giving_up_never_is(
    guarded: RunningServer, anyone: Client
) -> None:
    with Client(guarded, guarded.api_key()) as shop:
        key, other = shop.license(), shop.license()
        crowd = [at(f"198.18.0.{number % 250}") for number in range(CROWD)]
        statuses = sum((at_once(guarded, core("activate", key), crowd) for _ in range(5)), Counter[int]())
        assert set(statuses) == {200, 429}
        assert LICENSE_BURST <= statuses[200] <= LICENSE_BURST + SOME_SECONDS
        limited = until_limited(lambda _: anyone.activate(key, headers=at("198.18.0.1")), 200, at_least=0)
        sentence = "Too many activations in a short time. Please try again later."
        assert_refused(limited, sentence, code="rate_limited", status=429)
        assert 1 <= int(limited.header("retry-after") or 0) <= 60
        assert anyone.counter(key) >= statuses[200]
        # Other callers are not affected, nor is an API key that may read and write.
        assert anyone.activate(other, headers=at("198.18.0.1")).status == 200
        token = shop.activated(key)

        def is_reactivation_stopped() -> bool:
            # Occasionally a token is refilled, and the reactivation may use it.
            at_once(guarded, core("activate", key), crowd)
            assert anyone.deactivate(key, token, headers=at("198.18.0.1")).status == 200
            return anyone.activate(key, token, headers=at("198.18.0.1")).status == 429

        wait_until(is_reactivation_stopped, "a reactivation that is refused")
        assert anyone.deactivate(key, headers=at("198.18.0.1")).status == 200
