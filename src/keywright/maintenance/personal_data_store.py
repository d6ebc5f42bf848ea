"""Find and erase personal data: addresses, user agents, labels and device data that programs sent, names and
e-mail addresses of customers, holders of leases, and license metadata. The columns are ``OF_ACTIVATIONS``,
the IP address of events, the e-mail address of trials, the holder of leases, and the metadata.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from sqlalchemy import ColumnElement, Row, Select, and_, delete, exists, func, or_, select, tuple_, update

from keywright.db import rows
from keywright.db.bulk import Lookup, Values, bulk_delete, bulk_update
from keywright.db.schema import (
    activations,
    customers,
    deleted_licenses,
    events,
    last_seen,
    leases,
    license_claims,
    license_moments,
    license_notes,
    license_tags,
    license_transfers,
    licenses,
    mail_outbox,
    meter_usage,
    new_devices,
    notice_recipients,
    past_usage,
    portal_removals,
    refusals,
    search_terms,
    shop_events,
    trials,
    webhook_deliveries,
)
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.events.feed import FeedEvent
from keywright.events.store import EVENT, advance_checkpoint, event_of, find_checkpoint, list_feed
from keywright.licensing.activations.model import Activation
from keywright.licensing.activations.store import ACTIVATION, activation_of
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import lock_terms, save_terms
from keywright.search.terms_store import address_term, label_term, lock_projection

#: An activation, given by its license ID and token.
Place = tuple[int, str]

#: The columns of an activation to erase, and their values once erased: in old activations, and on request.
_OLD: Values = {"ip_address": "", "user_agent": ""}
OF_ACTIVATIONS: Values = _OLD | {"label": None, "meta_data": None}

#: The name, in ``checkpoints``, of the last event whose address was erased because it was old.
_CHECKPOINT = "addresses_forgotten"
_PLACE = (activations.c.license_id, activations.c.token)
_COLUMNS = tuple(activations.c[name] for name in ("id", "deactivated_at", *OF_ACTIVATIONS))
_PLACES = Lookup(select(*_PLACE, *_COLUMNS), *_PLACE)
_LOCKED = Lookup(select(licenses.c.id).order_by(licenses.c.id).with_for_update(), licenses.c.id)
_CLEAR = bulk_update(activations, ["license_id", "token"], list(_OLD))
_ERASE = bulk_update(activations, ["license_id", "token"], list(OF_ACTIVATIONS))
_ERASE_METADATA = bulk_update(licenses, ["id"], ["metadata"])
_DELETE_TERMS = bulk_delete(search_terms, "term", "license_id", "activation_id")
_ERASE_EVENTS = bulk_update(events, ["id"], ["ip_address", "details"])
#: The details of an event that describe a device.
_OF_DEVICE = ("name", "app_version")
_NAMES_DEVICE = [
    and_(events.c.activation_id.is_not(None), events.c.details.contains(f'"{name}":')) for name in _OF_DEVICE
]
#: Other tables with data about a license.
_OTHERS = (
    *(last_seen, leases, license_notes, license_tags, meter_usage),
    *(new_devices, past_usage, portal_removals, refusals, trials),
    *(license_claims, license_moments, license_transfers, webhook_deliveries),
)
#: The tables among these about the vendor's people and servers: customers may not see them.
OF_VENDOR = frozenset(one.name for one in (license_notes, license_tags, refusals, webhook_deliveries))
#: The exported columns of a customer's mails, shop events and notices.
_MAIL_COLUMNS = [mail_outbox.c[name] for name in "template language state created_at finished_at".split()]
_SHOP_COLUMNS = [shop_events.c[name] for name in "id connection_id name order_ref state received_at".split()]
_NOTICE_COLUMNS = [
    notice_recipients.c[name] for name in "notice_id email app_version state created_at".split()
]
#: An upper bound for event IDs.
_NEWEST = 2**63 - 1
_NOT_SHOWN = ("license_id", "fingerprint_hmac", "sealed_fingerprint")


class Erasure(NamedTuple):
    """How many of each kind were erased; ``is_complete`` means that nothing is left."""

    activations: int = 0
    events: int = 0
    licenses: int = 0
    leases: int = 0
    trials: int = 0
    is_complete: bool = False

    @property
    def total(self) -> int:
        """The sum of the counts."""
        return sum(self[:-1])


class Places(NamedTuple):
    """Some activations, and the one after which to continue, None at the end."""

    found: list[Place]
    after: Place | None


# --- what is old ----------------------------------------------------------------------------------


def find_old_places(tx: ReadTransaction, before: datetime, *, after: Place, limit: int) -> Places:
    """Find, among the next ``limit`` activations, those given up before this moment whose address or user
    agent is still stored.
    """
    query = select(*_PLACE, *_COLUMNS).where(tuple_(*_PLACE) > tuple_(*after)).order_by(*_PLACE).limit(limit)
    found = list(tx.connection.execute(query))
    old = [(one.license_id, one.token) for one in found if _is_old(one, before)]
    last = found[-1] if len(found) == limit else None
    return Places(old, None if last is None else (last.license_id, last.token))


def clear_activations(tx: WriteTransaction, places: Sequence[Place], before: datetime) -> None:
    """Erase the addresses and user agents of those of these activations that are still old."""
    if not places:
        return
    # Lock the licenses, as all code that changes activations does.
    _LOCKED.find_rows(tx.connection, {license_id for license_id, _ in places})
    old = [one for one in _PLACES.find_rows(tx.connection, places) if _is_old(one, before)]
    _drop_terms(tx, [(address_term(one.ip_address), one.license_id, one.id) for one in old if one.ip_address])
    _CLEAR.execute(tx.connection, [_at(one) | _OLD for one in old])


def has_old_events(tx: ReadTransaction, before: datetime) -> bool:
    """Whether an event before this moment still has its address."""
    is_left = events.c.id > find_checkpoint(tx, _CHECKPOINT)
    query = select(events.c.occurred_at).where(is_left).order_by(events.c.id).limit(1)
    at = tx.connection.execute(query).scalar()
    return at is not None and at < rows.to_seconds(before)


def purge_events(tx: WriteTransaction, before: datetime, *, limit: int) -> int:
    """Erase addresses and device data in the next events, up to the last one before this moment; return how
    many events were read.
    """
    last_id = find_checkpoint(tx, _CHECKPOINT)
    query = (
        select(events.c.id, events.c.occurred_at)
        .where(events.c.id > last_id)
        .order_by(events.c.id)
        .limit(limit)
    )
    found = list(tx.connection.execute(query))
    # Clocks jump: an event that seems younger than a later one is at least as old.
    last = max((i for i, one in enumerate(found) if one.occurred_at < rows.to_seconds(before)), default=-1)
    if last < 0:
        return 0
    _erase_events(tx, and_(events.c.id > last_id, events.c.id <= found[last].id), limit=limit)
    advance_checkpoint(tx, _CHECKPOINT, found[last].id)
    return last + 1


def _is_old(place: Row[Any], before: datetime) -> bool:
    is_given_up = place.deactivated_at is not None and place.deactivated_at < rows.to_seconds(before)
    return is_given_up and bool(place.ip_address or place.user_agent)


# --- a customer -----------------------------------------------------------------------------------


def list_activations_of(tx: ReadTransaction, license_id: int) -> list[Activation]:
    """All activations of the license, by ID."""
    query = select(*ACTIVATION).where(activations.c.license_id == license_id)
    found = map(activation_of, tx.connection.execute(query))
    return sorted(found, key=lambda one: one.id)


def list_events_of(tx: ReadTransaction, license_id: int, *, after_id: int, limit: int) -> list[FeedEvent]:
    """The license's next events after an ID, oldest first, without the addresses of the vendor's users."""
    found = list_feed(tx, after_id=after_id, until_id=_NEWEST, license_id=license_id, limit=limit)
    return [_without_address(one) if one.event.actor.startswith("user:") else one for one in found]


def list_other_rows_of(tx: ReadTransaction, license_id: int) -> dict[str, list[dict[str, Any]]]:
    """The rows about the license in other tables, by table name."""
    return {
        table.name: [
            rows.with_datetimes(row)
            for row in tx.connection.execute(
                select(*(one for one in table.c if one.name not in _NOT_SHOWN)).where(
                    table.c.license_id == license_id
                )
            )
        ]
        for table in _OTHERS
    }


def find_handed_over(tx: ReadTransaction, license_id: int) -> int:
    """The ID of the event that transferred the license to its current customer; 0 if it never was
    transferred. Earlier events belong to earlier customers.
    """
    is_its = (events.c.license_id == license_id, events.c.name == "license.transferred")
    return int(tx.connection.execute(select(func.max(events.c.id)).where(*is_its)).scalar_one() or 0)


def list_mails_of(tx: ReadTransaction, customer_id: int, *, limit: int) -> list[dict[str, Any]]:
    """The latest mails to the customer; their texts are not stored."""
    query = select(*_MAIL_COLUMNS).where(mail_outbox.c.customer_id == customer_id)
    return _list_latest(tx, query.order_by(mail_outbox.c.id.desc()), limit)


def list_shop_events_of(tx: ReadTransaction, customer_id: int, *, limit: int) -> list[dict[str, Any]]:
    """The latest events that shops sent about the customer, without their payloads."""
    query = select(*_SHOP_COLUMNS).where(shop_events.c.customer_id == customer_id)
    return _list_latest(tx, query.order_by(shop_events.c.id.desc()), limit)


def list_notices_of(tx: ReadTransaction, customer_id: int, *, limit: int) -> list[dict[str, Any]]:
    """The latest notices sent to the customer."""
    query = select(*_NOTICE_COLUMNS).where(notice_recipients.c.customer_id == customer_id)
    return _list_latest(tx, query.order_by(notice_recipients.c.id.desc()), limit)


def _list_latest(tx: ReadTransaction, query: Select[Any], limit: int) -> list[dict[str, Any]]:
    """The first ``limit`` rows of a query, in reverse order."""
    found = [rows.with_datetimes(row) for row in tx.connection.execute(query.limit(limit))]
    return found[::-1]


def list_customer_events(
    tx: ReadTransaction, customer_id: int, *, after_id: int, limit: int
) -> list[FeedEvent]:
    """The next events about the customer after an ID, oldest first, with addresses only in events that the
    customer caused: other addresses are those of the vendor's users.
    """
    is_next = and_(events.c.customer_id == customer_id, events.c.id > after_id)
    query = select(events.c.id, *EVENT).where(is_next).order_by(events.c.id).limit(limit)
    found = [FeedEvent(row[0], event_of(row[1:])) for row in tx.connection.execute(query)]
    own = f"customer:{customer_id}"
    return [one if one.event.actor == own else _without_address(one) for one in found]


def _without_address(found: FeedEvent) -> FeedEvent:
    return replace(found, event=replace(found.event, ip_address=""))


def erase_name(tx: WriteTransaction, customer_id: int) -> None:
    """Erase the customer's fields, its former names in events, and the addresses in events that it caused."""
    names = ("name", "email", "email_folded", "email_verified_at", "metadata", "language", "external_id")
    nothing = dict.fromkeys((*names, "erasure_requested_at"))
    before = lock_terms(tx, NameKind.CUSTOMER, customer_id)
    tx.connection.execute(update(customers).where(customers.c.id == customer_id).values(nothing))
    save_terms(tx, NameKind.CUSTOMER, customer_id, before)
    is_named = and_(events.c.customer_id == customer_id, events.c.name == "name.saved")
    name_alone = rows.to_json({"kind": NameKind.CUSTOMER, "number": customer_id})
    tx.connection.execute(update(events).where(is_named).values(details=name_alone))
    is_own = and_(events.c.customer_id == customer_id, events.c.actor == f"customer:{customer_id}")
    tx.connection.execute(update(events).where(is_own).values(ip_address=""))


