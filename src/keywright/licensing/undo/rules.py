"""Decide what can be undone, and by which changes. Pure."""

from collections.abc import Container, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from keywright.core.command import Cost
from keywright.core.errors import CannotUndo, ChangedSince, Refusal
from keywright.events.model import Event
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses.model import License, LicenseCommand, ShownFields, Status
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.terms.rules import copy_terms, to_text, with_new_names


class PastChange(msgspec.Struct, frozen=True, array_like=True):
    """A change of a license, as its event records it."""

    name: str
    changed_at: datetime
    activation_id: int | None = None
    details: Mapping[str, Any] | None = None


class Undone(msgspec.Struct, frozen=True):
    """The license whose changes were undone; ``is_deleted`` if undoing its creation deleted it."""

    license_id: int
    is_deleted: bool = False


class Deleted(NamedTuple):
    """A license that a transaction deletes, in its last state, with those of its activations that the
    transaction has loaded; ``emptied_at`` is set if all of its places were given up before.
    """

    license: License
    activations: Mapping[str, Activation]
    emptied_at: datetime | None
    deleted_at: datetime


class DeletedLicense(NamedTuple):
    """A license that was deleted and can be restored."""

    license: License
    deleted_at: datetime


class Snapshot(msgspec.Struct, frozen=True):
    """A deleted license: its key, its row, the rows of other tables by table name, its former keys and when
    they were replaced, and the e-mail address of its trial. Times are seconds since 1970.
    """

    key: str
    license: dict[str, Any]
    rows: dict[str, list[dict[str, Any]]]
    rotated_keys: list[tuple[str, int]] = []
    trial_email: str | None = None


UPDATED, FREED, GIVEN_BACK = "license.updated", "license.deactivated", "license.reactivated"
#: Events that accompany an update, whose details hold the previous values.
_BESIDE = ("license.renewed", "license.changed", "license.claimed")
CREATED, DELETED, RESTORED = "license.created", "license.deleted", "license.restored"
#: The fields of a license that an event records before and after, and that can be restored.
_FIELDS: Mapping[str, Any] = {
    **{one.name: one.type for one in msgspec.structs.fields(ShownFields)},
    "order_id": int | None,
    "product_id": int | None,
    "customer_id": int | None,
    "policy_id": int | None,
    "expires_at": datetime | None,
    "valid_for_days": int | None,
    "times_activated_max": int | None,
    "status": int,
}
#: The statuses of a license that refuses activations.
UNUSABLE = (Status.INACTIVE, Status.DISABLED)
#: The length of a pair: before and after.
_PAIR = 2


def list_undoable(license: License, active: Container[int], events: Mapping[int, Event]) -> set[int]:
    """Return which of these events of the license (by ID, newest first) can be undone now; each change only
    once. ``active`` are the IDs of its active activations.
    """
    found, touched = set(), set[Any]()
    for id, event in events.items():
        names = {event.activation_id} if event.activation_id is not None else {*(event.details or {})}
        if not names & touched and _can_undo(license, active, event):
            found.add(id)
        if event.name in (UPDATED, FREED, GIVEN_BACK):
            touched |= names
    return found


def _can_undo(license: License, active: Container[int], event: Event) -> bool:
    if event.name == FREED:
        return event.activation_id is not None and event.activation_id not in active
    try:
        return event.name == UPDATED and bool(fields_before(license, event.details))
    except Refusal:
        return False


