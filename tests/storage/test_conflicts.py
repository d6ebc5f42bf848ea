"""Concurrent commands on one PostgreSQL database wait for each other, or are retried, and have the same
outcomes as without concurrency.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from time import monotonic
from typing import Any

import psycopg
import pytest
from sqlalchemy.dialects import postgresql

from keywright.core.command import Command
from keywright.core.crypto import KeyRing
from keywright.core.errors import (
    LicenseKeyTaken,
    LimitReached,
    LockTimeout,
    RejectedByDatabase,
    StoreConflict,
    Unavailable,
    UserExists,
)
from keywright.db import Storage, WriteTransaction, retry, run_write, session
from keywright.db.postgres import PostgresStorage
from keywright.engine.executor import Executor
from keywright.engine.idempotency import IdempotencyRecord
from keywright.events import store as event_store
from keywright.identity.model import User
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import LicenseFilter
from keywright.licensing.licenses.store import LICENSES_LOCKED
from keywright.registry import open_executor
from tests.databases import execute
from tests.makers import (
    KEY,
    KEY_RING,
    a_license,
    a_retry,
    activate,
    create,
    create_user,
    deactivate_all,
    delete,
    rename,
    update,
)
from tests.storage.conftest import EVERY_ISOLATION, Opener
from tests.storage.unlucky import raise_error

#: Two independent executors.
Pair = tuple[Executor, Executor]

DATABASES = tuple(one for one in EVERY_ISOLATION if one != "sqlite")
pytestmark = pytest.mark.of_the_database
ANY = LicenseFilter()


@pytest.fixture
def executor(storage: Storage) -> Executor:
    """An executor without random faults: only the tests cause failures here."""
    return open_executor(storage)


@pytest.fixture
def pair(open_again: Opener) -> Pair:
    """Two executors on one database."""
    return open_executor(open_again()), open_executor(open_again())


def at_once(one: Callable[[], Any], other: Callable[[], Any]) -> list[Any]:
    """Start both at the same moment, and return their results."""
    together = threading.Barrier(2)

    def begin(call: Callable[[], Any]) -> Any:
        together.wait(timeout=30)
        return call()

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(begin, (one, other)))


def surely(executor: Executor, commands: list[Command]) -> list[Any]:
    """Return the outcomes of commands; retry those refused because the machine is busy."""
    outcomes = executor.execute(commands)
    while left := [number for number, one in enumerate(outcomes) if isinstance(one, Unavailable)]:
        again = executor.execute([commands[number] for number in left])
        for number, outcome in zip(left, again, strict=True):
            outcomes[number] = outcome
    return outcomes


def change_at_once(pair: Pair, one: list[Command], other: list[Command]) -> list[list[Any]]:
    """Execute these commands at the same moment, and return the outcomes."""
    return at_once(partial(pair[0].execute, one), partial(pair[1].execute, other))


def counter(storage: Storage, key: str = KEY) -> int:
    with storage.read() as tx:
        return license_store.find_licenses(tx, [key])[key].times_activated


# --- locks ----------------------------------------------------------------------------------------


def test_licenses_are_locked_in_the_order_of_their_numbers() -> None:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    statement = str(LICENSES_LOCKED._for_postgres.compile(dialect=dialect))
    assert statement.endswith("ORDER BY licenses.id FOR UPDATE")


def deadlocks(url: str) -> int:
    """The number of deadlocks that the server resolved in this database, in sessions that have ended."""
    query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    return int(execute(url, query)[0][0])


def test_a_deadlock_is_counted(storage: Storage, url: str) -> None:
    open_executor(storage).execute([create("a"), create("b")])

    def lock(first: str, second: str) -> None:
        query = "SELECT id FROM licenses WHERE key_hmac = %s FOR UPDATE"
        with closing(psycopg.connect(url)) as connection, suppress(psycopg.errors.DeadlockDetected):
            connection.execute("SET deadlock_timeout = '10ms'")
            connection.execute(query, (KEY_RING.blind_index(first),))
            together.wait(timeout=30)
            connection.execute(query, (KEY_RING.blind_index(second),))

    together = threading.Barrier(2)
    at_once(partial(lock, "a", "b"), partial(lock, "b", "a"))
    assert deadlocks(url) == 1


def test_those_who_lock_the_same_licenses_in_other_orders_do_not_block_each_other(
    open_again: Opener, url: str
) -> None:
    storages = (open_again(), open_again())
    pair = [open_executor(storage) for storage in storages]
    keys = [f"key {n}" for n in range(60)]
    pair[0].execute([create(key) for key in keys])

    def activate_all(executor: Executor, order: list[str]) -> list[Any]:
        return [one for _ in range(10) for one in surely(executor, [activate(key) for key in order])]

    everything = at_once(partial(activate_all, pair[0], keys), partial(activate_all, pair[1], keys[::-1]))
    outcomes = [one for some in everything for one in some]
    assert {type(one) for one in outcomes} == {LicenseRecord}
    for key in keys:
        read = [one.license.times_activated for one in outcomes if one.license.key == key]
        assert sorted(read) == list(range(1, 21))
    for storage in storages:
        storage.close()
    assert deadlocks(url) == 0


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a short lock timeout, and no pause after it."""
    shorter = session._SETUP.replace("'lock_timeout', '1s'", "'lock_timeout', '50ms'")
    assert shorter != session._SETUP
    monkeypatch.setattr(session, "_SETUP", shorter)
    monkeypatch.setattr("keywright.engine.executor.HOLD_OFF", 0)


