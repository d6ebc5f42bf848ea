"""Several servers on one PostgreSQL database: whichever is asked, the answer is that of one."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.concurrency.callers import calling
from tests.concurrency.instances import instances
from tests.concurrency.selling import (
    acknowledgements_in,
    activate_path,
    assert_well,
    tokens_in,
    wait_for_load,
)
from tests.http.asking import Client
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


def test_what_one_server_did_every_other_knows_at_once(clients: list[Client]) -> None:
    key = clients[0].license(times_activated_max=FOUR)
    for number, client in enumerate(clients, 1):
        assert client.activate(key).data["timesActivated"] == number
        assert {other.counter(key) for other in clients} == {number}
    assert {client.activate(key).status for client in clients} == {404}


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
