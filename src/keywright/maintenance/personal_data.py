"""Personal data of customers: export it, erase it on request, and erase old addresses."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from keywright.core.command import Command
from keywright.core.errors import NotFound
from keywright.core.metadata import merge_metadata
from keywright.db import ReadTransaction, WriteTransaction
from keywright.events.model import Event
from keywright.events.unit_of_work import UnitOfWork
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses.model import License, LicenseFilter
from keywright.licensing.licenses.store import count_licenses, list_licenses
from keywright.licensing.refusals.store import forget_addresses
from keywright.licensing.undo.store import (
    count_deleted_of_customer,
    delete_of_customer,
    license_of,
    list_of_customer,
)
from keywright.maintenance import personal_data_store
from keywright.maintenance.commands import EraseCustomer, ExportCustomer, PurgeAddresses
from keywright.maintenance.personal_data_store import OF_VENDOR, Erasure
from keywright.provisioning.customers.model import Customer
from keywright.provisioning.customers.rules import change_note
from keywright.provisioning.customers.store import find_customer
from keywright.provisioning.portal.store import end_all
from keywright.provisioning.shops.forgetting_store import forget_customer, forget_events
from keywright.provisioning.shops.store import find_payload

#: How many activations, and how many events, are looked at, forgotten or erased in one transaction.
AT_ONCE = 250
_LICENSES_AT_ONCE = 100
#: The most mails, and the most events of shops, that are handed out.
_MAX_ROWS = 1_000

#: What forgets a customer in other tables, each in a transaction with the last of what is erased.
_FORGET: tuple[Callable[[WriteTransaction, int], object], ...] = (
    *(delete_of_customer, end_all, forget_customer),
    *(personal_data_store.delete_mails, personal_data_store.clear_deliveries),
)


class LicenseData(msgspec.Struct, frozen=True):
    """A license with its activations and events, and with its rows in other tables."""

    license: License
    activations: list[Activation]
    events: list[Event]
    others: dict[str, list[dict[str, Any]]]


class CustomerData(msgspec.Struct, frozen=True):
    """Everything stored about a customer: the customer, the events about it, the licenses, the latest mails,
    and the latest of what shops sent.
    """

    customer: Customer | None
    events: list[Event]
    licenses: list[LicenseData]
    mails: list[dict[str, Any]]
    shop_events: list[dict[str, Any]]


def find_customer_data(tx: ReadTransaction, customer_id: int, *, for_customer: bool = False) -> CustomerData:
    """Everything stored about the customer with this number; ``for_customer``, without what is the vendor's
    own: notes and tags, refused calls, what receivers of webhooks answered, and a shop's own words.
    """
    found: list[LicenseData] = []
    after_id = 0
    own = LicenseFilter(customer_id=customer_id)
    while some := list_licenses(tx, own, after_id=after_id, limit=_LICENSES_AT_ONCE):
        found += [
            LicenseData(
                one,
                personal_data_store.list_activations_of(tx, one.id),
                personal_data_store.list_events_of(tx, one.id),
                personal_data_store.list_other_rows_of(tx, one.id),
            )
            for one in some
        ]
        after_id = some[-1].id
    for license_id, snapshot in list_of_customer(tx, customer_id):
        events = personal_data_store.list_events_of(tx, license_id)
        found.append(LicenseData(license_of(snapshot, license_id), [], events, snapshot.rows))
    customer = find_customer(tx, customer_id)
    stored = CustomerData(
        customer,
        personal_data_store.list_customer_events(tx, customer_id),
        found,
        personal_data_store.list_mails_of(tx, customer_id, limit=_MAX_ROWS),
        [
            _with_payload(tx, one)
            for one in personal_data_store.list_shop_events_of(tx, customer_id, limit=_MAX_ROWS)
        ],
    )
    return _leave_out_vendors(stored) if for_customer else stored


def count_of_customer(tx: ReadTransaction, customer_id: int, *, most: int) -> int:
    """The number of the customer's licenses, with the deleted ones of which something is kept; of each of the
    two, no more than ``most`` are counted.
    """
    own = LicenseFilter(customer_id=customer_id)
    return count_licenses(tx, own, most=most) + count_deleted_of_customer(tx, customer_id, most=most)


def _with_payload(tx: ReadTransaction, event: dict[str, Any]) -> dict[str, Any]:
    """An event of a shop with what the shop sent; None once that was forgotten."""
    payload = find_payload(tx, event["id"])
    return event | {"body": None if payload is None else payload.body.decode(errors="replace")}


def _leave_out_vendors(found: CustomerData) -> CustomerData:
    """The same without what tells of the vendor's people and servers."""
    customer = found.customer
    if customer is not None:
        customer = replace(customer, metadata=merge_metadata(customer.metadata, change_note(None)))
    licenses = [
        replace(
            one,
            events=[event for event in one.events if event.name != "license.noted"],
            others={name: rows for name, rows in one.others.items() if name not in OF_VENDOR},
        )
        for one in found.licenses
    ]
    shop_events = [{name: one[name] for name in one if name != "body"} for one in found.shop_events]
    return replace(found, customer=customer, licenses=licenses, shop_events=shop_events)


def export_customer(read: Any, query: ExportCustomer) -> CustomerData:
    """Everything stored about a customer. Raises ``NotFound`` where that is nothing."""
    found = find_customer_data(read.tx, query.customer_id)
    if found.customer is None and not (found.licenses or found.mails or found.shop_events):
        raise NotFound(f"customer {query.customer_id}")
    return found


def erase_customer(work: UnitOfWork, command: EraseCustomer) -> Erasure:
    """Erase some of a customer's data. Licenses stay without their metadata; counters and events stay."""
    forget_events(work.tx, command.shop_event_ids)
    erased = personal_data_store.erase_some(work.tx, command.customer_id, limit=AT_ONCE)
    if command.is_step or erased.total >= AT_ONCE:
        return erased
    for forget in _FORGET:
        forget(work.tx, command.customer_id)
    personal_data_store.erase_name(work.tx, command.customer_id)
    work.record_event("customer.erased", command, {"number": command.customer_id})
    return erased._replace(is_complete=True)


def purge_addresses(work: UnitOfWork, command: PurgeAddresses) -> int:
    """Erase old addresses and user agents, also some of refused calls; return how many events were read."""
    personal_data_store.clear_activations(work.tx, command.places, command.before)
    forget_addresses(work.tx, command.before)
    return personal_data_store.purge_events(work.tx, command.before, limit=AT_ONCE)


HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {
    EraseCustomer: erase_customer,
    PurgeAddresses: purge_addresses,
}
