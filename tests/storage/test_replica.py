"""Queries answered by a real standby of a real server: never with old data."""

import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest

from keywright.core.errors import ConfigurationError, StoreUnavailable
from keywright.db import open_storage
from keywright.db.postgres import PostgresStorage
from keywright.db.replica import MAX_BEHIND, MIN_PAUSE
from keywright.db.watch import ReplicaState
from keywright.engine.executor import Executor
from keywright.licensing.activations.model import LicenseRecord
from keywright.registry import open_executor
from tests.makers import KEY_RING, activate, create, validate
from tests.server import wait_until
from tools.postgres import FAST, PostgresServer

pytestmark = pytest.mark.tier("ordinary")


@pytest.fixture(scope="module")
def primary() -> Iterator[PostgresServer]:
    server = PostgresServer(**FAST)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="module")
def standby(primary: PostgresServer) -> Iterator[PostgresServer]:
    server = PostgresServer(standby_of=primary, **FAST)
    try:
        server.start()
        yield server
    finally:
        server.remove()


def wait_for_all(primary: PostgresServer, standby: PostgresServer) -> None:
    """Wait until the standby has everything that the primary has written so far."""
    with psycopg.connect(primary.url("postgres")) as connection:
        written = connection.execute("SELECT pg_current_wal_flush_lsn()").fetchone()

    def has_all() -> bool:
        with psycopg.connect(standby.url("postgres")) as connection:
            query = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
            return connection.execute(query, written).fetchone() == (True,)

    wait_until(has_all, "all that was written, at the standby")


class Replicated:
    """Two instances on the same primary; both query the standby."""

    def __init__(self, primary: PostgresServer, standby: PostgresServer, lag_limit: int = 1_000) -> None:
        self.standby = standby
        self.name = primary.create_database()
        self.storages: list[PostgresStorage] = []
        for _ in range(2):
            storage = open_storage(
                primary.url(self.name),
                KEY_RING,
                read_url=standby.url(self.name),
                read_lag_limit=lag_limit,
            )
            assert isinstance(storage, PostgresStorage)
            self.storages.append(storage)
        self.one, self.other = map(open_executor, self.storages)
        wait_for_all(primary, standby)

    def asked_at_standby(self) -> int:
        """The number of license queries to the standby."""
        with psycopg.connect(self.standby.url(self.name), autocommit=True) as connection:
            connection.execute("SELECT pg_stat_force_next_flush()")
            row = connection.execute(
                "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'uq_licenses_key_hmac'"
            ).fetchone()
        return 0 if row is None else int(row[0])

    def last_check(self) -> object:
        """The time of the last check whether the standby is up to date."""
        with psycopg.connect(self.standby.url("postgres"), autocommit=True) as connection:
            query = "SELECT max(query_start) FROM pg_stat_activity WHERE datname = %s"
            return connection.execute(query, [self.name]).fetchone()

    def wait_for_answer(self, executor: Executor, expected: int = 0) -> None:
        """Query the license until the standby answers; all answers must have this many places taken."""

        def is_asked() -> bool:
            assert taken(executor) == expected
            return self.asked_at_standby() > 0

        wait_until(is_asked, "an answer from the standby")

    def close(self) -> None:
        for storage in self.storages:
            storage.close()

    @contextmanager
    def replay_paused(self) -> Iterator[None]:
        self.pause_replay()
        try:
            yield
        finally:
            self.resume_replay()

    def pause_replay(self) -> None:
        with psycopg.connect(self.standby.url("postgres"), autocommit=True) as connection:
            connection.execute("SELECT pg_wal_replay_pause()")
            wait_until(
                lambda: (
                    connection.execute("SELECT pg_get_wal_replay_pause_state()").fetchone() == ("paused",)
                ),
                "the pause",
            )

    def resume_replay(self) -> None:
        with psycopg.connect(self.standby.url("postgres"), autocommit=True) as connection:
            connection.execute("SELECT pg_wal_replay_resume()")


@pytest.fixture
def replicated(primary: PostgresServer, standby: PostgresServer) -> Iterator[Replicated]:
    with closing(Replicated(primary, standby)) as made:
        yield made


def taken(executor: Executor) -> int:
    (record,) = executor.query([validate("A")])
    assert isinstance(record, LicenseRecord), record
    assert len(record.activations) == record.license.times_activated
    return record.license.times_activated