def delete_mails(tx: WriteTransaction, customer_id: int) -> None:
    """Delete the customer's mails, waiting and sent ones."""
    tx.connection.execute(delete(mail_outbox).where(mail_outbox.c.customer_id == customer_id))


def clear_deliveries(tx: WriteTransaction, customer_id: int) -> None:
    """Erase the webhook receivers' answers about the customer's licenses: they may contain the name. A
    repeated delivery is built from what is stored by then.
    """
    own = select(licenses.c.id).where(licenses.c.customer_id == customer_id)
    of_own = and_(webhook_deliveries.c.license_id.in_(own), webhook_deliveries.c.answer.is_not(None))
    tx.connection.execute(update(webhook_deliveries).where(of_own).values(answer=None))


def erase_some(tx: WriteTransaction, customer_id: int, now: datetime, *, limit: int) -> Erasure:
    """Erase personal data, and its search terms, in at most ``limit`` activations, events and licenses each,
    and in all ended leases and trials of the customer. A current lease needs its holder.
    """
    own = select(licenses.c.id).where(licenses.c.customer_id == customer_id)
    personal = or_(*(_is_set(name) for name in OF_ACTIVATIONS))
    query = select(*_PLACE).where(activations.c.license_id.in_(own), personal).limit(limit)
    places = [(row.license_id, row.token) for row in tx.connection.execute(query)]
    if places:
        _erase_activations(tx, places)
    deleted = select(deleted_licenses.c.license_id).where(deleted_licenses.c.customer_id == customer_id)
    handed_on = exists().where(
        license_transfers.c.license_id == events.c.license_id,
        license_transfers.c.from_customer_id == customer_id,
        license_transfers.c.accepted_at >= events.c.occurred_at,
    )
    own_events = or_(events.c.license_id.in_(own.union(deleted)), handed_on)
    happened = _erase_events(tx, own_events, limit=limit)
    is_over = or_(leases.c.ended_at.is_not(None), leases.c.expires_at <= rows.to_seconds(now))
    own_leases = and_(leases.c.license_id.in_(own), is_over, leases.c.holder != "")
    for table in (refusals, license_notes):
        tx.connection.execute(delete(table).where(table.c.license_id.in_(own)))
    # A receiver's answer may repeat what it was sent.
    answered = and_(webhook_deliveries.c.license_id.in_(own), webhook_deliveries.c.answer.is_not(None))
    tx.connection.execute(update(webhook_deliveries).where(answered).values(answer=None))
    own_trials = and_(trials.c.license_id.in_(own), trials.c.email.is_not(None))
    return Erasure(
        activations=len(places),
        events=happened,
        licenses=_erase_metadata(tx, customer_id, limit),
        leases=tx.connection.execute(update(leases).where(own_leases).values(holder="")).rowcount,
        trials=tx.connection.execute(update(trials).where(own_trials).values(email=None)).rowcount,
    )


