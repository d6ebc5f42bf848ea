"""Personal data of customers: export it, erase it on request, and erase old addresses."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from keywright.core.command import Command, Query
from keywright.core.errors import NotFound, TooMuchStored
from keywright.core.metadata import change_fields
from keywright.db import ReadTransaction, WriteTransaction
from keywright.events.feed import FeedEvent
from keywright.events.model import Event
from keywright.events.unit_of_work import UnitOfWork
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses.model import License, LicenseFilter
from keywright.licensing.licenses.store import count_licenses, list_licenses
from keywright.licensing.store import forget_addresses
from keywright.licensing.undo.store import (
    count_deleted_of_customer,
    delete_of_customer,
    license_of,
    list_of_customer,
)
from keywright.licensing.updates.notices_store import forget_customer as forget_recipient
from keywright.maintenance import personal_data_store
from keywright.maintenance import personal_data_store as store
from keywright.maintenance.personal_data_store import OF_VENDOR, Erasure
from keywright.maintenance.tasks import EraseCustomer, ExportCustomer, PurgeAddresses, RequireCustomerData
from keywright.provisioning.customers import Customer, CustomerFields, change_note
from keywright.provisioning.portal.store import end_all
from keywright.provisioning.shops.commands import FindShopEventsNaming
from keywright.provisioning.shops.later_store import forget_customer, forget_events
from keywright.provisioning.shops.model import Naming
from keywright.provisioning.shops.store import find_payload
from keywright.provisioning.store import CUSTOMERS

#: How many activations, and how many events, a transaction reads or erases.
AT_ONCE = 250

#: The functions that erase a customer from other tables, all in the transaction of the last step.
_FORGET: tuple[Callable[[WriteTransaction, int], object], ...] = (
    *(delete_of_customer, end_all, forget_customer),
    *(personal_data_store.delete_mails, personal_data_store.clear_deliveries),
)


def erase_customer(work: UnitOfWork, command: EraseCustomer) -> Erasure:
    """Erase some of a customer's data. Keep licenses without their metadata, and counters and events."""
    forget_events(work.tx, command.shop_event_ids)
    now = command.context.now
    erased = personal_data_store.erase_some(work.tx, command.customer_id, now, limit=AT_ONCE)
    if command.is_step or erased.total >= AT_ONCE:
        return erased
    for forget in _FORGET:
        forget(work.tx, command.customer_id)
    personal_data_store.erase_name(work.tx, command.customer_id)
    # After the customer was changed: then what a concurrent notification job committed is visible.
    forget_recipient(work.tx, command.customer_id)
    work.record_event("customer.erased", command, {"number": command.customer_id})
    return erased._replace(is_complete=True)


def erase_all(
    find: Callable[[FindShopEventsNaming], Naming],
    change: Callable[[EraseCustomer], Erasure],
    command: EraseCustomer,
) -> None:
    """Erase a customer's data in steps, each in a transaction; run it again if it was interrupted."""
    after_id: int | None = 0
    while after_id is not None:
        naming = find(FindShopEventsNaming(customer_id=command.customer_id, after_id=after_id))
        if naming.event_ids:
            change(msgspec.structs.replace(command, is_step=True, shop_event_ids=naming.event_ids))
        after_id = naming.after_id
    while not change(command).is_complete:
        pass


def purge_addresses(work: UnitOfWork, command: PurgeAddresses) -> int:
    """Erase some old addresses and user agents, also of refused calls; return how many events were read."""
    personal_data_store.clear_activations(work.tx, command.places, command.before)
    forget_addresses(work.tx, command.before)
    return personal_data_store.purge_events(work.tx, command.before, limit=AT_ONCE)


HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {
    EraseCustomer: erase_customer,
    PurgeAddresses: purge_addresses,
}


#: The maximum number of licenses, and of rows of all kinds, in one answer, which is built in memory.
MAX_LICENSES = 1_000
MAX_ROWS = 20_000
#: A payload from a shop counts as one more row per this many bytes.
_BYTES_A_ROW = 1_000
#: The maximum number of mails, of shop events and of notices to export.
_MAX_LATEST = 1_000
#: How many licenses, and how many events, are read per query.
_LICENSES_AT_ONCE = 100
_EVENTS_AT_ONCE = 1_000

Result = TypeVar("Result")
Row = TypeVar("Row")
Rows = list[dict[str, Any]]


class Read(Protocol):
    """Runs a read in a transaction."""

    def __call__(self, question: Callable[[ReadTransaction], Result], /) -> Result:
        """The result."""


class LicensePieces(NamedTuple):
    """A license, its activations and events, and its rows in other tables."""

    license: License
    activations: list[Activation]
    events: Iterator[Event]
    others: dict[str, Rows]


class CustomerPieces(NamedTuple):
    """Everything stored about a customer: the customer, its events and licenses, and the latest mails, shop
    events and notices. The iterators read lazily.
    """

    customer: Customer | None
    events: Iterator[Event]
    licenses: Iterator[LicensePieces]
    mails: Rows
    shop_events: Iterator[dict[str, Any]]
    notices: Rows


class LicenseData(msgspec.Struct, frozen=True):
    """``LicensePieces`` in memory."""

    license: License
    activations: list[Activation]
    events: list[Event]
    others: dict[str, Rows]


class CustomerData(msgspec.Struct, frozen=True):
    """``CustomerPieces`` in memory."""

    customer: Customer | None
    events: list[Event]
    licenses: list[LicenseData]
    mails: Rows
    shop_events: Rows
    notices: Rows


