"""The guarantees of transactions: all or nothing, no counter above its limit, no ID twice."""

from typing import Any

import pytest
from msgspec.structs import replace

from keywright.core.errors import LimitReached, RejectedByDatabase, StoreConflict
from keywright.db import Storage
from keywright.db.schema import licenses
from keywright.engine.executor import Executor
from keywright.events import store as event_store
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses import rules
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import License, LicenseFilter
from keywright.registry import open_executor
from tests.makers import (
    KEY,
    KEY_RING,
    LATER,
    a_license,
    activate,
    an_activation,
    an_event,
    create,
    deactivate_all,
    delete,
    update,
)
from tests.storage.conftest import Opener

DATABASES = ("sqlite", "serializable")
ANY = LicenseFilter()


class Interrupted(Exception):
    """An error in the middle of a transaction."""


def test_a_transaction_that_fails_leaves_nothing_behind_also_no_event(
    storage: Storage, database: str
) -> None:
    def write_and_fail() -> None:
        with storage.write() as tx:
            license_store.save_new_licenses(tx, [a_license(id=tx.ids.next("license"))])
            activation_store.save_new_activations(tx, [an_activation()])
            event_store.save_events(tx, [an_event()])
            tx.ids.save()
            raise Interrupted

    with pytest.raises(Interrupted):
        write_and_fail()
    with storage.write() as tx:
        assert license_store.count_licenses(tx, ANY) == 0
        assert activation_store.list_activations(tx, [1]) == {}
        assert event_store.list_events(tx, 1, limit=9) == []
        # A PostgreSQL server assigns IDs outside of transactions.
        assert tx.ids.next("license") == (1 if database == "sqlite" else 2)


def test_what_was_written_is_seen_by_the_next_reader_and_not_before(storage: Storage) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license()])
        with storage.read() as before:
            assert license_store.find_licenses(before, [KEY]) == {}
    with storage.read() as after:
        assert license_store.find_licenses(after, [KEY]) == {KEY: a_license()}


def test_a_reader_sees_one_moment_whatever_is_written_meanwhile(open_again: Opener) -> None:
    reader, writer = open_again(), open_again()
    with reader.read() as tx:
        assert license_store.count_licenses(tx, ANY) == 0
        with writer.write() as other:
            license_store.save_new_licenses(other, [a_license()])
        assert license_store.count_licenses(tx, ANY) == 0
    with reader.read() as tx:
        assert license_store.count_licenses(tx, ANY) == 1


def one_more(*, taken: int, limit: int) -> tuple[License, License]:
    """A license as it is in the database, and with one place too many."""
    before = a_license(times_activated=taken, times_activated_max=limit)
    return before, replace(before, times_activated=taken + 1)


def test_the_database_itself_rejects_a_counter_above_the_limit(storage: Storage) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license(times_activated=2, times_activated_max=2)])
    with pytest.raises(RejectedByDatabase), storage.write() as tx:
        license_store.save_licenses(tx, [one_more(taken=2, limit=2)])
    with storage.read() as tx:
        assert license_store.find_licenses(tx, [KEY])[KEY].times_activated == 2


def test_the_database_itself_rejects_a_counter_below_0(storage: Storage) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license()])
    before = a_license(times_activated_max=2)
    with pytest.raises(RejectedByDatabase), storage.write() as tx:
        license_store.save_licenses(tx, [(before, replace(before, times_activated=-1))])


