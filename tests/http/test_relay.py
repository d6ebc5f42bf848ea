"""The relay: an unknown license is requested from its former shop."""

import copy
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Any

import pytest

from keywright.http.v2.relay import MAX_AT_ONCE, UNKNOWN_PER_MINUTE
from tests.http.asking import Client, Reply
from tests.plugin import CREDENTIALS, Plugin, expected, plugin
from tests.server import NO_LIMITS, RunningServer, running, wait_until
from tests.shop import EXPECTED

FULL, FREE = "FULL-TWO-OF-TWO", "LIFE-UNLIMITED-0001"


@pytest.fixture
def shop() -> Iterator[Plugin]:
    with plugin(*copy.deepcopy(expected(EXPECTED))) as server:
        yield server


@contextmanager
def relaying(tmp_path: Path, shop: Plugin, **settings: Any) -> Iterator[tuple[RunningServer, Client]]:
    """A new server that relays to the shop, and a program."""
    key, secret = CREDENTIALS
    relay = {"relay_url": shop.url, "relay_consumer_key": key, "relay_consumer_secret": secret}
    with running(tmp_path / "data", "sqlite", **(NO_LIMITS | relay | settings)) as server:
        with Client(server) as program:
            yield server, program
        server.assert_consistent()
    assert not [one for one in (secret, FULL, FREE) if one in server.log]


@pytest.fixture
def server(tmp_path: Path, shop: Plugin) -> Iterator[RunningServer]:
    with relaying(tmp_path, shop) as (server, _):
        yield server


@pytest.fixture
def program(server: RunningServer) -> Iterator[Client]:
    with Client(server) as client:
        yield client


def add(shop: Plugin, amount: int) -> list[str]:
    """Add licenses without activations to the shop."""
    keys = [f"ADDED-{number}" for number in range(amount)]
    shop.licenses += [
        shop.licenses[0] | {"id": 1_000 + number, "licenseKey": key, "activationData": []}
        for number, key in enumerate(keys)
    ]
    return keys


def test_the_first_call_brings_the_license_and_is_answered_as_every_call_is(
    server: RunningServer, shop: Plugin, program: Client
) -> None:
    old = next(one for one in shop.licenses if one["licenseKey"] == FULL)
    token = old["activationData"][0]["token"]
    assert "maximum activation count" in program.activate(FULL).message
    found = program.validate(FULL, token).data
    assert (found["id"], found["timesActivated"]) == (old["id"], 2)
    assert found["activationData"][0]["token"] == token
    assert program.deactivate(FULL, token).data["timesActivated"] == 1
    assert shop.requests == [f"/wp-json/lmfwc/v2/licenses/{FULL}"]
    (event,) = server.sql("SELECT actor, details FROM events WHERE name = 'license.imported'")
    assert (event[0], json.loads(event[1])["from"]) == ("relay", "relay")


def test_each_core_call_asks_and_no_other(server: RunningServer, shop: Plugin, program: Client) -> None:
    """Nor for a key that the plugin does not support in a path."""
    with Client(server, server.api_key()) as vendor:
        assert vendor.get(f"licenses/{FULL}").status == 404
    assert program.get("licenses/validate/A%20B%2F..%2F..").status == 404
    assert shop.requests == []
    for key, call in zip(add(shop, 3), ("activate", "validate", "deactivate"), strict=True):
        program.get(f"licenses/{call}/{key}")
    assert len(shop.requests) == 3


def test_without_the_settings_nothing_is_asked(tmp_path: Path, shop: Plugin) -> None:
    with running(tmp_path / "data", "sqlite") as server, Client(server) as program:
        assert program.validate(FULL).status == 404
    assert shop.requests == []


def test_a_key_that_is_unknown_there_too_is_asked_for_once(shop: Plugin, program: Client) -> None:
    replies = [program.validate("NOT-SOLD") for _ in range(3)]
    assert {one.status for one in replies} == {404}
    assert replies[0].message == "License Key: NOT-SOLD could not be found."
    assert len(shop.requests) == 1
    # An error may also have status 200.
    shop.fault = "errors inside"
    assert program.validate(FULL).status == 404


