"""Handlers of programs' commands about the place of a device, and a dry run; see ``activations.handlers``."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from keywright.core import crypto
from keywright.core.command import Command
from keywright.core.errors import (
    KeyRotated,
    LimitReached,
    OtherProductKey,
    ProductMismatch,
    Refusal,
    UnknownToken,
)
from keywright.db import ReadTransaction
from keywright.db.rows import to_datetime
from keywright.events.store import find_newest_moment
from keywright.licensing.activations import devices, model, records, store
from keywright.licensing.activations.model import Activation, Device, KnownRecords, PlaceChange
from keywright.licensing.activations.sites import find_moved
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.moments import REPLACES_UNSEEN
from keywright.licensing.removals import require_removal
from keywright.licensing.store import find_marks
from keywright.licensing.terms.model import WhenFull
from keywright.licensing.unit_of_work import LicenseWork
from keywright.licensing.updates.tokens import issue

#: The most devices that a refusal at the limit lists.
MAX_DEVICES_NAMED = 100
_EVENTS = {
    model.PlaceChange.NEW: "license.activated",
    model.PlaceChange.TAKEN_BACK: "license.reactivated",
}


def get_license(work: LicenseWork, command: model.ProgramCommand) -> License:
    """Return the license that a program names. Raises ``UnknownLicense``, ``OtherProductKey``,
    ``ProductMismatch`` or ``KeyRotated``.
    """
    found = work.find_license(command.license)
    is_rotated = found is None
    license = work.devices.get_rotated(command) if found is None else found
    if command.only_product_id not in (None, license.product_id):
        raise OtherProductKey
    if command.product is not None and not work.devices.views.is_product(license, command.product):
        raise ProductMismatch
    if is_rotated:
        raise KeyRotated
    return license


def find_activation(
    work: LicenseWork, license: License, command: model.ProgramCommand
) -> model.Activation | None:
    """Return the record of the device that a command names; None if the license has none."""
    known = work.known_activations(license).values()
    return devices.find_own(known, command.device.fingerprint, command.token)


def activate_device(work: LicenseWork, command: model.ActivateDevice) -> model.DevicePlace:
    """Give a device its place."""
    license = get_license(work, command)
    own, now = find_activation(work, license, command), command.context.now
    if own is None and command.token is not None and command.device.fingerprint is None:
        # A token names an existing place; here, every call would take a new one.
        raise UnknownToken(command.token)
    replaced = None
    if command.replaces is not None:
        replaced = devices.find_own(work.known_activations(license).values(), command.replaces, None)
    try:
        placement = devices.activate_device(
            license,
            command.device,
            model.KnownRecords(own, replaced),
            seen=work.devices.list_seen(license),
            built_at=command.built_at,
            now=now,
            find_room=lambda: _find_room(work, command, license),
            is_site=command.is_site,
        )
    except LimitReached as refusal:
        if command.lists_devices or license_rules.terms_of(license).devices_visible:
            refusal.devices = _list_devices(work, license)
        raise
    activation = placement.activation or _new_activation(work, placement, command)
    activation = note_answer(placement.license, activation, command)
    if placement.is_new_device:
        seen = model.SeenDevice(now, command.device.fingerprint or activation.token)
        work.devices.add_seen(license, seen)
    was_active = own is not None and own.deactivated_at is None
    if was_active and placement.change is PlaceChange.TAKEN_BACK:
        # A site without a place takes one: it gives up its record first.
        work.record_license_event("license.deactivated", license, command, own)
    _save(work, command, placement, activation, replaced)
    is_shown = placement.change in _EVENTS and license_rules.terms_of(license).devices_visible
    removed = placement.released if is_shown else None
    view, token = work.devices.views.show(placement.license, now), None
    if command.wants_update_token:
        token = issue(work, command, placement.license, activation).text
    return model.DevicePlace(view, activation, placement.change, removed, token)


def deactivate_device(work: LicenseWork, command: model.DeactivateDevice) -> model.ReleasedPlace:
    """Give up the place of a device."""
    before = get_license(work, command)
    own, now = find_activation(work, before, command), command.context.now
    license, activation, was_active = devices.deactivate_device(before, own, now)
    if was_active:
        work.set_license(license)
        work.set_activation(activation)
        work.removals.add(license, activation.id, now)
        work.record_license_event("license.deactivated", license, command, activation)
    return model.ReleasedPlace(work.devices.views.show(license, now), activation, was_active)


def note_answer(
    license: License,
    activation: model.Activation,
    command: model.ProgramCommand,
    lease_ends_at: datetime | None = None,
) -> model.Activation:
    """Update the record of a device that gets a positive answer to this command."""
    now, ends_at = command.context.now, None
    if command.is_signed:
        ends_at = license_rules.signed_until(
            license, now, built_at=command.built_at, lease_ends_at=lease_ends_at
        )
    return devices.keep_offline(activation, license_rules.terms_of(license), ends_at, now)


def keep_offline(work: LicenseWork, command: model.KeepOffline) -> model.Activation | None:
    """Record how long an answer is valid; returns the record, or None for a device without a place."""
    license = work.get_license(command)
    known = work.known_activations(license).get(command.token)
    if known is None or known.deactivated_at is not None:
        return None
    terms, now = license_rules.terms_of(license), command.context.now
    activation = devices.keep_offline(known, terms, command.ends_at, now)
    if activation is not known:
        work.set_activation(activation)
    return activation


def save_last_seen(work: LicenseWork, command: model.SaveLastSeen) -> None:
    """Store when activations were last seen, if their licenses still exist."""
    store.save_last_seen(work.tx, command.seen)
    store.save_versions(work.tx, command.versions)


def _new_activation(
    work: LicenseWork, placement: model.Placement, command: model.ActivateDevice
) -> model.Activation:
    device, context = command.device, command.context
    return model.Activation(
        id=work.tx.ids.next("activation"),
        token=crypto.new_token(),
        license_id=placement.license.id,
        label=device.name,
        source=model.ActivationSource.API,
        ip_address=context.origin.ip_address,
        user_agent=context.origin.user_agent,
        meta_data=device.metadata,
        created_at=context.now,
        updated_at=None,
        deactivated_at=None,
        fingerprint=device.fingerprint,
        platform=device.platform,
        app_version=device.app_version,
        offline_until=context.now,
        is_counted=placement.is_counted,
    )


def _save(
    work: LicenseWork,
    command: model.ActivateDevice,
    placement: model.Placement,
    activation: model.Activation,
    replaced: model.Activation | None,
) -> None:
    """Put the changes into the unit of work, and record an event unless the device kept its place."""
    license, released = placement.license, placement.released
    work.set_license(license)
    work.set_activation(activation)
    if released is not None:
        work.set_activation(released)
    if placement.change is model.PlaceChange.MOVED:
        assert replaced is not None  # noqa: S101
        details = {"replaced": replaced.id, "name": [replaced.label, activation.label]}
        work.record_license_event("license.device_replaced", license, command, activation, details)
    elif placement.change in _EVENTS and released is not None:
        _record_removal(work, command, license, activation, released)
    elif placement.change in _EVENTS:
        work.record_license_event(_EVENTS[placement.change], license, command, activation)
    elif released is not None:
        work.record_license_event("license.deactivated", license, command, released)


def _record_removal(
    work: LicenseWork,
    command: model.ActivateDevice,
    license: License,
    activation: model.Activation,
    removed: model.Activation,
) -> None:
    """Record that a device lost its place to another; if it was chosen, as a removal by the customer."""
    details: dict[str, Any] = {"replaced": removed.id, "name": [removed.label, activation.label]}
    is_chosen = removed.id == command.remove and license_rules.terms_of(license).devices_visible
    if is_chosen:
        work.removals.add(license, removed.id, command.context.now)
        details |= {"is_chosen": True}
    if removed.runs_until is not None:
        details |= {"offline_until": removed.runs_until}
    work.record_license_event("license.device_replaced", license, command, activation, details)


def _find_room(work: LicenseWork, command: model.ActivateDevice, license: License) -> model.Activation | None:
    """Return the device that loses its place on a full license: the chosen one, or one unseen for long.
    Raises ``NoRemovalLeft``.
    """
    if work.is_emptied(license):
        return None
    now, terms = command.context.now, license_rules.terms_of(license)
    if terms.devices_visible and command.remove is not None:
        work.add_activations(store.find_by_id(work.tx, [(license.id, command.remove)]))
        known = work.known_activations(license).values()
        chosen = next((one for one in known if one.id == command.remove), None)
        if chosen is not None and chosen.deactivated_at is None:
            require_removal(terms, work.removals.list_removals(license), now)
            return chosen
    loaded = work.known_activations(license)
    found = find_unseen(work.tx, license, loaded, now)
    if found is None and command.is_site:
        holders = records.list_holders(work.tx, license, loaded)
        found = find_moved((one.activation for one in holders), command.device.fingerprint)
    if found is not None:
        work.add_activations([found])
    return found


def _list_devices(work: LicenseWork, license: License) -> list[dict[str, Any]]:
    """Return the devices that hold the places, for a refusal, the one unseen for longest first."""
    holders = records.list_holders(work.tx, license, work.known_activations(license))
    holders.sort(key=lambda one: (one.seen_at, one.activation.id))
    return [
        {
            "id": one.activation.id,
            "name": one.activation.label,
            "platform": one.activation.platform,
            "last_seen_at": one.seen_at,
            "offline_until": one.activation.runs_until,
        }
        for one in holders[:MAX_DEVICES_NAMED]
    ]


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    model.ActivateDevice: activate_device,
    model.DeactivateDevice: deactivate_device,
    model.KeepOffline: keep_offline,
    model.SaveLastSeen: save_last_seen,
}


#: Represents a device that the license has never seen.
_NEW_DEVICE = Device(fingerprint="a device that was never seen")


def check_device(
    tx: ReadTransaction, license: License, fingerprint: str | None, now: datetime
) -> PlaceChange | Refusal:
    """Return what ``ActivateDevice`` would do for the device with this fingerprint (None: for a new device),
    or the refusal it would raise.
    """
    device = _NEW_DEVICE if fingerprint is None else Device(fingerprint=fingerprint)
    own = [] if fingerprint is None else store.find_by_fingerprint(tx, [(license.id, fingerprint)])
    known = KnownRecords(own[0] if own else None, None)
    seen = store.list_new_devices(tx, [license.id]).get(license.id, ())
    try:
        return devices.activate_device(
            license,
            device,
            known,
            seen=seen,
            built_at=None,
            now=now,
            find_room=lambda: find_unseen(tx, license, {}, now),
        ).change
    except Refusal as refusal:
        return refusal


def find_unseen(
    tx: ReadTransaction, license: License, known: Mapping[str, Activation], now: datetime
) -> Activation | None:
    """Return the device that loses its place to a new one by the terms; ``known`` as in ``list_holders``."""
    terms = terms_of(license)
    if terms.when_full is not WhenFull.REPLACE_UNSEEN:
        return None
    # If the clock is ahead, no device must become unseen.
    now = min(now, find_newest_moment(tx) or license.updated_at)
    mark = find_marks(tx, [license.id]).get((license.id, REPLACES_UNSEEN))
    changed_at = None if mark is None else to_datetime(mark[1])
    holders = records.list_holders(tx, license, known)
    return devices.find_unseen(terms, holders, changed_at=changed_at, now=now)