@pytest.mark.parametrize("fields", [{}, {"expires_at": LATER}, {"valid_for_days": 9}])
def test_even_with_a_broken_rule_no_activation_gets_above_the_limit(
    storage: Storage, executor: Executor, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    executor.execute([create(limit=2, **fields)])
    monkeypatch.setattr(rules, "require_free_place", lambda license: None)
    outcomes = executor.execute([activate() for _ in range(4)])
    kinds = [type(one) for one in outcomes]
    assert kinds == [LicenseRecord, LicenseRecord, RejectedByDatabase, RejectedByDatabase]
    with storage.read() as tx:
        assert license_store.find_licenses(tx, [KEY])[KEY].times_activated == 2
        assert len(activation_store.list_active(tx, [1])[1]) == 2


def test_a_limit_may_be_lowered_below_what_is_taken_and_places_given_up_stay_so(
    storage: Storage, executor: Executor
) -> None:
    executor.execute([create(limit=3), activate(), activate(), activate()])
    lowered, refused = executor.execute([update(times_activated_max=1), activate()])
    assert (lowered.license.times_activated, lowered.license.times_activated_max) == (3, 1)
    assert isinstance(refused, LimitReached)
    with pytest.raises(RejectedByDatabase), storage.write() as tx:
        license_store.save_licenses(tx, [one_more(taken=3, limit=1)])
    emptied, first, second = executor.execute([deactivate_all(), activate(), activate()])
    assert [one.license.times_activated for one in (emptied, first)] == [0, 1]
    assert isinstance(second, LimitReached)
    with pytest.raises(RejectedByDatabase), storage.write() as tx:
        license_store.save_licenses(tx, [one_more(taken=1, limit=1)])


def test_numbers_are_given_in_a_row_per_kind(storage: Storage, database: str) -> None:
    with storage.write() as tx:
        assert [tx.ids.next("license") for _ in range(3)] == [1, 2, 3]
        assert [tx.ids.next("activation") for _ in range(2)] == [1, 2]
        tx.ids.save()
        assert tx.ids.next("license") == 4
        tx.ids.save()
    with storage.write() as tx:
        # A PostgreSQL server does not reuse reserved IDs.
        assert tx.ids.next("license") == (5 if database == "sqlite" else 8)
        assert tx.ids.next("activation") == 3


def test_the_number_of_the_newest_license_is_not_given_again_after_it_was_deleted(executor: Executor) -> None:
    executor.execute([create(), activate(), delete()])
    again, activated = executor.execute([create(), activate()])
    assert again.license.id == 2
    assert activated.activations[0].id == 2


def test_no_number_is_given_twice_by_two_writers_in_turns(open_again: Opener) -> None:
    writers = [open_executor(open_again()), open_executor(open_again())]
    created = [writers[n % 2].execute([create(f"key {n}")])[0] for n in range(10)]
    assert [one.license.id for one in created] == list(range(1, 11))


def test_a_text_that_no_database_can_hold_is_no_key(storage: Storage) -> None:
    key = "nul\0key"
    with storage.write() as tx:
        assert license_store.find_licenses(tx, [key]) == {}
        assert license_store.lock_licenses(tx, [key]) == []


def test_a_number_that_no_column_holds_is_rejected(storage: Storage) -> None:
    with pytest.raises(RejectedByDatabase), storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license(order_id=2**63)])


def test_a_text_that_is_no_unicode_is_rejected(storage: Storage) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license()])
    with pytest.raises(RejectedByDatabase), storage.write() as tx:
        activation_store.save_new_activations(tx, [an_activation(label="\ud800")])


def test_what_the_database_rejects_is_told_without_the_values(storage: Storage) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license()])
        activation_store.save_new_activations(tx, [an_activation(label="Büro")])
    with pytest.raises((RejectedByDatabase, StoreConflict)) as rejected, storage.write() as tx:
        activation_store.save_new_activations(tx, [an_activation(label="Büro")])
    told = f"{rejected.value} {rejected.value.__cause__!r} {rejected.value.__cause__}"
    assert "activations" in told
    assert an_activation().token not in told
    assert "Büro" not in told


@pytest.mark.smoke
def test_a_sealed_key_that_was_damaged_is_not_read_as_another(storage: Storage) -> None:
    swapped = KEY_RING.seal_key("other", license_id=2)
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license()])
        tx.connection.execute(licenses.update().values(sealed_key=swapped))
    with pytest.raises(ValueError, match="another place"), storage.read() as tx:
        license_store.list_licenses(tx, ANY, after_id=0, limit=9)
    with storage.read() as tx:
        assert license_store.count_licenses(tx, ANY) == 1
