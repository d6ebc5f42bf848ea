"""Handlers of the commands about leases, and of queries; see ``activations.handlers``."""

import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from keywright.core.command import Command
from keywright.core.errors import UnknownLease, UnknownLicenseId
from keywright.core.nouns import ItemPage
from keywright.events.model import Event
from keywright.licensing.activations.device_handlers import find_activation, get_license, note_answer
from keywright.licensing.activations.model import Activation, ProgramCommand
from keywright.licensing.leases import model, rules, store
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.queries import require_license
from keywright.licensing.removals import require_removal
from keywright.licensing.unit_of_work import LicenseWork

#: The hex digits of a lease ID that fit into a database integer.
_ID_DIGITS = 15


def take_lease(work: LicenseWork, command: model.TakeLease) -> model.GrantedLease:
    """Take a lease, or renew the one that the holder has."""
    license, activation = _get_leasable(work, command)
    now, terms, leases = work.now(command), terms_of(license), work.leases
    device = rules.device_number(activation, command.device.fingerprint)
    new = model.Lease(license.id, secrets.token_hex(16), device, command.holder, now, now, now)
    current = leases.find_current(license, device, command.holder)
    is_held = current is not None and not rules.is_over(current, now)
    rules.require_not_barred(leases.find_barred_until(new), terms, now)
    held = leases.held(license, terms, is_place_needed=not is_held)
    leased = rules.take(new, current, held, terms, command.seconds)
    return _save(work, command, license, activation, leased)


def renew_lease(work: LicenseWork, command: model.RenewLease) -> model.GrantedLease:
    """Renew a lease. Raises ``UnknownLease``, and what ``rules.renew`` raises."""
    license, activation = _get_leasable(work, command)
    terms, leases = terms_of(license), work.leases
    lease = leases.find_lease(license, command.lease_id)
    if lease is None:
        raise UnknownLease
    rules.require_not_barred(lease.barred_until, terms, work.now(command))
    current, is_over = None, lease.ended_at is not None
    if is_over:
        current = leases.find_current(license, lease.activation_id, lease.holder)
    held = leases.held(license, terms, is_place_needed=is_over and current is None)
    leased = rules.renew(lease, current, held, terms, seconds=command.seconds, now=work.now(command))
    return _save(work, command, license, activation, leased)


def release_lease(work: LicenseWork, command: model.ReleaseLease) -> model.ReleasedLease:
    """Give up a lease; a lease that no longer exists was already given up."""
    license, now = get_license(work, command), work.now(command)
    _end_over(work, command, license)
    lease = work.leases.find_lease(license, command.lease_id)
    if lease is not None:
        work.leases.release(license, lease)
    was_held = lease is not None and lease.ended_at is None
    return model.ReleasedLease(work.devices.views.show(license, now), work.leases.count(license), was_held)


def end_lease(work: LicenseWork, command: model.EndLease) -> None:
    """End a lease, so that its holder loses it; an ended lease stays ended. Raises ``UnknownLease``."""
    license = work.get_license(command)
    _end_over(work, command, license)
    lease = work.leases.find_lease(license, command.lease_id)
    if lease is None:
        raise UnknownLease
    if lease.ended_at is not None:
        return
    work.leases.end(license, lease, work.now(command))
    work.record_license_event("license.lease_ended", license, command)


def end_by_customer(work: LicenseWork, command: model.EndLeaseByCustomer) -> None:
    """End a lease; one that has already ended stays as it is, and does not count as a removal. Raises
    ``UnknownLicenseId``, ``UnknownLease`` or ``NoRemovalLeft``.
    """
    license, now = work.get_license(command), work.now(command)
    if license.customer_id != command.customer_id:
        raise UnknownLicenseId(str(license.id))
    _end_over(work, command, license)
    lease = work.leases.find_lease(license, command.lease_id)
    if lease is None:
        raise UnknownLease
    if lease.ended_at is not None:
        return
    terms = terms_of(license)
    work.removals.load({license.id})
    require_removal(terms, work.removals.list_removals(license), command.context.now)
    # Negative: no device has this ID.
    work.removals.add(license, -int(lease.lease_id[:_ID_DIGITS], 16), command.context.now)
    work.leases.end(license, lease, now, barred_until=now + timedelta(seconds=terms.lease_seconds))
    work.record_license_event("license.lease_ended", license, command)


def _get_leasable(work: LicenseWork, command: ProgramCommand) -> tuple[License, Activation | None]:
    """Return the license, which can grant leases now, and the record of the device, if it has one."""
    license, now = get_license(work, command), work.now(command)
    activation = find_activation(work, license, command)
    rules.require_leasable(
        license,
        terms_of(license),
        activation,
        is_device_named=command.is_device_named,
        built_at=command.built_at,
        now=now,
    )
    _end_over(work, command, license)
    return license, activation


def _end_over(work: LicenseWork, command: Command, license: License) -> None:
    """End the leases that are over, and record their loss; the caller is not the actor of these events."""
    now = work.now(command)
    for one in work.leases.end_over(license, now):
        details = {"ended_at": one.expires_at}
        place = one.activation_id if (one.activation_id or 0) > 0 else None
        work.events.append(Event(now, "lease.lost", license.id, place, "program", "", details))


def _save(
    work: LicenseWork,
    command: ProgramCommand,
    license: License,
    activation: Activation | None,
    leased: model.Leased,
) -> model.GrantedLease:
    work.leases.set_leased(leased)
    if activation is not None and activation.deactivated_at is None:
        activation = note_answer(license, activation, command, leased.lease.expires_at)
        work.set_activation(activation)
    return model.GrantedLease(work.devices.views.show(license, work.now(command)), leased, activation)


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    model.TakeLease: take_lease,
    model.RenewLease: renew_lease,
    model.ReleaseLease: release_lease,
    model.EndLease: end_lease,
    model.EndLeaseByCustomer: end_by_customer,
}


def list_leases(read: Any, query: model.ListLeases) -> ItemPage[model.Lease]:
    """Return a page of leases. Raises ``UnknownLicense``."""
    license = require_license(read.tx, query.license_id, query.only_product_id)
    found = store.list_leases(read.tx, license.id, before=query.before, limit=query.limit)
    return ItemPage(found, store.count_leases(read.tx, license.id) if query.is_counted else None)
