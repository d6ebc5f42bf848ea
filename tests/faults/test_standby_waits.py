"""Commits that wait for a synchronous standby which does not come, and waits that are cut short."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.faults.installations import Database
from tests.faults.load import FATE_UNKNOWN
from tests.http.asking import Client, Reply, assert_refused
from tests.server import RunningServer, wait_until

ENDS = ["pg_cancel_backend", "pg_terminate_backend"]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


@pytest.fixture(autouse=True)
def missing_standby(store: Database, keywright: RunningServer) -> Iterator[None]:
    """Every commit waits for a standby that there is not."""
    store.set("synchronous_standby_names", "nobody")
    yield
    store.set("synchronous_standby_names", None)


def activate(server: RunningServer, store: Database, label: str, **headers: str) -> Reply:
    with Client(server) as program:
        return program.activate(store.keys[0], query={"label": label}, headers=headers)


def waiting(store: Database) -> list[int]:
    """The sessions that wait for the standby."""
    return store.sessions("wait_event = 'SyncRep'")


def cut_short(store: Database, how: str, call: Future[Reply]) -> None:
    """End every wait, until the call is answered: a commit of the background may wait before the call's."""
    wait_until(lambda: call.done() or waiting(store), "a commit that waits")
    assert not call.done(), call.result()

    def is_answered() -> bool:
        for pid in waiting(store):
            store.sql(f"SELECT {how}(%s)", pid)
        return call.done()

    wait_until(is_answered, "an answer")


def assert_unknown(reply: Reply) -> None:
    assert_refused(reply, FATE_UNKNOWN, code="service_unavailable", status=503)
    assert int(reply.header("retry-after") or 0) >= 1


@pytest.mark.parametrize("how", ENDS)
def test_a_commit_whose_wait_was_cut_short_is_no_success(
    keywright: RunningServer, store: Database, pool: ThreadPoolExecutor, how: str
) -> None:
    call = pool.submit(activate, keywright, store, "one")
    cut_short(store, how, call)
    assert_unknown(call.result())
    # It is there, but nobody else may have it.
    assert store.labels() == {"one": 1}


def test_it_is_no_success_either_where_warnings_are_turned_off(
    keywright: RunningServer, store: Database, pool: ThreadPoolExecutor
) -> None:
    store.sql(f"ALTER DATABASE {store.name} SET client_min_messages = 'error'")
    store.hang_up()
    call = pool.submit(activate, keywright, store, "one")
    cut_short(store, "pg_cancel_backend", call)
    assert_unknown(call.result())


def generate(server: RunningServer, credentials: tuple[str, str], policy_id: int) -> Reply:
    with Client(server, credentials) as vendor:
        headers = {"Idempotency-Key": "a-key"}
        return vendor.post(f"generators/{policy_id}/generate", json_body={"amount": 2}, headers=headers)


def test_a_repeated_activation_waits_for_the_standby_as_the_first_did(
    keywright: RunningServer, store: Database, pool: ThreadPoolExecutor
) -> None:
    def call() -> Reply:
        return activate(keywright, store, "one", **{"Idempotency-Key": "a-key"})

    assert_done_once_the_standby_has_it(store, pool, call)
    assert store.labels() == {"one": 1}


def test_licenses_generated_again_wait_for_the_standby_as_the_first_did(
    keywright: RunningServer, store: Database, pool: ThreadPoolExecutor
) -> None:
    store.set("synchronous_standby_names", None)
    vendor = keywright.api_key()
    with Client(keywright, vendor) as client:
        fields = {"name": "Hex", "charset": "0123456789ABCDEF", "chunks": 4, "chunk_length": 4}
        made = client.post("generators", json_body=fields).data
    store.set("synchronous_standby_names", "nobody")
    assert_done_once_the_standby_has_it(store, pool, lambda: generate(keywright, vendor, made["id"]))
    assert store.sql("SELECT count(*) FROM licenses") == [(len(store.keys) + 2,)]


def assert_done_once_the_standby_has_it(
    store: Database, pool: ThreadPoolExecutor, call: Callable[[], Reply]
) -> None:
    for _ in range(2):
        # The second time the answer is kept, but it is not on the standby.
        asked = pool.submit(call)
        cut_short(store, "pg_cancel_backend", asked)
        assert_unknown(asked.result())
    store.set("synchronous_standby_names", None)
    reply = call()
    assert (reply.status, reply.header("idempotency-replayed")) == (200, "true")