@contextmanager
def held(url: str, key: str) -> Iterator[None]:
    """Let another program lock the license during the block."""
    with closing(psycopg.connect(url)) as other:
        query = "SELECT id FROM licenses WHERE key_hmac = %s FOR UPDATE"
        assert other.execute(query, (KEY_RING.blind_index(key),)).fetchall() != []
        yield
        other.rollback()


@pytest.mark.usefixtures("impatient")
def test_a_license_that_is_held_elsewhere_is_a_conflict_and_free_later(executor: Executor, url: str) -> None:
    executor.execute([create()])
    with held(url, KEY):
        assert isinstance(executor.execute([activate()])[0], StoreConflict)
    assert executor.execute([activate()])[0].license.times_activated == 1


@pytest.mark.usefixtures("impatient")
def test_the_neighbours_of_a_license_that_is_held_elsewhere_are_not_hurt(
    executor: Executor, url: str
) -> None:
    executor.execute([create("a"), create("b"), create("c")])
    with held(url, "b"):
        outcomes = executor.execute([activate("a"), activate("b"), activate("c"), activate("b"), create("d")])
    kinds = [type(one) for one in outcomes if isinstance(one, LicenseRecord)]
    assert len(kinds) == 3
    assert isinstance(outcomes[1], StoreConflict)
    assert isinstance(outcomes[3], StoreConflict)
    again = executor.execute([activate("a"), activate("b"), activate("c")])
    assert [one.license.times_activated for one in again] == [2, 1, 2]


def test_a_license_that_is_held_for_a_moment_is_waited_for(executor: Executor, url: str) -> None:
    executor.execute([create()])
    with ThreadPoolExecutor(1) as pool:
        with held(url, KEY):
            call = pool.submit(executor.execute, [activate()])
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            while execute(url, waiting) == [(0,)]:
                assert not call.done()
        (outcome,) = call.result()
    assert outcome.license.times_activated == 1


def test_beside_a_license_that_is_held_for_long_several_servers_refuse_nothing_else(
    open_again: Opener, url: str
) -> None:
    keys = [f"key {n}" for n in range(12)]
    servers = [open_executor(open_again()) for _ in range(4)]
    servers[0].execute([create(key) for key in keys])
    refused: Counter[str] = Counter()
    decided: Counter[str] = Counter()

    def serve(executor: Executor) -> None:
        # Long enough for some checks whether the license is still locked.
        end = monotonic() + 4
        while monotonic() < end:
            outcomes = executor.execute([activate(key) for key in keys])
            for key, outcome in zip(keys, outcomes, strict=True):
                (refused if isinstance(outcome, Unavailable) else decided)[key] += 1

    with held(url, keys[5]), ThreadPoolExecutor(len(servers)) as pool:
        list(pool.map(serve, servers))
    print(f"refused {refused}, decided {decided.total()}")
    assert set(refused) == {keys[5]}
    assert set(decided) == {*keys} - {keys[5]}