def fields_before(license: License, details: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the fields of the license as they were before an update with these details. Raises
    ``CannotUndo`` if the details do not contain them, ``ChangedSince`` if the license has been changed since
    the update.
    """
    pairs = with_new_names(msgspec.to_builtins(details or {}))
    if not _are_pairs(pairs):
        raise CannotUndo
    now = _values(license)
    changed = tuple(name for name, (_, after) in pairs.items() if now.get(name) != after)
    if changed:
        raise ChangedSince(changed)
    changes = {
        name: msgspec.convert(before, _FIELDS[name]) for name, (before, _) in pairs.items() if name in _FIELDS
    }
    members = {name: before for name, (before, _) in pairs.items() if name not in _FIELDS}
    if "order_id" in changes and license.order_details is not None:
        # The event does not contain the shop and the line of the order.
        raise ChangedSince(("order_id",))
    if members:
        # Combined with the current other terms: the stored start depends on the days.
        members |= {
            "max_activations": changes.get("times_activated_max", license.times_activated_max),
            "valid_for_days": changes.get("valid_for_days", license.valid_for_days),
        }
        changes["terms"] = to_text(copy_terms(terms_of(license), members))
    return changes


def require_untouched(license: License, *, has_leases: bool, has_usage: bool) -> None:
    """Raise ``ChangedSince`` for a license that was changed or used after it was made."""
    if license.record_count:
        raise ChangedSince(("activations",))
    if has_leases:
        raise ChangedSince(("leases",))
    if has_usage:
        raise ChangedSince(("usage",))
    if license.updated_at != license.created_at:
        raise ChangedSince(("license",))


def status_before(events: Iterable[Event]) -> Status:
    """Return the last usable status of a license; ``events`` are its latest ones, newest first. If they do
    not show it, the status is active.
    """
    for one in events:
        pair = (one.details or {}).get("status") if one.name == UPDATED else None
        if isinstance(pair, list | tuple) and len(pair) == _PAIR and pair[1] in UNUSABLE:
            if pair[0] in list(Status) and pair[0] not in UNUSABLE:
                return Status(pair[0])
        elif pair is not None:
            break
    return Status.ACTIVE


def changes_of(events: Iterable[Event]) -> tuple[PastChange, ...]:
    """Return what these events of one license, oldest first, record for undo: the last change first. Several
    places given up become one change that counts them; creation and deletion are recorded without details.
    """
    found = [_change_of(one) for one in events if one.name not in _BESIDE]
    freed = [one for one in found if one.name == FREED]
    if len(freed) > 1:
        whole = PastChange(FREED, freed[0].changed_at, None, {"others": len(freed)})
        found = [*(one for one in found if one.name != FREED), whole]
    return tuple(found[::-1])


def _change_of(event: Event) -> PastChange:
    has_details = event.name not in (CREATED, DELETED)
    details = event.details if has_details else None
    return PastChange(event.name, event.occurred_at, event.activation_id, details)


def _are_pairs(details: Mapping[str, Any] | None) -> bool:
    """Whether these details are pairs of values before and after, all of them readable: keys are masked."""
    if not details or "key" in details:
        return False
    return all(isinstance(one, list | tuple) and len(one) == _PAIR for one in details.values())


def _values(license: License) -> dict[str, Any]:
    """Return the fields and the terms of a license in the form of events."""
    terms: dict[str, Any] = msgspec.to_builtins(terms_of(license))
    return terms | {name: msgspec.to_builtins(getattr(license, name)) for name in _FIELDS}


class UndoEvent(LicenseCommand, frozen=True, kw_only=True):
    """Undo the change that this event records of a license, which is named by its ID."""

    cost = Cost.ALONE

    event_id: int


class UndoChanges(LicenseCommand, frozen=True, kw_only=True):
    """Undo all changes by the caller to a license, which is named by its ID, at this moment."""

    cost = Cost.ALONE

    changed_at: datetime


class RestoreLicense(LicenseCommand, frozen=True, kw_only=True):
    """Restore a deleted license by its ID."""

    cost = Cost.ALONE


class EnableLicense(LicenseCommand, frozen=True, kw_only=True):
    """Give an inactive or disabled license its last usable status."""


class RevertChanges(LicenseCommand, frozen=True, kw_only=True):
    """Undo these changes of a license, which is named by its ID, the last one first."""

    changes: tuple[PastChange, ...]
