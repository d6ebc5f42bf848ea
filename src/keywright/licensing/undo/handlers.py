"""Handlers of the commands that undo changes; they check the license as it is in the same transaction."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from keywright.core import errors as e
from keywright.core.command import Command
from keywright.core.crypto import mask
from keywright.events.store import find_event, list_changes_at, list_events
from keywright.licensing.activations import rules as activation_rules
from keywright.licensing.activations.model import Activation, LicenseRecord
from keywright.licensing.activations.store import find_by_id, list_ended_at
from keywright.licensing.licenses import handlers as licenses
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.model import (
    DeleteLicense,
    License,
    LicenseCommand,
    order_line_hash,
    order_of,
)
from keywright.licensing.licenses.store import find_by_order_lines, find_licenses
from keywright.licensing.undo import rules
from keywright.licensing.undo import store as undo_store
from keywright.licensing.unit_of_work import LicenseWork

#: A step applies a change once all changes are found possible; a plan also has the license after them.
_Step = Callable[[], Any]
_Plan = tuple[License, list[_Step]]

#: How many of the latest events are searched for the last usable status of a license.
_MAX_LOOKED_AT = 500
#: The most places that can be taken back at once.
_MAX_GIVEN_BACK = 1_000


def undo_event(work: LicenseWork, command: rules.UndoEvent) -> rules.Undone:
    """Undo one change. Raises ``NotFound``, ``CannotUndo``, ``ChangedSince``, ``LimitReached`` …"""
    event = find_event(work.tx, command.event_id)
    if event is None or event.license_id != command.license:
        raise e.NotFound(f"event {command.event_id}")
    return _revert(work, command, rules.changes_of([event]))


def undo_changes(work: LicenseWork, command: rules.UndoChanges) -> rules.Undone:
    """Undo the caller's changes at a moment. Raises what ``undo_event`` raises."""
    context = command.context
    found = list_changes_at(
        work.tx,
        int(command.license),
        actor=context.origin.actor,
        at=command.changed_at,
        limit=_MAX_GIVEN_BACK + 2,
    )
    return _revert(work, command, rules.changes_of(found))


def revert_changes(work: LicenseWork, command: rules.RevertChanges) -> rules.Undone:
    """Undo these changes. Raises what ``undo_event`` raises."""
    return _revert(work, command, command.changes)


def restore_license(work: LicenseWork, command: LicenseCommand) -> License:
    """Restore a deleted license with its activations, usage and former keys. Raises ``UnknownLicenseId`` if
    there is no snapshot of it, ``LicenseKeyTaken`` and ``OrderLineTaken`` if another license has its key or
    order line.
    """
    id, now = int(command.license), command.context.now
    snapshot = undo_store.find_snapshot(work.tx, id)
    only = command.only_product_id
    if snapshot is None or only not in (None, snapshot.license["product_id"]):
        raise e.UnknownLicenseId(str(id))
    license = replace(
        undo_store.license_of(snapshot, id), updated_at=now, updated_by=command.context.api_key_id
    )
    if work.has_license(license.key) or find_licenses(work.tx, [license.key]):
        raise e.LicenseKeyTaken
    line = order_line_hash(order_of(license))
    if line is not None and (line in work.order_lines or find_by_order_lines(work.tx, [line])):
        raise e.OrderLineTaken
    undo_store.restore(work.tx, snapshot, license)
    details: dict[str, Any] = {"key": mask(license.key)}
    if license.product_id is not None:
        details["product_id"] = license.product_id
    work.record_license_event(rules.RESTORED, license, command, details=details)
    return work.restore(license, command)


def enable(work: LicenseWork, command: rules.EnableLicense) -> LicenseRecord:
    """Give a license its last usable status. Raises ``NothingToChange`` if it has a usable status."""
    license = work.get_license(command)
    if license.status not in rules.UNUSABLE:
        raise e.NothingToChange
    own = [one for one in work.events if one.license_id == license.id][::-1]
    events = [*own, *list_events(work.tx, license.id, limit=_MAX_LOOKED_AT)]
    return licenses.apply_changes(work, command, license, {"status": rules.status_before(events)})


