"""The unit of work saves all changes of handlers, with one statement per kind of change."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from sqlalchemy import event

from keywright.core.errors import LicenseKeyTaken, UnknownLicenseId
from keywright.db import Storage, WriteTransaction
from keywright.engine.executor import Executor
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import Activation, LicenseRecord, RecordLimits
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import License
from keywright.licensing.unit_of_work import LicenseWork
from tests.makers import (
    KEY,
    LATER,
    LICENSE_FIELDS,
    NOW,
    TOKEN,
    a_license,
    a_retry,
    activate,
    an_activation,
    create,
    deactivate,
    deactivate_all,
    delete,
    rename,
    show_key,
    update,
)

pytestmark = pytest.mark.of_the_database

BEFORE = a_license(times_activated=1, times_activated_max=5, expires_at=LATER)
TAKEN = an_activation(license_id=BEFORE.id)
#: Another value for each changeable field of an activation.
ACTIVATION_FIELDS: dict[str, Any] = {
    "id": 12,
    "label": "desk",
    "source": 3,
    "ip_address": "192.0.2.9",
    "user_agent": "a program",
    "meta_data": {"os": "linux"},
    "created_at": NOW - timedelta(days=1),
    "updated_at": LATER,
    "deactivated_at": LATER,
    "fingerprint": "a device",
    "platform": "linux",
    "app_version": "2.1",
    "offline_until": LATER,
    "is_counted": False,
}


def fields_of(kind: type[msgspec.Struct], *identity: str) -> set[str]:
    return {*kind.__struct_fields__} - {*identity}


def test_a_new_field_has_its_place_here() -> None:
    assert LICENSE_FIELDS.keys() == fields_of(License, "id")
    assert ACTIVATION_FIELDS.keys() == fields_of(Activation, "license_id", "token")


@pytest.fixture
def filled(storage: Storage) -> Storage:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [BEFORE])
        activation_store.save_new_activations(tx, [TAKEN])
    return storage


@pytest.mark.parametrize("name", LICENSE_FIELDS)
def test_every_field_of_a_license_is_stored_when_it_changes_alone(filled: Storage, name: str) -> None:
    after = replace(BEFORE, **{name: LICENSE_FIELDS[name]})
    with filled.write() as tx:
        work = LicenseWork(tx, [show_key()], RecordLimits())
        work.set_license(after)
        work.save()
    with filled.read() as tx:
        assert license_store.find_licenses(tx, [after.key]) == {after.key: after}


@pytest.mark.parametrize("name", ACTIVATION_FIELDS)
def test_every_field_of_an_activation_is_stored_when_it_changes_alone(filled: Storage, name: str) -> None:
    after = replace(TAKEN, **{name: ACTIVATION_FIELDS[name]})
    with filled.write() as tx:
        work = LicenseWork(tx, [deactivate(TOKEN)], RecordLimits())
        work.set_activation(after)
        work.save()
    with filled.read() as tx:
        assert activation_store.list_activations(tx, [BEFORE.id]) == {BEFORE.id: [after]}


def test_a_license_is_named_by_its_id_as_well_as_by_its_key(executor: Executor) -> None:
    executor.execute([create(), create("other")])
    mixed = [activate(1), activate(KEY), activate(2), update(1, order_id=5), activate("other")]
    outcomes = executor.execute(mixed)
    assert [one.license.key for one in outcomes] == [KEY, KEY, "other", KEY, "other"]
    assert [one.license.times_activated for one in outcomes] == [1, 2, 1, 2, 2]
    token = outcomes[0].activations[0].token
    (given_up,) = executor.execute([deactivate(token, 1)])
    assert given_up.license.times_activated == 1
    (emptied, gone, unknown) = executor.execute([deactivate_all(1), delete(1), activate(1)])
    assert (emptied.license.times_activated, gone, type(unknown)) == (0, None, UnknownLicenseId)


def test_a_key_that_is_given_away_in_the_batch_leads_to_its_new_license(executor: Executor) -> None:
    first, second = (one.license.id for one in executor.execute([create("a"), create("b")]))
    (taken,) = executor.execute([activate("b")])
    commands = [delete("a"), rename("b", "a"), deactivate(taken.activations[0].token, "a"), create("b")]
    outcomes = executor.execute(commands)
    assert isinstance(outcomes[2], LicenseRecord)
    assert (outcomes[2].license.id, outcomes[2].license.times_activated) == (second, 0)
    assert outcomes[3].license.id > second > first
    assert isinstance(executor.execute([create("a")])[0], LicenseKeyTaken)


@contextmanager
def watch_writes(tx: WriteTransaction) -> Iterator[list[str]]:
    """Record the first words of writing statements, one per execution."""
    seen: list[str] = []

    def see(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        words = statement.split()
        if words[0] in ("INSERT", "UPDATE", "DELETE"):
            seen.append(" ".join(words[:3] if words[0] != "UPDATE" else words[:2]))

    event.listen(tx.connection, "before_cursor_execute", see)
    try:
        yield seen
    finally:
        event.remove(tx.connection, "before_cursor_execute", see)


def test_a_batch_sends_one_statement_for_each_kind_of_change_that_it_has(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create(f"key {n}") for n in range(64)])
    commands = [activate(f"key {n}", idempotency=a_retry(str(n))) for n in range(64)]
    with storage.write() as tx, watch_writes(tx) as seen:
        executor._decide(commands, tx)
    assert [one for one in seen if not one.endswith("sequences")] == [
        "INSERT INTO idempotency_records",
        "UPDATE licenses",
        "INSERT INTO activations",
        "INSERT INTO events",
    ]


def test_statements_are_sent_in_the_order_that_sets_keys_free_first(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create("a"), create("b"), create("c", limit=1), activate("c")])
    commands = [delete("a"), rename("b", "a"), create("b"), deactivate_all("c"), activate("c")]
    with storage.write() as tx, watch_writes(tx) as seen:
        outcomes = executor._decide(commands, tx)
    assert not [one for one in outcomes if isinstance(one, Exception)]
    assert [one for one in seen if not one.endswith("sequences")] == [
        "INSERT INTO deleted_licenses",
        "DELETE FROM activations",
        "DELETE FROM leases",
        "DELETE FROM lease_counters",
        "DELETE FROM meter_usage",
        "DELETE FROM new_devices",
        "DELETE FROM portal_releases",
        "DELETE FROM license_claims",
        "DELETE FROM license_transfers",
        "DELETE FROM last_seen",
        "DELETE FROM refusals",
        "DELETE FROM license_notes",
        "DELETE FROM license_tags",
        "DELETE FROM license_moments",
        "DELETE FROM rotated_keys",
        "UPDATE trials",
        "DELETE FROM licenses",
        "UPDATE licenses",
        "INSERT INTO rotated_keys",
        "UPDATE licenses",
        "INSERT INTO licenses",
        "DELETE FROM update_tokens",
        "UPDATE activations",
        "INSERT INTO activations",
        "INSERT INTO events",
    ]
