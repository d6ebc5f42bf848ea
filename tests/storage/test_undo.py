"""Undo: the license is restored to its previous state, or the command is refused with a reason."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from keywright.core.command import Command, Context
from keywright.core.errors import (
    CannotUndo,
    ChangedSince,
    LimitReached,
    NotFound,
    NothingToChange,
    UnknownLicense,
)
from keywright.db import Storage, run_read
from keywright.engine.executor import Executor
from keywright.events.store import list_feed
from keywright.licensing.activations.store import list_activations
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.licensing.undo.rules import EnableLicense, UndoChanges, UndoEvent
from keywright.provisioning.licenses import RotateKey
from tests.makers import (
    LATER,
    NOW,
    activate,
    activate_device,
    an_origin,
    create,
    deactivate,
    deactivate_all,
    record_usage,
    set_terms,
    take_lease,
    update,
)

DATABASES = ("sqlite",)
SOON = NOW + timedelta(minutes=1)


def do(executor: Executor, command: Command) -> Any:
    return executor.execute([command])[0]


def make(executor: Executor, **fields: Any) -> License:
    license: License = do(executor, create(**fields)).license
    return license


def found(storage: Storage, license: License) -> License:
    return run_read(storage, lambda tx: find_licenses_by_id(tx, [license.id]))[license.id]


def last_event(storage: Storage, name: str) -> int:
    """The ID of the last event with this name."""
    listed = run_read(
        storage, lambda tx: list_feed(tx, after_id=0, until_id=10**6, license_id=None, limit=1000)
    )
    return [one.id for one in listed if one.event.name == name][-1]


def undo(license: License, event_id: int) -> UndoEvent:
    return UndoEvent(context=Context(SOON, an_origin()), license=license.id, event_id=event_id)


def undo_at(license: License, actor: str = "user:7") -> UndoChanges:
    context = Context(SOON, an_origin(actor=actor), 7)
    return UndoChanges(context=context, license=license.id, changed_at=NOW)


def test_an_update_is_undone_with_its_fields_and_terms(storage: Storage, executor: Executor) -> None:
    license = make(executor, limit=2, expires_at=LATER)
    do(executor, update(license.id, status=Status.DISABLED, expires_at=None, times_activated_max=None))
    do(executor, undo(license, last_event(storage, "license.updated")))
    now = found(storage, license)
    assert (now.status, now.expires_at, now.times_activated_max) == (Status.ACTIVE, LATER, 2)
    do(executor, set_terms({"grace_days": 5, "valid_for_days": 30}, license.id))
    changed = found(storage, license)
    do(executor, undo(license, last_event(storage, "license.updated")))
    assert (found(storage, license).terms, found(storage, license).valid_for_days) == (now.terms, None)
    # An undo can be undone.
    do(executor, undo(license, last_event(storage, "license.updated")))
    assert found(storage, license).terms == changed.terms != now.terms


def test_what_was_changed_since_is_not_overwritten(storage: Storage, executor: Executor) -> None:
    license = make(executor, limit=2)
    do(executor, update(license.id, times_activated_max=5))
    event = last_event(storage, "license.updated")
    do(executor, update(license.id, times_activated_max=9))
    refusal = do(executor, undo(license, event))
    assert isinstance(refusal, ChangedSince)
    assert refusal.fill(refusal.sentence) == (
        "Nothing was undone, because of later changes: times activated max."
    )
    assert found(storage, license).times_activated_max == 9
    # Changes of other fields do not matter.
    do(executor, update(license.id, times_activated_max=5))
    do(executor, update(license.id, order_id=77))
    do(executor, undo(license, event))
    assert (found(storage, license).times_activated_max, found(storage, license).order_id) == (2, 77)


def test_events_that_do_not_hold_what_was_before_are_refused(storage: Storage, executor: Executor) -> None:
    license, other = make(executor), make(executor, key="OTHER")
    do(executor, RotateKey(context=Context(NOW, an_origin()), license=license.id))
    assert isinstance(do(executor, undo(license, last_event(storage, "license.updated"))), CannotUndo)
    assert isinstance(do(executor, undo(other, last_event(storage, "license.updated"))), NotFound)
    assert isinstance(do(executor, undo(license, 10**6)), NotFound)


def test_a_freed_device_gets_its_place_back_with_its_token(storage: Storage, executor: Executor) -> None:
    license = make(executor, limit=1)
    device = do(executor, activate_device("fp-1", license.key)).activation
    do(executor, deactivate(device.token, license.id))
    event = last_event(storage, "license.deactivated")
    do(executor, undo(license, event))
    (again,) = run_read(storage, lambda tx: list_activations(tx, [license.id]))[license.id]
    assert (again.id, again.token, again.fingerprint) == (device.id, device.token, "fp-1")
    assert (again.deactivated_at, found(storage, license).times_activated) == (None, 1)
    assert isinstance(do(executor, undo(license, event)), ChangedSince)


def test_a_freed_device_needs_a_free_place(storage: Storage, executor: Executor) -> None:
    license = make(executor, limit=1)
    token = do(executor, activate(license.id)).activations[0].token
    do(executor, deactivate(token, license.id))
    do(executor, activate(license.id))
    assert isinstance(do(executor, undo(license, last_event(storage, "license.deactivated"))), LimitReached)
    assert found(storage, license).times_activated == 1


@pytest.mark.smoke
def test_all_devices_that_were_freed_at_once_are_given_back_or_none(
    storage: Storage, executor: Executor
) -> None:
    license = make(executor, limit=3)
    for _ in range(3):
        do(executor, activate(license.id))
    alice = an_origin(actor="user:7")
    do(executor, deactivate_all(license.id, origin=alice))
    assert isinstance(do(executor, undo_at(license, "user:8")), CannotUndo)
    do(executor, activate(license.id, origin=an_origin()))
    assert isinstance(do(executor, undo_at(license)), LimitReached)
    assert found(storage, license).times_activated == 1
    do(executor, update(license.id, times_activated_max=4))
    do(executor, undo_at(license))
    assert found(storage, license).times_activated == 4


def test_a_new_license_is_undone_while_it_is_untouched(storage: Storage, executor: Executor) -> None:
    alice = an_origin(actor="user:7")
    used, unused = (make(executor, key=key, origin=alice) for key in ("USED", "UNUSED"))
    do(executor, activate(used.id))
    assert isinstance(do(executor, undo_at(used)), ChangedSince)
    assert do(executor, undo_at(unused)).is_deleted
    assert isinstance(do(executor, activate(unused.id)), UnknownLicense)


def test_a_new_license_that_gave_a_lease_or_was_metered_is_not_undone(
    storage: Storage, executor: Executor
) -> None:
    alice = an_origin(actor="user:7")
    terms = {"max_leases": 1, "meters": {"exports": {"limit": 5, "per": "day"}}}
    leased, metered = (make(executor, key=key, origin=alice) for key in ("LEASED", "METERED"))
    for license in (leased, metered):
        do(executor, set_terms(terms, license.id))
    do(executor, take_lease(key=leased.key))
    do(executor, record_usage("exports", key=metered.key))
    for license, field in ((leased, "leases"), (metered, "usage")):
        refusal = do(executor, undo_at(license))
        assert isinstance(refusal, ChangedSince)
        assert refusal.fields == (field,)


def test_an_order_that_is_more_than_a_number_is_not_overwritten(storage: Storage, executor: Executor) -> None:
    license = make(executor)
    do(executor, update(license.id, order_id=5))
    event = last_event(storage, "license.updated")
    do(executor, replace(update(license.id), order={"source": "north"}))
    refusal = do(executor, undo(license, event))
    assert isinstance(refusal, ChangedSince)
    assert refusal.fields == ("order_id",)


@pytest.mark.parametrize("status", [Status.SOLD, Status.DELIVERED, Status.ACTIVE])
def test_enabling_gives_the_status_from_before(storage: Storage, executor: Executor, status: Status) -> None:
    license = make(executor, status=status)
    enable = EnableLicense(context=Context(SOON, an_origin()), license=license.id)
    assert isinstance(do(executor, enable), NothingToChange)
    do(executor, update(license.id, status=Status.INACTIVE))
    do(executor, update(license.id, status=Status.DISABLED))
    do(executor, enable)
    assert found(storage, license).status == status


def test_a_license_that_was_made_disabled_becomes_active(storage: Storage, executor: Executor) -> None:
    license = make(executor, status=Status.DISABLED)
    do(executor, EnableLicense(context=Context(SOON, an_origin()), license=license.id))
    assert found(storage, license).status == Status.ACTIVE