# --- transactions that are undone -----------------------------------------------------------------


class Failing(PostgresStorage):
    """Lets the server fail the next changes at their end."""

    def __init__(self, url: str, key_ring: KeyRing) -> None:
        super().__init__(url, key_ring)
        self.state = ""
        self.times = 0
        self.tried = 0

    @contextmanager
    def write(self, *, wait: float | None = None) -> Iterator[WriteTransaction]:
        self.tried += 1
        with super().write(wait=wait) as tx:
            yield tx
            if self.tried <= self.times:
                raise_error(tx.connection, self.state)


@pytest.fixture
def failing(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Failing]:
    # Even on a slow machine, attempts count as quick.
    monkeypatch.setattr(retry, "_QUICK", 3600.0)
    with closing(Failing(url, KEY_RING)) as failing:
        yield failing


#: Serialization failure, deadlock, unique violation, server shutdown.
REPEATED = ["40001", "40P01", "23505", "57P01"]


@pytest.mark.parametrize("state", REPEATED)
def test_what_another_transaction_undid_is_done_again_nine_times(failing: Failing, state: str) -> None:
    failing.state, failing.times = state, 9
    (outcome,) = open_executor(failing).execute([create()])
    assert isinstance(outcome, LicenseRecord)
    assert failing.tried == 10
    with failing.read() as tx:
        assert license_store.count_licenses(tx, ANY) == 1
        assert len(event_store.list_events(tx, outcome.license.id, limit=9)) == 1


@pytest.mark.parametrize("state", REPEATED)
def test_what_is_undone_again_and_again_is_a_conflict_and_leaves_nothing(
    failing: Failing, state: str
) -> None:
    failing.state, failing.times = state, 10
    (outcome,) = open_executor(failing).execute([create()])
    assert isinstance(outcome, StoreConflict)
    assert failing.tried == 10
    with failing.read() as tx:
        assert license_store.count_licenses(tx, ANY) == 0


#: Each attempt except the last is followed by a check.
@pytest.mark.parametrize(("times", "transactions"), [(1, 3), (3, 5), (5, 5)])
def test_after_a_lock_timeout_it_is_looked_who_holds_the_lock_and_tried_again_twice(
    failing: Failing, times: int, transactions: int
) -> None:
    failing.state, failing.times = "55P03", times
    (outcome,) = open_executor(failing).execute([create()])
    assert isinstance(outcome, LockTimeout if times == 5 else LicenseRecord)
    assert failing.tried == transactions


@pytest.mark.parametrize("state", ["22003", "23514", "23502", "42501"])
def test_what_the_database_rejects_is_not_tried_again(failing: Failing, state: str) -> None:
    failing.state, failing.times = state, 1
    assert isinstance(open_executor(failing).execute([create()])[0], RejectedByDatabase)
    assert failing.tried == 1


def test_a_change_between_reading_and_locking_is_noticed(
    storage: Storage, open_again: Opener, database: str
) -> None:
    other = open_executor(open_again())
    other.execute([create(limit=2)])
    tried: list[str] = []

    def work(tx: WriteTransaction) -> int:
        license_store.count_licenses(tx, ANY)
        if not tried:
            assert isinstance(other.execute([activate()])[0], LicenseRecord)
        tried.append("tried")
        return license_store.lock_licenses(tx, [KEY])[0].times_activated

    assert run_write(storage, work) == 1
    # A snapshot transaction is run again; any other sees the current data.
    assert len(tried) == (1 if database == "postgresql" else 2)


# --- the same at the same moment ------------------------------------------------------------------


def test_of_two_who_make_the_same_key_at_once_one_succeeds(pair: Pair) -> None:
    for n in range(15):
        (one,), (other,) = change_at_once(pair, [create(f"key {n}")], [create(f"key {n}")])
        assert {type(one), type(other)} == {LicenseRecord, LicenseKeyTaken}