def read_pieces(read: Read, customer_id: int, *, for_customer: bool = False) -> CustomerPieces:
    """Read everything stored about a customer. With ``for_customer``, omit the vendor's own data: notes and
    tags, refused calls, answers of webhook receivers, and shop payloads.
    """
    customer = read(lambda tx: CUSTOMERS.find(tx, customer_id))
    if customer is not None and for_customer:
        customer = change_fields(customer, CustomerFields(metadata=change_note(None)))
    licenses = chain(_read_licenses(read, customer_id), _read_deleted(read, customer_id))
    sent = read(lambda tx: store.list_shop_events_of(tx, customer_id, limit=_MAX_LATEST))
    return CustomerPieces(
        customer,
        _read_events(read, partial(store.list_customer_events, customer_id=customer_id)),
        map(_without_vendors, licenses) if for_customer else licenses,
        read(lambda tx: store.list_mails_of(tx, customer_id, limit=_MAX_LATEST)),
        iter(sent) if for_customer else (read(partial(_with_payload, event=one)) for one in sent),
        read(lambda tx: store.list_notices_of(tx, customer_id, limit=_MAX_LATEST)),
    )


def find_customer_data(tx: ReadTransaction, customer_id: int, *, for_customer: bool = False) -> CustomerData:
    """Like ``read_pieces``, but in memory, as one snapshot. Raises ``TooMuchStored`` for more than
    ``MAX_LICENSES`` or ``MAX_ROWS``.
    """
    own = LicenseFilter(customer_id=customer_id)
    most = MAX_LICENSES + 1
    if count_licenses(tx, own, most=most) + count_deleted_of_customer(tx, customer_id, most=most) >= most:
        raise TooMuchStored
    found = read_pieces(lambda question: question(tx), customer_id, for_customer=for_customer)
    room = _Room(MAX_ROWS)
    return CustomerData(
        found.customer,
        room.take(found.events),
        [
            LicenseData(
                one.license,
                room.take(one.activations),
                room.take(one.events),
                {name: room.take(rows) for name, rows in one.others.items()},
            )
            for one in found.licenses
        ],
        room.take(found.mails),
        room.take(found.shop_events, _rows_in),
        room.take(found.notices),
    )


class _Room:
    """The remaining capacity, in rows."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self, some: Iterable[Row], count: Callable[[Row], int] = lambda _: 1) -> list[Row]:
        """Collect these rows. Raises ``TooMuchStored``, without reading the rest, if they are too many."""
        taken = []
        for one in some:
            self._left -= count(one)
            if self._left < 0:
                raise TooMuchStored
            taken.append(one)
        return taken


def _read_licenses(read: Read, customer_id: int) -> Iterator[LicensePieces]:
    own, after_id = LicenseFilter(customer_id=customer_id), 0
    while some := read(partial(list_licenses, where=own, after_id=after_id, limit=_LICENSES_AT_ONCE)):
        for one in some:
            yield LicensePieces(
                one,
                read(partial(store.list_activations_of, license_id=one.id)),
                _read_events(
                    read,
                    partial(store.list_events_of, license_id=one.id),
                    read(partial(store.find_handed_over, license_id=one.id)),
                ),
                read(partial(store.list_other_rows_of, license_id=one.id)),
            )
        after_id = some[-1].id


def _read_deleted(read: Read, customer_id: int) -> Iterator[LicensePieces]:
    after_id = 0
    while some := read(partial(list_of_customer, customer_id=customer_id, after_id=after_id, limit=1)):
        ((after_id, snapshot),) = some
        events = _read_events(read, partial(store.list_events_of, license_id=after_id))
        yield LicensePieces(license_of(snapshot, after_id), [], events, snapshot.rows)


def _read_events(read: Read, list_some: Callable[..., list[FeedEvent]], after_id: int = 0) -> Iterator[Event]:
    """Yield the events of a list after this ID, read in parts."""
    while some := read(partial(list_some, after_id=after_id, limit=_EVENTS_AT_ONCE)):
        yield from (one.event for one in some)
        after_id = some[-1].id
        if len(some) < _EVENTS_AT_ONCE:
            return


def _rows_in(sent: dict[str, Any]) -> int:
    """The number of rows that a shop event counts as."""
    return 1 + len(sent.get("body") or "") // _BYTES_A_ROW


def _with_payload(tx: ReadTransaction, event: dict[str, Any]) -> dict[str, Any]:
    """A shop event with the payload as ``body``, None once that was erased."""
    payload = find_payload(tx, event["id"])
    return event | {"body": None if payload is None else payload.body.decode(errors="replace")}


def _without_vendors(found: LicensePieces) -> LicensePieces:
    """Omit what reveals the vendor's people and servers."""
    return found._replace(
        events=(one for one in found.events if one.name != "license.noted"),
        others={name: rows for name, rows in found.others.items() if name not in OF_VENDOR},
    )


def export_customer(read: Any, query: ExportCustomer) -> CustomerData:
    """What is stored about a customer. Raises ``NotFound`` if that is nothing, and ``TooMuchStored``."""
    found = find_customer_data(read.tx, query.customer_id)
    if found.customer is None and not (found.licenses or found.mails or found.shop_events):
        raise NotFound(f"customer {query.customer_id}")
    return found


def require_customer_data(read: Any, query: RequireCustomerData) -> None:
    """Raise ``NotFound`` if nothing is stored about a customer."""
    number = query.customer_id
    is_there = (
        CUSTOMERS.find(read.tx, number)
        or count_licenses(read.tx, LicenseFilter(customer_id=number), most=1)
        or count_deleted_of_customer(read.tx, number, most=1)
        or store.list_mails_of(read.tx, number, limit=1)
        or store.list_shop_events_of(read.tx, number, limit=1)
    )
    if not is_there:
        raise NotFound(f"customer {number}")


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    ExportCustomer: export_customer,
    RequireCustomerData: require_customer_data,
}
