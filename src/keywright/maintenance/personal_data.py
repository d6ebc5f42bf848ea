"""Personal data of customers: export it, erase it on request, and erase old addresses."""

from collections.abc import Callable
from typing import Any

import msgspec

from keywright.core.command import Command
from keywright.db import ReadTransaction
from keywright.events.model import Event
from keywright.events.unit_of_work import UnitOfWork
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses.model import License, LicenseFilter
from keywright.licensing.licenses.store import list_licenses
from keywright.maintenance import personal_data_store
from keywright.maintenance.commands import EraseCustomer, PurgeAddresses
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.store import names_of

#: How many activations, and how many events, are looked at, forgotten or erased in one transaction.
AT_ONCE = 250
_LICENSES_AT_ONCE = 100


class LicenseData(msgspec.Struct, frozen=True):
    """A license with its activations and events."""

    license: License
    activations: list[Activation]
    events: list[Event]


class CustomerData(msgspec.Struct, frozen=True):
    """Everything stored about a customer: the name, the events about it, and the licenses."""

    name: str | None
    namings: list[Event]
    licenses: list[LicenseData]


def find_customer_data(tx: ReadTransaction, customer_id: int) -> CustomerData:
    """Everything stored about the customer with this number."""
    found: list[LicenseData] = []
    after_id = 0
    own = LicenseFilter(customer_id=customer_id)
    while some := list_licenses(tx, own, after_id=after_id, limit=_LICENSES_AT_ONCE):
        found += [
            LicenseData(
                one,
                personal_data_store.list_activations_of(tx, one.id),
                personal_data_store.list_events_of(tx, one.id),
            )
            for one in some
        ]
        after_id = some[-1].id
    names = names_of(tx, NameKind.CUSTOMER, [customer_id])
    return CustomerData(names.get(customer_id), personal_data_store.list_name_events(tx, customer_id), found)


def erase_customer(work: UnitOfWork, command: EraseCustomer) -> bool:
    """Erase some of a customer's data; return whether all is erased. Licenses, counters and events stay."""
    if personal_data_store.erase_some(work.tx, command.customer_id, limit=AT_ONCE):
        return False
    personal_data_store.erase_name(work.tx, command.customer_id)
    work.record_event("customer.erased", command, {"number": command.customer_id})
    return True


def purge_addresses(work: UnitOfWork, command: PurgeAddresses) -> int:
    """Erase old addresses and user agents; return the number of events that were read."""
    personal_data_store.clear_activations(work.tx, command.places, command.before)
    return personal_data_store.purge_events(work.tx, command.before, limit=AT_ONCE)


HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {
    EraseCustomer: erase_customer,
    PurgeAddresses: purge_addresses,
}