def test_a_change_through_one_instance_is_seen_through_the_other_at_once(replicated: Replicated) -> None:
    replicated.one.execute([create("A")])
    for number in range(1, 300):
        replicated.one.execute([activate("A")])
        assert taken(replicated.other) == number


def test_the_standby_answers_when_it_has_everything(replicated: Replicated) -> None:
    replicated.one.execute([create("A")])
    replicated.wait_for_answer(replicated.other)


def test_the_standby_answers_another_object_on_the_same_database_too(replicated: Replicated) -> None:
    replicated.one.execute([create("A")])
    with closing(replicated.storages[1].clone()) as storage:
        beside = open_executor(storage)
        replicated.wait_for_answer(beside)
        replicated.one.execute([activate("A")])
        assert taken(beside) == 1


def test_a_standby_that_is_behind_is_passed_over(replicated: Replicated) -> None:
    replicated.one.execute([create("A"), activate("A")])
    assert taken(replicated.other) == 1
    with replicated.replay_paused():
        for number in range(2, 6):
            replicated.one.execute([activate("A")])
            assert taken(replicated.one) == taken(replicated.other) == number


def count_checks(replicated: Replicated, numbers: Iterable[int]) -> int:
    """Activate until this many places are taken, validate after each, and count the checks of the standby."""
    checks = {replicated.last_check()}
    for number in numbers:
        replicated.one.execute([activate("A")])
        assert taken(replicated.other) == number
        checks.add(replicated.last_check())
    return len(checks) - 1


def test_a_standby_that_is_far_behind_is_set_aside_at_once(
    primary: PostgresServer, standby: PostgresServer
) -> None:
    with closing(Replicated(primary, standby, lag_limit=0)) as replicated:
        replicated.one.execute([create("A")])
        with replicated.replay_paused():
            started = time.monotonic()
            checks = count_checks(replicated, range(1, 21))
            assert checks <= 1 + (time.monotonic() - started) / MIN_PAUSE
            state = replicated.storages[1].replica_state
            assert state is not None
            assert state.is_aside
            assert state.lag_seconds
            assert state.lag_seconds > 0


def test_a_standby_that_is_steadily_behind_is_set_aside_and_comes_back_when_it_has_caught_up(
    primary: PostgresServer, standby: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(Replicated(primary, standby, lag_limit=600_000)) as replicated:
        replicated.one.execute([create("A")])
        with replicated.replay_paused():
            # A control: until then, each query tries the standby in vain.
            numbers = range(1, MAX_BEHIND + 1)
            assert count_checks(replicated, numbers) == MAX_BEHIND
            started = time.monotonic()
            checks = count_checks(replicated, range(MAX_BEHIND + 1, MAX_BEHIND + 21))
            # After each pause, one query tries it.
            assert checks <= 1 + (time.monotonic() - started) / MIN_PAUSE
            assert [one for one in caplog.messages if "replica" in one] == [
                "the replica is behind; the primary answers until it can be used"
            ]
        replicated.wait_for_answer(replicated.other, MAX_BEHIND + 20)
        assert caplog.messages.count("the replica answers questions again") == 1
        assert replicated.storages[1].replica_state == ReplicaState(is_aside=False, lag_seconds=0.0)


def test_without_the_standby_the_primary_answers(primary: PostgresServer) -> None:
    gone = PostgresServer(standby_of=primary, **FAST)
    try:
        gone.start()
        with closing(Replicated(primary, gone)) as replicated:
            replicated.one.execute([create("A"), activate("A")])
            assert taken(replicated.other) == 1
            gone.kill()
            assert taken(replicated.other) == 1
            assert taken(replicated.one) == 1
    finally:
        gone.remove()


def test_a_change_is_never_decided_at_the_standby(primary: PostgresServer, standby: PostgresServer) -> None:
    name = primary.create_database()
    open_storage(primary.url(name), KEY_RING).close()
    wait_for_all(primary, standby)
    with closing(PostgresStorage(standby.url(name), KEY_RING)) as swapped:
        (outcome,) = open_executor(swapped).execute([create("A")])
    assert isinstance(outcome, StoreUnavailable) or type(outcome).__name__ == "StoreConflict"


def test_a_replica_of_an_sqlite_database_is_refused(tmp_path: object) -> None:
    with pytest.raises(ConfigurationError, match="only a PostgreSQL database"):
        open_storage(f"sqlite:///{tmp_path}/a.db", KEY_RING, read_url="postgresql://replica/db")
