"""The handlers of claims and transfers of licenses, and of the queries about them.

They use the database's clock, if it has one, and lock the license. The new owner must not see the past of a
transferred license: the records of its devices are deleted.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from keywright.core import errors as e
from keywright.core.command import Command, Query
from keywright.events.model import MailTemplate, QueuedMail, Subject
from keywright.events.outbox_store import queue_mail
from keywright.licensing.activations.store import delete_places
from keywright.licensing.leases.store import recount_leases
from keywright.licensing.licenses import handlers as licenses
from keywright.licensing.licenses.model import License, LicenseCommand
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.queries import require_license
from keywright.licensing.unit_of_work import LicenseWork
from keywright.provisioning.handlers import find_or_make_customer as find_or_make
from keywright.provisioning.ownership import model, rules, store
from keywright.provisioning.policies.handlers import draw_key_of
from keywright.provisioning.store import CUSTOMERS, require_customer


def claim(work: LicenseWork, command: model.ClaimLicense) -> License:
    """Give the license to the customer; if it is theirs already, nothing changes. Raises ``NotClaimable``,
    after the same statements, both if there is no such license and if it cannot be claimed, and
    ``UnknownReference`` for an unknown customer.
    """
    require_customer(work.tx, command.customer_id, None, "/customer_id")
    license, only = work.find_license(command.license), command.only_product_id
    if license is None or only not in (None, license.product_id):
        raise e.NotClaimable
    if license.customer_id == command.customer_id:
        return license
    if not rules.is_claimable(license):
        raise e.NotClaimable
    changes = {"customer_id": command.customer_id}
    claimed = licenses.apply_changes(work, command, license, changes).license
    store.save_claim(work.tx, model.Claim(license.id, command.customer_id, _now(work, command)))
    work.record_license_event("license.claimed", claimed, command, details=changes)
    return claimed


def offer(work: LicenseWork, command: model.OfferLicense) -> model.Transfer:
    """Offer the license. Raises ``UnknownLicenseId``, ``NotTransferable``, ``TransferPending``,
    ``TooManyOffers``, or ``InvalidParameters`` for the owner's own address.
    """
    license, now = work.get_license(command), _now(work, command)
    owner_id = license.customer_id
    if command.owner_id not in (None, owner_id):
        raise e.UnknownLicenseId(str(license.id))
    if owner_id is None:
        raise e.NotTransferable
    # The lock serializes the owner's offers, of all licenses.
    CUSTOMERS.lock(work.tx, owner_id)
    rules.require_transferable(license, store.find_past(work.tx, license.id), now)
    states = [rules.state_of(one, owner_id, now) for one in store.list_transfers(work.tx, license.id)]
    if model.TransferState.OFFERED in states:
        raise e.TransferPending
    rules.require_few(store.list_offer_times(work.tx, owner_id), now)
    _require_own(work, command)
    to = find_or_make(work, command, email=command.email, language=command.language)
    if to.id == owner_id:
        raise e.InvalidParameters({"email": "must be the address of another customer"})
    transfer = model.Transfer(
        id=0,
        license_id=license.id,
        from_customer_id=owner_id,
        to_customer_id=to.id,
        offered_at=now,
        expires_at=now + model.OFFER_TIME,
    )
    transfer = replace(transfer, id=store.save_new_transfer(work.tx, transfer))
    _queue(work, transfer, license, {MailTemplate.LICENSE_OFFERED: to.id})
    _record(work, command, "license.transfer_offered", license, transfer)
    return transfer


def accept(work: LicenseWork, command: model.AcceptTransfer) -> model.Transfer:
    """Give the license to the customer to whom it is offered. Raises ``NotFound`` if the offer is over or for
    another customer, or the customer's address is not verified, and ``NotTransferable``.
    """
    license, transfer = _get_offered(work, command)
    customer_id, now = command.customer_id, _now(work, command)
    if customer_id is not None:
        customer = CUSTOMERS.find(work.tx, customer_id)
        is_proved = customer is not None and customer.email_verified_at is not None
        if customer_id != transfer.to_customer_id or not is_proved:
            raise e.NotFound("such offer")
    rules.require_transferable(license, store.find_past(work.tx, license.id), now)
    return _hand_over(work, command, license, replace(transfer, accepted_at=now))


def cancel(work: LicenseWork, command: model.CancelTransfer) -> None:
    """End an offer. Raises ``NotFound`` if it is over, or neither from nor to the customer."""
    license, transfer = _get_offered(work, command)
    if command.customer_id not in (None, transfer.from_customer_id, transfer.to_customer_id):
        raise e.NotFound("such offer")
    store.save_transfer(work.tx, replace(transfer, ended_at=_now(work, command)))
    _record(work, command, "license.transfer_ended", license, transfer)


def undo(work: LicenseWork, command: model.UndoTransfer) -> model.Transfer:
    """Return the license to its former customer. Raises ``NotFound`` for a transfer that was not accepted or
    is undone, and ``ChangedSince`` if the license has another customer by now.
    """
    license, now = work.get_license(command), _now(work, command)
    transfer = store.find_transfer(work.tx, license.id, command.transfer_id)
    if transfer is None or transfer.accepted_at is None or transfer.undone_at is not None:
        raise e.NotFound("such transfer")
    if license.customer_id != transfer.to_customer_id:
        raise e.ChangedSince(("customer_id",))
    return _hand_over(work, command, license, replace(transfer, undone_at=now))


def _require_own(work: LicenseWork, command: model.OfferLicense) -> None:
    """Raise ``UnknownReference`` for a customer who holds no license of the caller's only product."""
    if command.only_product_id is not None:
        customer = CUSTOMERS.find_by(work.tx, "email", command.email)
        if customer is not None:
            require_customer(work.tx, customer.id, command.only_product_id, "/email")