def test_of_two_who_rename_to_the_same_key_at_once_one_succeeds(pair: Pair) -> None:
    for n in range(10):
        pair[0].execute([create(f"{n} a"), create(f"{n} b")])
        (one,), (other,) = change_at_once(pair, [rename(f"{n} a", f"{n} c")], [rename(f"{n} b", f"{n} c")])
        assert {type(one), type(other)} == {LicenseRecord, LicenseKeyTaken}


def test_a_key_that_is_taken_meanwhile_does_not_hurt_its_neighbours(pair: Pair) -> None:
    for n in range(10):
        one, other = change_at_once(
            pair, [create(f"{n} a"), create(f"{n} both")], [create(f"{n} b"), create(f"{n} both")]
        )
        assert [type(some[0]) for some in (one, other)] == [LicenseRecord, LicenseRecord]
        assert {type(some[1]) for some in (one, other)} == {LicenseRecord, LicenseKeyTaken}


def test_the_same_call_at_two_at_once_has_one_effect_and_one_answer(pair: Pair, storage: Storage) -> None:
    pair[0].execute([create()])

    def write(outcome: Any) -> bytes:
        assert isinstance(outcome, LicenseRecord)
        return outcome.activations[0].token.encode()

    for n in range(15):
        retry = a_retry(f"call {n}", write=write)
        call: list[Command] = [activate(idempotency=retry)]
        outcomes = [one for some in change_at_once(pair, call, call) for one in some]
        kept = [one for one in outcomes if isinstance(one, IdempotencyRecord)]
        (first,) = (one for one in outcomes if isinstance(one, LicenseRecord))
        assert [one.body for one in kept] == [write(first)]
        assert counter(storage) == n + 1


def test_the_last_place_is_given_once(pair: Pair, storage: Storage) -> None:
    for n in range(15):
        pair[0].execute([create(f"key {n}", 1)])
        (one,), (other,) = change_at_once(pair, [activate(f"key {n}")], [activate(f"key {n}")])
        assert {type(one), type(other)} == {LicenseRecord, LimitReached}
        assert counter(storage, f"key {n}") == 1


def test_a_license_that_is_deleted_while_it_is_activated_leaves_no_activation(pair: Pair, url: str) -> None:
    for n in range(10):
        pair[0].execute([create(f"key {n}")])
        change_at_once(pair, [activate(f"key {n}")], [delete(f"key {n}")])
    assert execute(url, "SELECT count(*) FROM activations") == [(0,)]
    assert execute(url, "SELECT count(*) FROM licenses") == [(0,)]


def test_changes_of_a_license_from_two_sides_are_all_there(pair: Pair, storage: Storage) -> None:
    pair[0].execute([create()])
    at_once(
        lambda: [surely(pair[0], [activate(), update(order_id=n)]) for n in range(20)],
        lambda: [surely(pair[1], [deactivate_all(), update(customer_id=n)]) for n in range(20)],
    )
    with storage.read() as tx:
        license = license_store.find_licenses(tx, [KEY])[KEY]
        assert (license.order_id, license.customer_id) == (19, 19)
        assert license.times_activated == len(
            activation_store.list_active(tx, [license.id]).get(license.id, ())
        )


def test_no_number_is_given_to_two_at_once(pair: Pair) -> None:
    pair[0].execute([create("a"), create("b")])

    def numbers(executor: Executor, key: str) -> list[tuple[int, int]]:
        pairs = (executor.execute([create(f"{key} {n}"), activate(key)]) for n in range(30))
        return [(made.license.id, record.activations[0].id) for made, record in pairs]

    one, other = at_once(partial(numbers, pair[0], "a"), partial(numbers, pair[1], "b"))
    for i in (0, 1):
        assert len({both[i] for both in one + other}) == 60


def test_of_two_users_of_one_name_made_at_once_one_is_refused(open_again: Opener) -> None:
    one, other = open_again(), open_again()

    def make(storage: Storage) -> type:
        return type(open_executor(storage).execute([create_user()])[0])

    assert set(at_once(partial(make, one), partial(make, other))) == {User, UserExists}


def test_a_reader_is_not_held_up_by_those_who_write(storage: Storage, open_again: Opener) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license()])
    with storage.write() as tx:
        license_store.lock_licenses(tx, [KEY])
        with open_again().read() as reading:
            assert set(license_store.find_licenses(reading, [KEY])) == {KEY}
