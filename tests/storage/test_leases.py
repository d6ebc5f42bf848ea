"""Leases: outcomes and refusals of commands, and the database afterwards."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import event, func, select
from sqlalchemy import update as change

from keywright.core.command import Command
from keywright.core.errors import (
    LeasesNotOffered,
    NoFreeLease,
    NotActivated,
    ProductMismatch,
    RejectedByDatabase,
    UnknownLease,
    UnknownLicense,
)
from keywright.db import Storage
from keywright.db.schema import events, lease_counters, leases, meter_usage
from keywright.engine.executor import Executor
from keywright.licensing.leases import store
from keywright.licensing.leases.model import Lease, LeaseCounter, ListLeases
from keywright.licensing.queries import LoadedValidations
from keywright.licensing.validation import Code, ValidateLicense
from keywright.licensing.views_store import Names
from tests.databases import KINDS
from tests.makers import (
    KEY,
    NOW,
    activate_device,
    create,
    delete,
    end_lease,
    record_usage,
    release_lease,
    rename,
    renew_lease,
    set_terms,
    take_lease,
)

DATABASES = KINDS
pytestmark = pytest.mark.of_the_database
SECOND, MINUTES = timedelta(seconds=1), timedelta(minutes=10)
END = NOW + MINUTES


@pytest.fixture
def floating(executor: Executor) -> Executor:
    """A license with two leases of ten minutes."""
    do(executor, create(), set_terms({"max_leases": 2}))
    return executor


def do(executor: Executor, *commands: Command) -> list[Any]:
    """Execute commands, each in its own batch; return the outcomes, none of which may be a refusal."""
    outcomes = [executor.execute([one])[0] for one in commands]
    for one in outcomes:
        if isinstance(one, Exception):
            raise one
    return outcomes


def take(executor: Executor, holder: str = "alice", **fields: Any) -> Lease:
    [granted] = do(executor, take_lease(holder, **fields))
    lease: Lease = granted.leased.lease
    return lease


def count_statements(executor: Executor, storage: Storage, command: Command) -> int:
    """Count the SQL statements of a command."""
    with storage.write() as tx:
        sent: list[str] = []

        def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            sent.append(statement)

        event.listen(tx.connection, "before_cursor_execute", note)
        try:
            executor._decide([command], tx)
        finally:
            event.remove(tx.connection, "before_cursor_execute", note)
    return len(sent)


def list_stored(storage: Storage) -> list[Lease]:
    with storage.read() as tx:
        return store.list_leases(tx, 1, before=None, limit=1000)


def find_counter(storage: Storage) -> LeaseCounter | None:
    with storage.read() as tx:
        return store.find_counters(tx, [1]).get(1)


def test_leases_are_taken_up_to_the_limit(floating: Executor, storage: Storage) -> None:
    first, second = take(floating, "alice"), take(floating, "bob", now=NOW + SECOND, seconds=60)
    assert first == Lease(1, first.lease_id, None, "alice", NOW, NOW, END)
    assert len(first.lease_id) == 32
    assert list_stored(storage) == [second, first]
    assert find_counter(storage) == LeaseCounter(1, 2, 2)
    with pytest.raises(NoFreeLease) as refusal:
        take(floating, "carol", now=NOW + 2 * SECOND)
    assert (refusal.value.limit, refusal.value.retry_after_seconds) == (2, 59)
    assert list_stored(storage) == [second, first]


def test_in_one_batch_too(floating: Executor, storage: Storage) -> None:
    names = ("alice", "bob", "alice", "carol")
    outcomes = floating.execute([take_lease(one, seconds=60) for one in names])
    assert [isinstance(one, NoFreeLease) for one in outcomes] == [False, False, False, True]
    assert [one.leased.is_new for one in outcomes[:3]] == [True, True, False]
    assert outcomes[3].retry_after_seconds == 60
    assert outcomes[0].leased.lease == outcomes[2].leased.lease
    assert {one.holder for one in list_stored(storage)} == {"alice", "bob"}
    assert find_counter(storage) == LeaseCounter(1, 2, 2)


def test_the_same_holder_has_one_lease_on_a_device(floating: Executor, storage: Storage) -> None:
    do(floating, activate_device("device-1"))
    first = take(floating, fingerprint="device-1")
    again = take(floating, fingerprint="device-1", now=NOW + SECOND)
    assert again == replace(first, renewed_at=NOW + SECOND, expires_at=END + SECOND)
    assert first.activation_id == 1
    # The fingerprint of a device without an activation also counts.
    other = take(floating, fingerprint="device-2")
    assert other.activation_id is not None
    assert other.activation_id < 0
    assert take(floating, fingerprint="device-2") == other
    assert find_counter(storage) == LeaseCounter(1, 2, 2)
    with pytest.raises(NoFreeLease):
        take(floating)


def test_a_lease_follows_its_device_to_a_new_fingerprint_in_the_same_batch(
    floating: Executor, storage: Storage
) -> None:
    do(floating, activate_device("device-1"))
    first = take(floating, fingerprint="device-1")
    commands = [activate_device("device-2", replaces="device-1"), take_lease(fingerprint="device-2")]
    [_, granted] = floating.execute(commands)
    assert granted.leased.lease == first
    assert list_stored(storage) == [first]


def test_a_renewed_lease_goes_on_and_writes_neither_event_nor_counter(
    floating: Executor, storage: Storage
) -> None:
    lease = take(floating)
    with storage.read() as tx:
        before = tx.connection.execute(select(func.count()).select_from(events)).scalar_one()
    [renewed] = do(floating, renew_lease(lease.lease_id, now=NOW + SECOND))
    assert renewed.leased.lease == replace(lease, renewed_at=NOW + SECOND, expires_at=END + SECOND)
    assert (renewed.leased.count, renewed.leased.was_lost) == (1, False)
    assert list_stored(storage) == [renewed.leased.lease]
    with storage.read() as tx:
        assert tx.connection.execute(select(func.count()).select_from(events)).scalar_one() == before


def test_a_renewal_reads_as_much_where_all_leases_are_held_as_where_one_is_free(
    floating: Executor, storage: Storage
) -> None:
    lease = take(floating)
    where_one_is_free = count_statements(floating, storage, renew_lease(lease.lease_id))
    take(floating, "bob")
    assert count_statements(floating, storage, renew_lease(lease.lease_id)) == where_one_is_free


def test_leases_that_are_over_free_their_places_when_the_next_one_is_taken(
    floating: Executor, storage: Storage
) -> None:
    alice, bob = take(floating, "alice", seconds=60), take(floating, "bob")
    carol = take(floating, "carol", now=NOW + 60 * SECOND)
    ended = replace(alice, ended_at=NOW + 60 * SECOND)
    assert {one.lease_id: one for one in list_stored(storage)} == {
        one.lease_id: one for one in (ended, bob, carol)
    }
    assert find_counter(storage) == LeaseCounter(1, 2, 2)
    with pytest.raises(NoFreeLease):
        do(floating, renew_lease(alice.lease_id, now=NOW + 61 * SECOND))
    do(floating, release_lease(bob.lease_id))
    [renewed] = do(floating, renew_lease(alice.lease_id, now=NOW + 61 * SECOND))
    assert renewed.leased.was_lost
    assert renewed.leased.lease == replace(
        alice, renewed_at=NOW + 61 * SECOND, expires_at=END + 61 * SECOND, ended_at=None
    )
    assert renewed.leased.lease in list_stored(storage)
    assert find_counter(storage) == LeaseCounter(1, 2, 2)


def test_each_command_of_a_batch_sees_the_leases_of_its_own_time(floating: Executor) -> None:
    take(floating, "alice", seconds=60), take(floating, "bob")
    at_once, later = NOW + 59 * SECOND, NOW + 60 * SECOND
    outcomes = floating.execute([take_lease("carol", now=at_once), take_lease("dave", now=later)])
    assert isinstance(outcomes[0], NoFreeLease)
    assert outcomes[1].leased.is_new


def test_a_lease_renewed_in_the_batch_does_not_end_in_it(floating: Executor) -> None:
    alice, _ = take(floating, "alice", seconds=60), take(floating, "bob")
    renewal = renew_lease(alice.lease_id, now=NOW + 59 * SECOND)
    outcomes = floating.execute([renewal, take_lease("carol", now=NOW + 60 * SECOND)])
    assert isinstance(outcomes[1], NoFreeLease)
    assert outcomes[1].retry_after_seconds == 540


def test_a_holder_whose_lease_ended_goes_on_with_the_one_taken_since(floating: Executor) -> None:
    first = take(floating, seconds=60)
    since = take(floating, now=NOW + MINUTES)
    assert since.lease_id != first.lease_id
    [renewed] = do(floating, renew_lease(first.lease_id, now=NOW + MINUTES))
    assert (renewed.leased.lease, renewed.leased.was_lost) == (since, True)


def test_a_released_lease_is_deleted(floating: Executor, storage: Storage) -> None:
    lease = take(floating)
    [released] = do(floating, release_lease(lease.lease_id))
    assert (released.count, released.was_held) == (0, True)
    assert list_stored(storage) == []
    assert find_counter(storage) == LeaseCounter(1, 0, 2)
    [released] = do(floating, release_lease(lease.lease_id))
    assert (released.count, released.was_held) == (0, False)
    with pytest.raises(UnknownLease):
        do(floating, renew_lease(lease.lease_id))


def test_taken_and_released_in_one_batch(floating: Executor, storage: Storage) -> None:
    lease = take(floating)
    outcomes = floating.execute(
        [take_lease("bob"), release_lease(lease.lease_id), take_lease(), take_lease("carol")]
    )
    assert [type(one).__name__ for one in outcomes] == [
        "GrantedLease",
        "ReleasedLease",
        "GrantedLease",
        "NoFreeLease",
    ]
    assert lease.lease_id not in {one.lease_id for one in list_stored(storage)}
    assert find_counter(storage) == LeaseCounter(1, 2, 2)


def test_the_vendor_ends_a_lease_which_is_an_event(floating: Executor, storage: Storage) -> None:
    lease = take(floating)
    do(floating, end_lease(lease.lease_id, 1, now=NOW + SECOND))
    do(floating, end_lease(lease.lease_id, 1, now=NOW + 2 * SECOND))
    assert list_stored(storage) == [replace(lease, expires_at=NOW + SECOND, ended_at=NOW + SECOND)]
    assert find_counter(storage) == LeaseCounter(1, 0, 2)
    with storage.read() as tx:
        names = tx.connection.execute(select(events.c.name).order_by(events.c.id)).scalars().all()
    assert names == ["license.created", "license.updated", "license.lease_ended"]
    assert take(floating, now=NOW + 2 * SECOND).lease_id != lease.lease_id
    with pytest.raises(UnknownLease):
        do(floating, end_lease("0" * 32, 1))
    with pytest.raises(UnknownLicense):
        do(floating, end_lease(lease.lease_id, 1, only_product_id=7))


def test_the_bound_of_the_counter_follows_the_terms(floating: Executor, storage: Storage) -> None:
    take(floating, "alice"), take(floating, "bob")
    do(floating, set_terms({"max_leases": 3}))
    assert find_counter(storage) == LeaseCounter(1, 2, 3)
    carol = take(floating, "carol")
    do(floating, set_terms({"max_leases": 1}))
    assert find_counter(storage) == LeaseCounter(1, 3, 3)
    with pytest.raises(NoFreeLease):
        take(floating, "dave")
    do(floating, release_lease(carol.lease_id), set_terms({}))
    assert find_counter(storage) == LeaseCounter(1, 2, 2)
    with pytest.raises(LeasesNotOffered):
        take(floating, "dave")
    do(floating, set_terms({"max_leases": 1}))
    assert find_counter(storage) == LeaseCounter(1, 2, 2)


def test_the_terms_change_in_the_batch_that_takes_leases(floating: Executor, storage: Storage) -> None:
    outcomes = floating.execute(
        [
            take_lease("alice"),
            set_terms({"max_leases": 3}),
            take_lease("bob"),
            take_lease("carol"),
            set_terms({"max_leases": 1}),
            take_lease("dave"),
        ]
    )
    assert isinstance(outcomes.pop(), NoFreeLease)
    assert not [one for one in outcomes if isinstance(one, Exception)]
    # More leases are held than the first and last limit of the batch allow: each was decided separately.
    assert find_counter(storage) == LeaseCounter(1, 3, 3)


def test_the_database_rejects_a_counter_over_its_bound(floating: Executor, storage: Storage) -> None:
    take(floating)
    with pytest.raises(RejectedByDatabase), storage.write() as tx:
        tx.connection.execute(change(lease_counters).values(held=3))


def test_where_the_terms_want_a_device_it_must_hold_a_place(executor: Executor) -> None:
    do(executor, create(), set_terms({"max_leases": 2, "device": "required"}))
    with pytest.raises(NotActivated):
        take(executor, fingerprint="device-1")
    do(executor, activate_device("device-1"))
    assert take(executor, fingerprint="device-1").activation_id == 1


def test_a_key_of_another_product_gives_no_lease(floating: Executor) -> None:
    lease = take(floating)
    for command in (take_lease(product=7), renew_lease(lease.lease_id, product=7)):
        with pytest.raises(ProductMismatch):
            do(floating, command)
    with pytest.raises(UnknownLicense):
        take(floating, key="KEY-2")


def test_a_license_keeps_its_leases_when_its_key_changes_in_the_batch(
    floating: Executor, storage: Storage
) -> None:
    lease = take(floating)
    outcomes = floating.execute(
        [rename(KEY, "KEY-2"), renew_lease(lease.lease_id, "KEY-2", now=NOW + SECOND)]
    )
    assert outcomes[1].leased.lease.lease_id == lease.lease_id
    assert list_stored(storage) == [outcomes[1].leased.lease]


def test_a_license_takes_its_leases_and_usage_along_when_it_is_deleted(
    floating: Executor, storage: Storage
) -> None:
    do(floating, set_terms({"max_leases": 2, "meters": {"exports": {"limit": 5, "per": "day"}}}))
    take(floating)
    do(floating, record_usage("exports"))
    outcomes = floating.execute([take_lease("bob"), record_usage("exports"), delete()])
    assert not [one for one in outcomes if isinstance(one, Exception)]
    with storage.read() as tx:
        for table in (leases, lease_counters, meter_usage):
            assert tx.connection.execute(select(table)).all() == []


def test_the_latest_hundred_leases_that_ended_are_kept(floating: Executor, storage: Storage) -> None:
    for number in range(104):
        take(floating, str(number), now=NOW + number * MINUTES)
    kept = list_stored(storage)
    assert [one.holder for one in kept] == [str(number) for number in range(103, 2, -1)]
    assert [one.ended_at is None for one in kept] == [True] + [False] * 100


def test_leases_are_listed_page_by_page_and_held_ones_counted(floating: Executor, storage: Storage) -> None:
    for number in range(5):
        take(floating, str(number), now=NOW + number // 2 * MINUTES)
    with storage.read() as tx:
        assert store.count_held(tx, [1, 2], NOW + 2 * MINUTES) == {1: 1}
        assert store.count_held(tx, [1, 2], NOW + 3 * MINUTES) == {1: 0}
    every = list_stored(storage)
    assert len(every) == 5
    found: list[Lease] = []
    before = None
    while True:
        [page] = floating.query([ListLeases(license_id=1, before=before, limit=2, is_counted=True)])
        assert page.total == 5
        if not page.items:
            break
        found += page.items
        before = (int(found[-1].created_at.timestamp()), found[-1].lease_id)
    assert found == every


@pytest.mark.usefixtures("clock_of_database")
def test_a_server_whose_clock_is_ahead_ends_no_lease(
    executor: Executor, storage: Storage, database: str
) -> None:
    """With several servers, the database's clock decides, also in validations."""
    now = datetime.now(UTC).replace(microsecond=0)
    ahead = now + MINUTES + timedelta(seconds=30)
    do(executor, create(), set_terms({"max_leases": 1}))
    lease = take(executor, "alice", now=now)
    query = ValidateLicense(key=KEY, now=ahead, lease_id=lease.lease_id)
    with storage.read() as tx:
        answer = LoadedValidations(tx, [query], Names()).answer(query)
    is_one_clock = database == "postgresql"
    assert answer.findings.code is (Code.VALID if is_one_clock else Code.LEASE_LOST)
    assert (answer.lease is not None) is is_one_clock
    if is_one_clock:
        with pytest.raises(NoFreeLease):
            take(executor, "bob", now=ahead)
        [renewed] = do(executor, renew_lease(lease.lease_id, now=ahead))
        assert renewed.leased.lease.expires_at < ahead
    else:
        take(executor, "bob", now=ahead)