@pytest.mark.parametrize("fault", ["500", "html", "broken off", "redirect", "no route", "drip"])
def test_without_an_answer_a_program_is_told_to_try_again(shop: Plugin, program: Client, fault: str) -> None:
    shop.fault, shop.faults_left = fault, 1
    refused = program.activate(FREE)
    assert (refused.status, refused.header("retry-after")) == (503, "1")
    assert refused.json["code"] == "service_unavailable"
    # Calls share the endless response until it is aborted.
    wait_until(lambda: program.activate(FREE).status == 200, "an answer")


def test_a_license_that_was_deleted_here_stays_deleted(
    server: RunningServer, shop: Plugin, program: Client
) -> None:
    assert program.validate(FREE).status == 200
    with Client(server, server.api_key()) as vendor:
        assert vendor.delete(f"licenses/{FREE}").status == 200
    assert program.validate(FREE).status == 404


def test_a_call_with_an_idempotency_key_gets_no_refusal_that_is_kept(
    server: RunningServer, shop: Plugin
) -> None:
    with Client(server, server.api_key()) as vendor:
        headers = {"Idempotency-Key": "once"}
        first, again = (vendor.activate(FREE, headers=headers) for _ in range(2))
    assert first.data == again.data
    assert again.header("idempotency-replayed") == "true"


def ask_all(server: RunningServer, keys: list[str], pool: ThreadPoolExecutor) -> list[Any]:
    def ask(key: str) -> Reply:
        with Client(server) as client:
            return client.validate(key)

    return [pool.submit(ask, key) for key in keys]


def test_calls_for_one_key_share_one_question(server: RunningServer, shop: Plugin) -> None:
    shop.may_answer.clear()
    with ThreadPoolExecutor(20) as pool:
        replies = ask_all(server, [FREE] * 20, pool)
        assert shop.arrived.acquire(timeout=10)
        shop.may_answer.set()
        assert {one.result().status for one in replies} == {200}
    assert len(shop.requests) == 1


def test_so_many_questions_at_once_and_known_keys_do_not_wait(
    server: RunningServer, shop: Plugin, program: Client
) -> None:
    keys = add(shop, MAX_AT_ONCE + 1)
    assert program.validate(FREE).status == 200
    assert shop.arrived.acquire(timeout=10)
    shop.may_answer.clear()
    with ThreadPoolExecutor(MAX_AT_ONCE) as pool:
        replies = ask_all(server, keys[:-1], pool)
        for _ in replies:
            assert shop.arrived.acquire(timeout=10)
        assert program.validate(FREE).status == 200
        assert program.validate(keys[-1]).status == 503
        shop.may_answer.set()
        assert {one.result().status for one in replies} == {200}
    assert program.validate(keys[-1]).status == 200


def test_an_address_causes_so_many_questions_about_unknown_keys(shop: Plugin, program: Client) -> None:
    keys = add(shop, 5)
    assert {program.validate(key).status for key in keys} == {200}
    guesses = (program.validate(f"GUESS-{number}").status for number in count())
    statuses = list(takewhile(lambda status: status == 404, islice(guesses, 10 * UNKNOWN_PER_MINUTE)))
    assert UNKNOWN_PER_MINUTE <= len(statuses) < 10 * UNKNOWN_PER_MINUTE
    assert len(shop.requests) == len(keys) + len(statuses)
    assert {program.validate(key).status for key in keys} == {200}


def test_the_limit_of_unknown_keys_comes_first(tmp_path: Path, shop: Plugin) -> None:
    with relaying(tmp_path, shop, unknown_key_limit=2) as (_, program):
        statuses = [program.validate(f"GUESS-{number}").status for number in range(4)]
    assert statuses == [404, 404, 429, 429]
    assert len(shop.requests) == 2


def test_a_server_stops_while_the_shop_is_silent(tmp_path: Path, shop: Plugin) -> None:
    with relaying(tmp_path, shop) as (server, _):
        shop.may_answer.clear()
        with ThreadPoolExecutor(1) as pool:
            (reply,) = ask_all(server, [FREE], pool)
            assert shop.arrived.acquire(timeout=10)
            assert server.stop() == 0
            assert reply.result().status == 503