def _erase_events(tx: WriteTransaction, of: ColumnElement[bool], *, limit: int) -> int:
    """Erase the addresses and device data in some of these events; return how many had any."""
    query = select(events.c.id, events.c.details).where(of, or_(events.c.ip_address != "", *_NAMES_DEVICE))
    found = tx.connection.execute(query.limit(limit)).all()
    _ERASE_EVENTS.execute(tx.connection, [_without_device(row) for row in found])
    return len(found)


def _without_device(row: Row[Any, Any]) -> Values:
    details = None if row.details is None else msgspec.json.decode(row.details)
    if isinstance(details, dict):
        details = {name: value for name, value in details.items() if name not in _OF_DEVICE} or None
    return {"where_id": row.id, "ip_address": "", "details": rows.to_json(details)}


def _erase_metadata(tx: WriteTransaction, customer_id: int, limit: int) -> int:
    # An import stores everything here that the shop has about a license; which of it is personal is unknown.
    has_metadata = and_(licenses.c.customer_id == customer_id, licenses.c.metadata.is_not(None))
    numbers = list(tx.connection.execute(select(licenses.c.id).where(has_metadata).limit(limit)).scalars())
    if numbers:
        _LOCKED.find_rows(tx.connection, numbers)
        _ERASE_METADATA.execute(tx.connection, [{"where_id": number, "metadata": None} for number in numbers])
    return len(numbers)


def _erase_activations(tx: WriteTransaction, places: Sequence[Place]) -> None:
    _LOCKED.find_rows(tx.connection, {license_id for license_id, _ in places})
    found = _PLACES.find_rows(tx.connection, places)
    terms = [(address_term(one.ip_address), one) for one in found if one.ip_address]
    terms += [(label_term(one.label), one) for one in found if one.label]
    _drop_terms(tx, [(term, one.license_id, one.id) for term, one in terms])
    _ERASE.execute(tx.connection, [_at(one) | OF_ACTIVATIONS for one in found])


def _is_set(name: str) -> ColumnElement[bool]:
    column, nothing = activations.c[name], OF_ACTIVATIONS[name]
    return column.is_not(None) if nothing is None else column != nothing


def _drop_terms(tx: WriteTransaction, found: list[tuple[str, int, int]]) -> None:
    # The projection must not concurrently write the same terms from what it read earlier.
    lock_projection(tx)
    _DELETE_TERMS.execute(
        tx.connection,
        [
            {"where_term": term, "where_license_id": license_id, "where_activation_id": number}
            for term, license_id, number in sorted(set(found))
        ],
    )


def _at(place: Row[Any]) -> Values:
    return {"where_license_id": place.license_id, "where_token": place.token}
