"""Decide the commands of programs about the place of a device; see ``activations.handlers``."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from keywright.core import crypto
from keywright.core.command import Command
from keywright.core.errors import KeyRotated, LimitReached, OtherProductKey, ProductMismatch, UnknownToken
from keywright.licensing.activations import devices, records, store
from keywright.licensing.activations.commands import (
    ActivateDevice,
    DeactivateDevice,
    KeepOffline,
    ProgramCommand,
    SaveLastSeen,
)
from keywright.licensing.activations.model import (
    Activation,
    ActivationSource,
    DevicePlace,
    KnownRecords,
    PlaceChange,
    Placement,
    ReleasedPlace,
    SeenDevice,
)
from keywright.licensing.licenses import rules as license_rules
from keywright.licensing.licenses.model import License
from keywright.licensing.unit_of_work import LicenseWork

#: A refusal at the limit names at most so many devices.
MAX_DEVICES_NAMED = 100
_EVENTS = {
    PlaceChange.NEW: "license.activated",
    PlaceChange.TAKEN_BACK: "license.reactivated",
}


def get_license(work: LicenseWork, command: ProgramCommand) -> License:
    """The license that a program names. Raises ``UnknownLicense``, ``OtherProductKey``, ``ProductMismatch``
    or ``KeyRotated``.
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


def find_activation(work: LicenseWork, license: License, command: ProgramCommand) -> Activation | None:
    """The record of the device that a command names, if the license has one."""
    known = work.known_activations(license).values()
    return devices.find_own(known, command.device.fingerprint, command.token)


def activate_device(work: LicenseWork, command: ActivateDevice) -> DevicePlace:
    """Give a device its place."""
    license = get_license(work, command)
    own, now = find_activation(work, license, command), command.context.now
    if own is None and command.token is not None and command.device.fingerprint is None:
        # A token names a place; a new one would be taken at every call.
        raise UnknownToken(command.token)
    replaced = None
    if command.replaces is not None:
        replaced = devices.find_own(work.known_activations(license).values(), command.replaces, None)
    try:
        placement = devices.activate_device(
            license,
            command.device,
            KnownRecords(own, replaced),
            seen=work.devices.list_seen(license),
            built_at=command.built_at,
            now=now,
        )
    except LimitReached as refusal:
        if command.lists_devices:
            refusal.devices = _list_devices(work, license)
        raise
    activation = placement.activation or _new_activation(work, license, command)
    activation = note_answer(placement.license, activation, command)
    if placement.is_new_device:
        seen = SeenDevice(now, command.device.fingerprint or activation.token)
        work.devices.add_seen(license, seen)
    _save(work, command, placement, activation, replaced)
    return DevicePlace(work.devices.views.show(placement.license, now), activation, placement.change)


def deactivate_device(work: LicenseWork, command: DeactivateDevice) -> ReleasedPlace:
    """Give up the place of a device."""
    before = get_license(work, command)
    own, now = find_activation(work, before, command), command.context.now
    license, activation, was_active = devices.deactivate_device(before, own, now)
    if was_active:
        work.set_license(license)
        work.set_activation(activation)
        work.removals.add(license, activation.id, now)
        work.record_license_event("license.deactivated", license, command, activation)
    return ReleasedPlace(work.devices.views.show(license, now), activation, was_active)


def note_answer(
    license: License, activation: Activation, command: ProgramCommand, lease_ends_at: datetime | None = None
) -> Activation:
    """The record of a device that gets the answer to this command, which grants what it asked for."""
    now, ends_at = command.context.now, None
    if command.is_signed:
        ends_at = license_rules.signed_until(
            license, now, built_at=command.built_at, lease_ends_at=lease_ends_at
        )
    return devices.keep_offline(activation, license_rules.terms_of(license), ends_at, now)


def keep_offline(work: LicenseWork, command: KeepOffline) -> Activation | None:
    """Record until when an answer is good; returns the record, None for a device that holds no place now."""
    license = work.get_license(command)
    known = work.known_activations(license).get(command.token)
    if known is None or known.deactivated_at is not None:
        return None
    terms, now = license_rules.terms_of(license), command.context.now
    activation = devices.keep_offline(known, terms, command.ends_at, now)
    if activation is not known:
        work.set_activation(activation)
    return activation


def save_last_seen(work: LicenseWork, command: SaveLastSeen) -> None:
    """Store when licenses that still exist, and their activations, were seen."""
    store.save_last_seen(work.tx, command.seen)


def _new_activation(work: LicenseWork, license: License, command: ActivateDevice) -> Activation:
    device, context = command.device, command.context
    return Activation(
        id=work.tx.ids.next("activation"),
        token=crypto.new_token(),
        license_id=license.id,
        label=device.name,
        source=ActivationSource.API,
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
    )


def _save(
    work: LicenseWork,
    command: ActivateDevice,
    placement: Placement,
    activation: Activation,
    replaced: Activation | None,
) -> None:
    """Leave what changed in the unit of work, and record it; a device that has its place is no event."""
    license, released = placement.license, placement.released
    work.set_license(license)
    work.set_activation(activation)
    if released is not None:
        work.set_activation(released)
    if placement.change is PlaceChange.MOVED:
        assert replaced is not None  # noqa: S101
        details = {"replaced": replaced.id, "name": [replaced.label, activation.label]}
        work.record_license_event("license.device_replaced", license, command, activation, details)
    elif placement.change in _EVENTS:
        work.record_license_event(_EVENTS[placement.change], license, command, activation)
    elif released is not None:
        work.record_license_event("license.deactivated", license, command, released)


def _list_devices(work: LicenseWork, license: License) -> list[dict[str, Any]]:
    """The devices that hold the places, as a refusal names them."""
    stored = records.list_some_active(work.tx, [license], MAX_DEVICES_NAMED).get(license.id, [])
    known = {one.token: one for one in stored} | dict(work.known_activations(license))
    holding = [one for one in known.values() if one.deactivated_at is None][:MAX_DEVICES_NAMED]
    seen_at = records.find_last_seen(work.tx, holding)
    return [{"name": one.label, "last_seen_at": seen_at.get(one.id, one.created_at)} for one in holding]


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    ActivateDevice: activate_device,
    DeactivateDevice: deactivate_device,
    KeepOffline: keep_offline,
    SaveLastSeen: save_last_seen,
}
