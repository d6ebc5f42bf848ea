"""PostgreSQL ends and comes back while programs are calling; Keywright stays."""

import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from keywright.core.errors import StoreConflict
from keywright.db import Storage, open_storage, run_write
from keywright.licensing.licenses import store as license_store
from tests.faults.altered import altering_command
from tests.faults.installations import KEY_RING, Database, rounds
from tests.faults.judge import assert_right, judge_calls
from tests.faults.load import assert_answers_in_shape, run_load
from tests.faults.watch import Watch, watch_server
from tests.proving import record
from tests.server import RunningServer, running, wait_until
from tools import postgres as servers
from tools.postgres import FAST, PostgresServer

pytestmark = pytest.mark.tier("ordinary")

#: How long after the server takes connections the next call may succeed, in seconds.
RECOVERY = 5.0

ENDS: list[Callable[[PostgresServer], None]] = [
    lambda server: server.stop("immediate"),
    lambda server: server.kill(),
    lambda server: server.stop("fast"),
]


@rounds(17)
def test_nothing_acknowledged_is_lost_when_the_database_restarts_under_load(
    keywright: RunningServer, store: Database, round_number: int
) -> None:
    recoveries = []
    with run_load(keywright, store.keys) as load, watch_server(keywright) as watch:
        for end in ENDS:
            end(store.server)
            wait_for(watch, 503)
            store.server.start()
            recoveries.append(load.wait_for_successes(1))
            wait_for(watch, 200)
            load.wait_for_successes()
        journal = load.finish()
        assert set(watch.statuses("/healthz")) == {200}
    verdict = judge_calls(journal, store.labels())
    record(
        "R11",
        "postgresql",
        counted={
            "restarts": len(recoveries),
            "calls": len(journal),
            "acknowledged": sum(call.is_acknowledged for call in journal),
            "acknowledged and missing": len(verdict.missing),
            "doubled": len(verdict.doubled),
        },
        worst={"seconds until calls succeed again": max(recoveries)},
    )
    assert max(recoveries) <= RECOVERY
    assert 503 in {answer.status for call in journal for answer in call.answers}
    assert_answers_in_shape(journal)
    assert_right(journal, store)


def test_the_judge_finds_what_is_lost_by_commits_that_do_not_wait_for_the_log(tmp_path: Path) -> None:
    with servers.running(**FAST, wal_writer_delay="10s") as server:
        store = Database(server)
        program = altering_command("committing later")
        with (
            running(tmp_path / "data", program=program, **store.settings()) as keywright,
            run_load(keywright, store.keys) as load,
        ):
            server.stop("immediate")
            server.start()
            load.wait_for_successes()
            journal = load.finish()
        missing = judge_calls(journal, store.labels()).missing
    done = sum(call.is_acknowledged for call in journal)
    found = {"acknowledged": done, "acknowledged and missing": len(missing)}
    record("R11", "control: commits that do not wait for the log", found)
    assert missing


def wait_for(watch: Watch, status: int) -> None:
    """Until ``/readyz`` has answered that, asked from now on."""
    now = time.monotonic()
    wait_until(lambda: status in watch.statuses("/readyz", since=now), f"/readyz to say {status}")


def test_a_number_that_a_crash_took_back_is_not_given_twice() -> None:
    # What was fetched by a transaction that came to nothing may not be on the disk.
    with servers.running(**FAST, wal_writer_delay="10s") as server:
        store = Database(server)
        with (
            closing(open_storage(store.url, KEY_RING)) as one,
            closing(open_storage(store.url, KEY_RING)) as other,
        ):
            take_numbers_and_crash(one, server)
            server.start()
            given = [*numbers(one, 5), *numbers(other, 5), *numbers(one, 5)]
            assert len(set(given)) == 15


def take_numbers_and_crash(storage: Storage, server: PostgresServer) -> None:
    with suppress(StoreConflict), storage.write() as tx:
        # One of those that are fetched for the second is left.
        _ = tx.ids.next("activation"), tx.ids.next("activation")
        server.stop("immediate")
        # The connection has ended.
        license_store.lock_licenses(tx, ["a key"])


def numbers(storage: Storage, amount: int) -> list[int]:
    return run_write(storage, lambda tx: [tx.ids.next("activation") for _ in range(amount)])