def _get_offered(work: LicenseWork, command: model.TransferCommand) -> tuple[License, model.Transfer]:
    license = work.get_license(command)
    found = store.find_transfer(work.tx, license.id, command.transfer_id)
    return license, rules.require_offered(found, license.customer_id, _now(work, command))


def _hand_over(
    work: LicenseWork, command: model.TransferCommand, license: License, transfer: model.Transfer
) -> model.Transfer:
    """Save the transfer; the other customer gets the license with a new key, without devices and leases."""
    before, after = transfer.from_customer_id, transfer.to_customer_id
    if transfer.undone_at is not None:
        before, after = after, before
    store.save_transfer(work.tx, transfer)
    delete_places(work.tx, license.id)
    recount_leases(work.tx, license.id, terms_of(license).max_leases)
    freed = replace(license, times_activated=0, uncounted_count=0, deactivated_count=0)
    if license.active_count:
        details = {"others": license.active_count}
        work.record_license_event("license.deactivated", freed, command, details=details)
    changes = {"key": draw_key_of(work, license), "customer_id": after}
    changed = licenses.apply_changes(work, command, freed, changes).license
    _record(work, command, "license.transferred", changed, transfer)
    mails = {MailTemplate.LICENSE_RECEIVED: after, MailTemplate.LICENSE_GIVEN: before}
    _queue(work, transfer, changed, mails)
    return transfer


def _record(
    work: LicenseWork, command: LicenseCommand, name: str, license: License, transfer: model.Transfer
) -> None:
    details: dict[str, Any] = {
        "transfer_id": transfer.id,
        "from_customer_id": transfer.from_customer_id,
        "to_customer_id": transfer.to_customer_id,
    }
    undone = {} if transfer.undone_at is None else {"is_undone": True}
    work.record_license_event(name, license, command, details=details | undone)


def _queue(
    work: LicenseWork, transfer: model.Transfer, license: License, mails: Mapping[MailTemplate, int]
) -> None:
    """Queue these mails about a transfer, each to its customer."""
    undone = "" if transfer.undone_at is None else " undone"
    for template, customer_id in mails.items():
        mail = QueuedMail(
            template=template,
            unique=f"transfer {transfer.id}{undone} {template.value}",
            customer_id=customer_id,
            product_id=license.product_id,
            subject=Subject(license_ids=(license.id,)),
        )
        queue_mail(work.tx, mail, transfer.undone_at or transfer.accepted_at or transfer.offered_at)


def _now(work: LicenseWork, command: Command) -> datetime:
    clock = work.tx.read_clock()
    return command.context.now if clock is None else clock.replace(microsecond=0)


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    model.ClaimLicense: claim,
    model.OfferLicense: offer,
    model.AcceptTransfer: accept,
    model.CancelTransfer: cancel,
    model.UndoTransfer: undo,
}


def list_transfers(read: Any, query: model.ListTransfers) -> tuple[int | None, list[model.Transfer]]:
    """Return the license's customer, and its transfers. Raises ``UnknownLicenseId``."""
    license = require_license(read.tx, query.license_id, query.only_product_id)
    return license.customer_id, store.list_transfers(read.tx, license.id)


def count_claims(read: Any, query: model.CountClaims) -> model.ClaimCounts:
    """Count the licenses that were claimed, and that were activated."""
    return store.count_claims(read.tx, query)


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    model.ListTransfers: list_transfers,
    model.CountClaims: count_claims,
}
