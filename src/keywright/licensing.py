"""What each command about a license does.

A function here takes one command and the workset of its batch, applies the rules, and leaves what
should be saved in the workset; it returns the outcome's value or raises a refusal.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from keywright import commands as c
from keywright import keys, rules
from keywright.errors import LicenseKeyTaken, TokenNotActive, UnknownToken
from keywright.model import (
    Activation,
    ActivationSource,
    License,
    LicenseRecord,
    LicenseSource,
)
from keywright.workset import Workset


def activate(work: Workset, command: c.Activate) -> LicenseRecord:
    """Take a new place."""
    license = rules.activate(work.get_license(command), command.now)
    activation = Activation(
        id=work.tx.next_id("activation"),
        token=keys.new_token(),
        license_id=license.id,
        label=command.label,
        source=ActivationSource.API,
        ip_address=command.origin.ip_address,
        user_agent=command.origin.user_agent,
        meta_data=command.meta_data,
        created_at=command.now,
        updated_at=None,
        deactivated_at=None,
    )
    work.change_license(license)
    work.add_activation(activation)
    work.announce("license.activated", license, command, activation)
    return LicenseRecord(license, (activation,))


def reactivate(work: Workset, command: c.Reactivate) -> LicenseRecord:
    """Take back a place that was given up."""
    license = work.get_license(command)
    rules.require_usable(license, command.now)
    activation = work.get_activation(license, command.token)
    license, activation = rules.reactivate(license, activation, command.now)
    work.change_license(license)
    work.change_activation(activation)
    work.announce("license.reactivated", license, command, activation)
    return LicenseRecord(license, (activation,))


def deactivate(work: Workset, command: c.Deactivate) -> LicenseRecord:
    """Give up one place."""
    license = work.get_license(command)
    try:
        activation = work.get_activation(license, command.token)
    except UnknownToken:
        raise TokenNotActive(command.token) from None
    license, activation = rules.deactivate(license, activation, command.now)
    work.change_license(license)
    work.change_activation(activation)
    work.announce("license.deactivated", license, command, activation)
    return LicenseRecord(license, (activation,))


def deactivate_all(work: Workset, command: c.DeactivateAll) -> LicenseRecord:
    """Give up every place. The outcome, and the events, name as many of the records as an answer lists; one
    event more says how many others there were.
    """
    before = work.get_license(command)
    license, ended = rules.deactivate_all(before, work.active_records(before), command.now)
    work.deactivate_all(license, ended, command.now)
    listed = rules.listed(ended, work.limits.listed, rules.MOST_LISTED_BYTES)
    for activation in listed:
        work.announce("license.deactivated", license, command, activation)
    others = before.times_activated - len(listed)
    if others > 0:
        work.announce("license.deactivated", license, command, details={"others": others})
    return LicenseRecord(license, tuple(listed))


def create(work: Workset, command: c.CreateLicense) -> LicenseRecord:
    """Make a license with a key that no other has."""
    if work.has_license(command.key):
        raise LicenseKeyTaken
    license = new_license(
        work,
        command,
        command.key,
        LicenseSource.API,
        expires_at=command.expires_at,
        valid_for_days=command.valid_for_days,
        times_activated_max=command.times_activated_max,
    )
    return LicenseRecord(license)


def new_license(
    work: Workset,
    command: c.CreateLicense | c.GenerateLicenses,
    key: str,
    source: LicenseSource,
    *,
    expires_at: datetime | None = None,
    valid_for_days: int | None = None,
    times_activated_max: int | None = None,
) -> License:
    """Add a license to the workset, with what the command says of it."""
    license = License(
        id=work.tx.next_id("license"),
        key=key,
        order_id=command.order_id,
        product_id=command.product_id,
        user_id=command.user_id,
        expires_at=expires_at,
        valid_for_days=valid_for_days,
        source=source,
        status=command.status,
        times_activated=0,
        times_activated_max=times_activated_max,
        created_at=command.now,
        created_by=command.api_key_id,
        updated_at=command.now,
        updated_by=None,
    )
    work.add_license(license)
    work.announce("license.created", license, command)
    return license


def update(work: Workset, command: c.UpdateLicense) -> LicenseRecord:
    """Change the given fields of a license."""
    license = work.get_license(command)
    new_key = command.changes.get("key", license.key)
    if new_key != license.key and work.has_license(new_key):
        raise LicenseKeyTaken
    changed = replace(license, **command.changes, updated_at=command.now, updated_by=command.api_key_id)
    work.change_license(changed, old_key=license.key)
    details = _differences(license, changed, command.changes)
    work.announce("license.updated", changed, command, details=details)
    return LicenseRecord(changed)


def delete(work: Workset, command: c.DeleteLicense) -> None:
    """Delete a license and its activations."""
    license = work.get_license(command)
    work.delete_license(license)
    details = {"key": keys.mask(license.key), "times_activated": license.times_activated}
    work.announce("license.deleted", license, command, details=details)


def _differences(before: License, after: License, names: Mapping[str, Any]) -> dict[str, Any]:
    """What changed, as [before, after] by field; keys masked."""
    pairs = {name: [getattr(before, name), getattr(after, name)] for name in sorted(names)}
    changed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if "key" in changed:
        changed["key"] = [keys.mask(key) for key in changed["key"]]
    return changed


#: Which function decides which command.
DECISIONS: dict[type[c.Command], Callable[[Workset, Any], Any]] = {
    c.Activate: activate,
    c.Reactivate: reactivate,
    c.Deactivate: deactivate,
    c.DeactivateAll: deactivate_all,
    c.CreateLicense: create,
    c.UpdateLicense: update,
    c.DeleteLicense: delete,
}
