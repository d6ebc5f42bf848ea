"""Personal data of customers: erase it on request, and erase old addresses."""

from collections.abc import Callable
from typing import Any

from keywright.core.command import Command
from keywright.db import WriteTransaction
from keywright.events.unit_of_work import UnitOfWork
from keywright.licensing.refusals_store import forget_addresses
from keywright.licensing.undo.store import delete_of_customer
from keywright.maintenance import personal_data_store
from keywright.maintenance.commands import EraseCustomer, PurgeAddresses
from keywright.maintenance.personal_data_store import Erasure
from keywright.provisioning.portal.store import end_all
from keywright.provisioning.shops.forgetting_store import forget_customer, forget_events

#: How many activations, and how many events, are looked at, forgotten or erased in one transaction.
AT_ONCE = 250

#: What forgets a customer in other tables, each in a transaction with the last of what is erased.
_FORGET: tuple[Callable[[WriteTransaction, int], object], ...] = (
    *(delete_of_customer, end_all, forget_customer),
    *(personal_data_store.delete_mails, personal_data_store.clear_deliveries),
)


def erase_customer(work: UnitOfWork, command: EraseCustomer) -> Erasure:
    """Erase some of a customer's data. Licenses stay without their metadata; counters and events stay."""
    forget_events(work.tx, command.shop_event_ids)
    now = command.context.now
    erased = personal_data_store.erase_some(work.tx, command.customer_id, now, limit=AT_ONCE)
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
