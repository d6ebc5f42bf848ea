"""Several servers on one PostgreSQL database: whichever is asked, the answer is that of one."""

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.concurrency.callers import calling
from tests.concurrency.instances import instances
from tests.concurrency.selling import (
    acknowledgements_in,
    activate_path,
    assert_well,
    shuffle_plan,
    tokens_in,
    wait_for_load,
)
from tests.http.asking import Client, Reply, a_key
from tests.server import RunningServer, wait_until

FOUR = 4


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningServer]]:
    with instances(tmp_path_factory.mktemp("instances"), FOUR) as servers:
        yield servers
        for server in servers:
            assert_well(server)


@pytest.fixture(scope="module")
def clients(servers: list[RunningServer]) -> Iterator[list[Client]]:
    """The same vendor at each of the servers."""
    credentials = servers[0].api_key()
    with ExitStack() as stack:
        yield [stack.enter_context(Client(server, credentials)) for server in servers]


def at_once(clients: list[Client], call: Callable[[Client], Reply]) -> list[Reply]:
    """What each is answered."""
    with ThreadPoolExecutor(len(clients)) as pool:
        return list(pool.map(call, clients))


def once() -> dict[str, Any]:
    return {"headers": {"Idempotency-Key": secrets.token_hex(8)}}


def test_what_one_server_did_every_other_knows_at_once(clients: list[Client]) -> None:
    key = clients[0].license(times_activated_max=FOUR)
    for number, client in enumerate(clients, 1):
        assert client.activate(key).data["timesActivated"] == number
        assert {other.counter(key) for other in clients} == {number}
    assert {client.activate(key).status for client in clients} == {404}


def test_the_same_call_at_every_server_has_one_effect_and_one_answer(clients: list[Client]) -> None:
    for _ in range(20):
        key = clients[0].license()
        replies = at_once(clients, partial(Client.activate, key=key, **once()))
        assert [reply.status for reply in replies] == [200] * FOUR
        assert len({reply.body for reply in replies}) == 1
        assert sum(reply.header("idempotency-replayed") is None for reply in replies) == 1
        assert clients[-1].counter(key) == 1


def test_a_call_is_remembered_by_the_servers_that_did_not_get_it(clients: list[Client]) -> None:
    key, again = clients[0].license(), once()
    first = clients[0].activate(key, **again)
    for client in clients[1:]:
        repeated = client.activate(key, **again)
        assert (repeated.status, repeated.body) == (200, first.body)
        assert client.activate(key, query="label=another", **again).status == 422
    assert clients[0].counter(key) == 1


def test_of_many_servers_that_make_the_same_key_one_succeeds(clients: list[Client]) -> None:
    for _ in range(20):
        create = partial(Client.post, path="licenses", json_body={"license_key": a_key()})
        replies = at_once(clients, create)
        assert sorted(reply.status for reply in replies) == [200] + [404] * (FOUR - 1)
        refused = {reply.message for reply in replies if reply.status == 404}
        assert refused == {"This license key already exists."}


def test_licenses_made_at_every_server_have_numbers_of_their_own(clients: list[Client]) -> None:
    def make(client: Client) -> list[int]:
        made = (client.post("licenses", json_body={"license_key": a_key()}) for _ in range(25))
        return [reply.data["id"] for reply in made]

    with ThreadPoolExecutor(FOUR) as pool:
        numbers = [number for made in pool.map(make, clients) for number in made]
    assert len(set(numbers)) == FOUR * 25


def test_an_api_key_is_good_everywhere_at_once_and_refused_everywhere_soon(
    servers: list[RunningServer],
) -> None:
    credentials = servers[0].api_key()
    with ExitStack() as stack:
        known = [stack.enter_context(Client(server, credentials)) for server in servers]
        assert [client.get("generators/0").status for client in known] == [404] * FOUR
        servers[1].revoke(credentials)
        wait_until(
            lambda: {client.get("generators/0").status for client in known} == {401},
            "every server to refuse the API key",
        )


def test_places_that_come_and_go_at_two_servers_are_never_more_than_there_are(
    servers: list[RunningServer], clients: list[Client]
) -> None:
    keys = [clients[0].license(times_activated_max=3, product_id=2) for _ in range(8)]
    paths = [activate_path(key) for key in keys] * 3
    paths += [path.replace("/activate/", "/deactivate/") for path in paths[:8]]
    with calling(servers[:2], shuffle_plan(paths * 60, processes=2), connections=32) as callers:
        journal = callers.journal()
    assert {(entry.fate, entry.status) for entry in journal} == {("answered", 200), ("answered", 404)}
    done = [entry for entry in journal if entry.status == 200]
    assert {entry.times_activated for entry in done if "/activate/" in entry.path} == {1, 2, 3}
    assert {entry.times_activated for entry in done if "/deactivate/" in entry.path} == {0}
    servers[0].assert_consistent()


def test_when_one_server_is_killed_the_others_go_on(tmp_path: Path) -> None:
    with instances(tmp_path, 2) as (mortal, other):
        with Client(other, other.api_key()) as vendor:
            paths = [activate_path(vendor.license(product_id=1)) for _ in range(20)]
        with calling([mortal, other], [paths], connections=16, repeating=True) as callers:
            wait_for_load(other)
            mortal.kill()
            wait_for_load(other)
            other.stop()
            journal = callers.journal()
        assert {entry.status for entry in journal if entry.fate == "answered"} == {200}
        assert acknowledgements_in(journal) <= tokens_in(other, 1)
        assert_well(other)
