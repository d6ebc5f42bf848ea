"""Decide the commands about licenses; see ``activations.handlers``."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from keywright.core import crypto
from keywright.core.command import Command
from keywright.core.errors import ExpiresLater, InvalidParameters, LicenseKeyTaken, NeverExpires, NoLimit
from keywright.core.parsing import MAX_COUNT
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses import rules
from keywright.licensing.licenses.commands import (
    CreateLicense,
    DeleteLicense,
    ExtendLicense,
    LicenseCommand,
    NewLicenseCommand,
    RaiseLimit,
    ShowKey,
    UpdateLicense,
)
from keywright.licensing.licenses.model import License, LicenseSource
from keywright.licensing.unit_of_work import LicenseWork


def show_key(work: LicenseWork, command: ShowKey) -> License:
    """Return a license whose key is shown, and record that."""
    license = work.get_license(command)
    work.record_license_event("license.key_shown", license, command)
    return license


def create(work: LicenseWork, command: CreateLicense) -> LicenseRecord:
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
    work: LicenseWork,
    command: NewLicenseCommand,
    key: str,
    source: LicenseSource,
    *,
    expires_at: datetime | None = None,
    valid_for_days: int | None = None,
    times_activated_max: int | None = None,
) -> License:
    """Add a license to the unit of work, with what the command says of it."""
    license = License(
        id=work.tx.ids.next("license"),
        key=key,
        order_id=command.order_id,
        product_id=command.product_id,
        customer_id=command.customer_id,
        expires_at=expires_at,
        valid_for_days=valid_for_days,
        source=source,
        status=command.status,
        times_activated=0,
        times_activated_max=times_activated_max,
        created_at=command.context.now,
        created_by=command.context.api_key_id,
        updated_at=command.context.now,
        updated_by=None,
    )
    work.set_license(license)
    work.record_license_event("license.created", license, command)
    return license


def update(work: LicenseWork, command: UpdateLicense) -> LicenseRecord:
    """Change the given fields of a license."""
    license = work.get_license(command)
    new_key = command.changes.get("key", license.key)
    if new_key != license.key and work.has_license(new_key):
        raise LicenseKeyTaken
    changed = replace(
        license, **command.changes, updated_at=command.context.now, updated_by=command.context.api_key_id
    )
    work.set_license(changed)
    details = _differences(license, changed, command.changes)
    work.record_license_event("license.updated", changed, command, details=details)
    return LicenseRecord(changed)


def delete(work: LicenseWork, command: DeleteLicense) -> None:
    """Delete a license and its activations."""
    license = work.get_license(command)
    work.delete_license(license)
    details = {"key": crypto.mask(license.key), "times_activated": license.times_activated}
    work.record_license_event("license.deleted", license, command, details=details)


def _differences(before: License, after: License, names: Mapping[str, Any]) -> dict[str, Any]:
    """The changed fields, as [before, after]; keys masked."""
    pairs = {name: [getattr(before, name), getattr(after, name)] for name in sorted(names)}
    changed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if "key" in changed:
        changed["key"] = [crypto.mask(key) for key in changed["key"]]
    return changed


def extend(work: LicenseWork, command: ExtendLicense) -> LicenseRecord:
    """Put an expiry off; never to an earlier moment. Raises ``NeverExpires``, ``ExpiresLater``."""
    license = work.get_license(command)
    if license.expires_at is None:
        raise NeverExpires(license.key)
    begin = command.context.now if command.is_from_now else license.expires_at
    expires_at = rules.expiry_after(begin, command.days)
    if expires_at <= license.expires_at:
        raise ExpiresLater(license.key)
    return update(work, _update(command, expires_at=expires_at))


def raise_limit(work: LicenseWork, command: RaiseLimit) -> LicenseRecord:
    """Allow more places. Raises ``NoLimit``, ``InvalidParameters``."""
    license = work.get_license(command)
    if license.times_activated_max is None:
        raise NoLimit(license.key)
    limit = license.times_activated_max + command.places
    if limit > MAX_COUNT:
        raise InvalidParameters({"places": f"the limit would be over {MAX_COUNT}"})
    return update(work, _update(command, times_activated_max=limit))


def _update(command: LicenseCommand, **changes: Any) -> UpdateLicense:
    return UpdateLicense(
        context=command.context,
        license=command.license,
        only_product_id=command.only_product_id,
        changes=changes,
    )


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    CreateLicense: create,
    UpdateLicense: update,
    DeleteLicense: delete,
    ExtendLicense: extend,
    RaiseLimit: raise_limit,
    ShowKey: show_key,
}
