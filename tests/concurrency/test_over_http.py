"""Many programs at once against a real server: nothing is given twice, nothing that was said is lost."""

import json
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.concurrency.callers import calling
from tests.concurrency.selling import (
    acknowledgements_in,
    activate_path,
    assert_well,
    events_in,
    shuffle_plan,
    tokens_in,
    wait_for_load,
)
from tests.http.asking import (
    V2,
    Client,
    Reply,
    a_key,
    assert_refused,
    core,
)
from tests.server import NO_LIMITS, RunningServer, running, wait_until


@pytest.fixture(scope="module")
def server(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("server") / "data", database, **NO_LIMITS) as server:
        yield server
        assert_well(server)


@pytest.fixture
def mortal(database: str, tmp_path: Path) -> Iterator[RunningServer]:
    """A server that the test may end."""
    with running(tmp_path / "data", database, **NO_LIMITS) as server:
        yield server
        assert_well(server)


@pytest.fixture(scope="module")
def vendor(server: RunningServer) -> Iterator[Client]:
    with Client(server, server.api_key()) as client:
        yield client


@pytest.fixture(scope="module")
def program(server: RunningServer) -> Iterator[Client]:
    with Client(server) as client:
        yield client


def test_places_that_come_and_go_are_never_more_than_there_are(server: RunningServer, vendor: Client) -> None:
    keys = [vendor.license(times_activated_max=3, product_id=2) for _ in range(8)]
    calls = ("activate", "activate", "activate", "deactivate")
    paths = [V2 + core(call, key) for key in keys for call in calls]
    with calling([server], shuffle_plan(paths * 60, processes=2), connections=32) as callers:
        journal = callers.journal()
    assert {(entry.fate, entry.status) for entry in journal} == {("answered", 200), ("answered", 404)}
    done = [entry for entry in journal if entry.status == 200]
    taken = [entry for entry in done if "/activate/" in entry.path]
    given_up = [entry for entry in done if "/deactivate/" in entry.path]
    assert {entry.times_activated for entry in taken} == {1, 2, 3}
    assert {entry.times_activated for entry in given_up} == {0}
    events = events_in(server, 2)
    assert events["license.activated"] == len(taken)
    assert events["license.deactivated"] == len(taken) - len(tokens_in(server, 2))
    server.assert_consistent()


# --- the end of a server --------------------------------------------------------------------------


def some_licenses(server: RunningServer) -> list[str]:
    """The addresses at which twenty licenses of product 1 are activated."""
    with Client(server, server.api_key()) as vendor:
        return [activate_path(vendor.license(product_id=1)) for _ in range(20)]


def test_a_server_that_is_told_to_end_under_load_has_answered_what_it_did(mortal: RunningServer) -> None:
    paths = some_licenses(mortal)
    with calling([mortal], [paths, paths], connections=32, repeating=True) as callers:
        wait_for_load(mortal)
        assert mortal.stop() == 0
        journal = callers.journal()
    assert {entry.status for entry in journal if entry.fate == "answered"} == {200}
    # Closed is a connection that was idle, or whose request was never read: it was not carried out.
    assert {entry.fate for entry in journal} <= {"answered", "closed"}
    assert tokens_in(mortal, 1) == acknowledgements_in(journal)


def test_what_was_accepted_before_the_end_is_finished(mortal: RunningServer) -> None:
    request = f"GET {some_licenses(mortal)[0]} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    waiting = [socket.create_connection(("127.0.0.1", mortal.port), timeout=30) for _ in range(20)]
    try:
        with mortal.holding_changes():
            for connection in waiting:
                connection.sendall(request)
            with Client(mortal) as other:
                # Answered in turn: whatever came before is accepted by then.
                assert [other.get("/healthz").status for _ in range(3)] == [200, 200, 200]
            mortal.signal(signal.SIGTERM)
            wait_until(lambda: not is_listening(mortal), "the server to take no more")
        answers = [connection.makefile("rb").read() for connection in waiting]
    finally:
        for connection in waiting:
            connection.close()
    assert [answer.split(b" ", 2)[1] for answer in answers] == [b"200"] * 20
    assert mortal.wait() == 0
    assert len(tokens_in(mortal, 1)) == 20


def is_listening(server: RunningServer) -> bool:
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=30).close()
    except ConnectionRefusedError:
        return False
    return True


# --- a full queue ---------------------------------------------------------------------------------


def test_who_finds_the_queue_full_is_told_to_come_back(tmp_path: Path, database: str) -> None:
    with (
        running(tmp_path / "data", database, queue_limit=5, **NO_LIMITS) as server,
        Client(server) as program,
    ):
        with Client(server, server.api_key()) as vendor:
            key = vendor.license()

        def activate() -> Reply:
            with Client(server) as client:
                return client.activate(key)

        with ThreadPoolExecutor(40) as pool:
            with server.holding_changes():
                calls = [pool.submit(activate) for _ in range(40)]
                # Five wait, behind at most five that are being decided together.
                wait_until(lambda: sum(call.done() for call in calls) >= 40 - 10, "the full queue")
                # Questions have a queue of their own.
                assert program.validate(key).data["timesActivated"] == 0
            replies = [call.result() for call in calls]
        done = [reply for reply in replies if reply.status == 200]
        # Five, when all had come before the first batch began; fewer while the server has work of its own.
        assert 1 <= len(done) <= 10
        for reply in replies:
            if reply.status != 200:
                assert_told_to_come_back(reply)
        assert program.activate(key).data["timesActivated"] == len(done) + 1
        server.assert_consistent()


def assert_told_to_come_back(reply: Reply) -> None:
    sentence = "Too many requests are waiting. Please try again."
    assert_refused(reply, sentence, code="service_unavailable", status=503)
    assert int(reply.header("retry-after") or 0) >= 1


# --- beside the command line ----------------------------------------------------------------------


def test_what_the_command_line_changes_is_seen(server: RunningServer, program: Client) -> None:
    key = a_key()
    server.cli("license", "create", "--key", key, "--max", "1")
    assert program.activate(key).data["timesActivated"] == 1
    server.cli("license", "update", key, "--max", "2")
    assert program.activate(key).data["timesActivated"] == 2
    server.cli("license", "delete", key, "--yes")
    assert program.validate(key).status == 404
    options = ("--name", "n", "--permissions", "read", "--json")
    made: dict[str, Any] = json.loads(server.cli("apikey", "create", *options))
    with Client(server, (made["consumer_key"], made["consumer_secret"])) as reader:
        assert reader.get("generators/0").status == 404
        server.cli("apikey", "revoke", str(made["id"]))
        wait_until(lambda: reader.get("generators/0").status == 401, "the API key to be refused")


def test_the_command_line_and_a_server_under_load_do_not_hurt_each_other(mortal: RunningServer) -> None:
    paths = some_licenses(mortal)
    with Client(mortal, mortal.api_key()) as vendor:
        mine = vendor.license(product_id=2)
        with calling([mortal], [paths], connections=32, repeating=True) as callers:
            for _ in range(2):
                wait_for_load(mortal)
                mortal.cli("license", "activate", mine)
                assert vendor.activate(mine).status == 200
            wait_for_load(mortal)
            assert mortal.stop() == 0
            journal = callers.journal()
    assert {entry.status for entry in journal if entry.fate == "answered"} == {200}
    assert tokens_in(mortal, 1) == acknowledgements_in(journal)
    assert len(tokens_in(mortal, 2)) == 4
