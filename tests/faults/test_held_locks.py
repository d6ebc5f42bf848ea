"""Somebody holds a license and does not go on: the others do."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.faults.installations import Database
from tests.faults.judge import assert_right
from tests.faults.load import RESTED, assert_answers_in_shape, longest_wait, run_load
from tests.server import RunningServer, running, wait_until


@contextmanager
def hold_license(store: Database, key: str) -> Iterator[None]:
    """A session that locks this license and stays where it is."""
    with psycopg.connect(store.url) as connection:
        number = store.keys.index(key)
        query = "SELECT id FROM licenses ORDER BY id LIMIT 1 OFFSET %s FOR UPDATE"
        connection.execute(query, [number])
        yield
        connection.rollback()


def test_a_held_license_does_not_hold_up_the_others(keywright: RunningServer, store: Database) -> None:
    first, *others = store.keys
    with (
        run_load(keywright, others, rest=RESTED) as beside,
        run_load(keywright, [first], rest=RESTED) as about,
    ):
        with hold_license(store, first):
            began = time.monotonic()
            about.wait_for_refusal(began)
            beside.wait_for_successes(50)
            about.wait_for_refusal(time.monotonic())
            assert about.successes_since(began) == 0
            seconds = time.monotonic() - began
        print(f"{beside.successes_since(began) / seconds:.0f} others a second")
        about.wait_for_successes()
        journals = [about.finish(), beside.finish()]
    waits = [longest_wait(journal) for journal in journals]
    print(f"longest waits {waits[0]:.1f} s and {waits[1]:.1f} s")
    assert {answer.status for answer in beside.answers} == {200}
    assert_answers_in_shape(journals[0])
    assert_right([*journals[0], *journals[1]], store)


def test_what_an_instance_held_when_it_stopped_moving_is_free_after_some_seconds(
    keywright: RunningServer, store: Database, tmp_path: Path
) -> None:
    first, *others = store.keys
    settings = store.settings(application_name="keywright-stopped")
    with (
        running(tmp_path / "stopped", **settings) as stopped,
        run_load(stopped, [first], rest=RESTED) as its,
        run_load(keywright, others, rest=RESTED) as beside,
    ):
        stop_inside_a_transaction(stopped, store)
        began = time.monotonic()
        with run_load(keywright, [first], succeeding=False) as about:
            about.wait_for_refusal(began)
            beside.wait_for_successes(50)
            about.wait_for_successes()
            seconds = time.monotonic() - began
            journal = about.finish()
        stopped.signal(signal.SIGCONT)
        its.wait_for_successes()
        journal = [*journal, *its.finish(), *beside.finish()]
    print(f"free after {seconds:.1f} s")
    assert_answers_in_shape(journal)
    assert_right(journal, store)


def stop_inside_a_transaction(server: RunningServer, store: Database) -> None:
    """Stop the process where the database waits for it, a license locked."""

    def is_inside() -> bool:
        server.signal(signal.SIGSTOP)
        query = """SELECT pid FROM pg_stat_activity JOIN pg_locks USING (pid)
                   WHERE state = 'idle in transaction' AND relation = 'licenses'::regclass
                   AND mode = 'RowShareLock' AND application_name = 'keywright-stopped'"""
        if store.sql(query):
            return True
        server.signal(signal.SIGCONT)
        return False

    wait_until(is_inside, "a process that stands still inside a transaction")