def _revert(work: LicenseWork, command: LicenseCommand, changes: Sequence[rules.PastChange]) -> rules.Undone:
    """Undo these changes, given the last first: all of them or none."""
    todo = [(_PLANNERS[one.name], one) for one in changes if one.name in _PLANNERS]
    if not todo and not (changes and changes[0].name == rules.DELETED):
        raise e.CannotUndo
    if changes[0].name == rules.DELETED:
        return rules.Undone(restore_license(work, command).id)
    license = work.get_license(command)
    steps: list[_Step] = []
    for plan, change in todo:
        license, more = plan(work, command, license, change)
        steps += more
    for step in steps:
        step()
    return rules.Undone(license.id, is_deleted=work.find_license(license.id) is None)


def _plan_update(
    work: LicenseWork, command: LicenseCommand, license: License, change: rules.PastChange
) -> _Plan:
    changes = rules.fields_before(license, change.details)
    step = partial(licenses.apply_changes, work, command, license, changes)
    return replace(license, **changes), [step]


def _plan_giving_back(
    work: LicenseWork, command: LicenseCommand, license: License, change: rules.PastChange
) -> _Plan:
    """Take back the places of devices, with their tokens and fingerprints; each needs a free place."""
    steps: list[_Step] = []
    for activation in _list_of(work, license, change):
        if activation.deactivated_at != change.changed_at:
            raise e.ChangedSince(("activations",))
        if activation.is_counted:
            license_rules.require_free_place(license)
        license, given = activation_rules.take_back(
            license, activation, command.context.now, is_counted=activation.is_counted
        )
        steps.append(partial(_save, work, command, rules.GIVEN_BACK, license, given))
    return license, steps


def _plan_freeing(
    work: LicenseWork, command: LicenseCommand, license: License, change: rules.PastChange
) -> _Plan:
    steps: list[_Step] = []
    for activation in _list_of(work, license, change):
        if activation.deactivated_at is not None:
            raise e.ChangedSince(("activations",))
        license, freed = activation_rules.deactivate(license, activation, command.context.now)
        steps.append(partial(_save, work, command, rules.FREED, license, freed))
    return license, steps


def _plan_unmaking(
    work: LicenseWork, command: LicenseCommand, license: License, _change: rules.PastChange
) -> _Plan:
    """Delete a license that was made, if it has not been changed or used since."""
    has_leases, has_usage = work.leases.has_any(license.id), work.usage.has_any(license.id)
    rules.require_untouched(license, has_leases=has_leases, has_usage=has_usage)
    order = DeleteLicense(context=command.context, license=license.id)
    return license, [partial(licenses.delete, work, order)]


def _plan_deleting_again(
    work: LicenseWork, command: LicenseCommand, license: License, change: rules.PastChange
) -> _Plan:
    """Delete a license that was restored, if nothing has happened to it since."""
    own = [one for one in work.events if one.license_id == license.id]
    newest = own[-1:] or list_events(work.tx, license.id, limit=1)
    if [(one.name, one.occurred_at) for one in newest] != [(rules.RESTORED, change.changed_at)]:
        raise e.ChangedSince(("license",))
    order = DeleteLicense(context=command.context, license=license.id)
    return license, [partial(licenses.delete, work, order)]


def _list_of(work: LicenseWork, license: License, change: rules.PastChange) -> list[Activation]:
    """Return the activations of a change. Raises ``CannotUndo`` if there are none any more, or too many."""
    if change.activation_id is not None:
        found = find_by_id(work.tx, [(license.id, change.activation_id)])
    else:
        found = list_ended_at(work.tx, license.id, change.changed_at, limit=_MAX_GIVEN_BACK + 1)
    if not 1 <= len(found) <= _MAX_GIVEN_BACK:
        raise e.CannotUndo
    work.add_activations(found)
    known = work.known_activations(license)
    return [known[one.token] for one in found]


def _save(
    work: LicenseWork, command: LicenseCommand, event: str, license: License, activation: Activation
) -> None:
    work.set_license(license)
    work.set_activation(activation)
    work.record_license_event(event, license, command, activation)


_PLANNERS: dict[str, Callable[[LicenseWork, LicenseCommand, License, rules.PastChange], _Plan]] = {
    rules.UPDATED: _plan_update,
    rules.FREED: _plan_giving_back,
    rules.GIVEN_BACK: _plan_freeing,
    rules.CREATED: _plan_unmaking,
    rules.RESTORED: _plan_deleting_again,
}
HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    rules.EnableLicense: enable,
    rules.RestoreLicense: restore_license,
    rules.UndoEvent: undo_event,
    rules.UndoChanges: undo_changes,
    rules.RevertChanges: revert_changes,
}
