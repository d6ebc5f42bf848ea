"""Events in the database: functions over a transaction.

On PostgreSQL, a transaction gets the IDs of its events before it commits, so event 6 may be visible while 5
appears later, or never. A transaction that can still commit an event below the newest one already has a
transaction ID. If a transaction gets its ID after that, and later none with a smaller ID is running, all of
those have ended.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import BigInteger, ColumnElement, Text, cast, func, or_, select

from keywright.db.bulk import Values, bulk_insert, bulk_update, bulk_upsert
from keywright.db.rows import to_datetime, to_json, to_seconds
from keywright.db.schema import checkpoints, events, licenses
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.events.feed import FeedEvent
from keywright.events.model import Event

#: The name in ``checkpoints`` of the time (in seconds) before which events were deleted.
DELETED_BEFORE = "events_deleted_before"


def list_events(tx: ReadTransaction, license_id: int, *, limit: int) -> list[Event]:
    """Return the latest ``limit`` events of a license, latest first."""
    query = select(*EVENT).where(events.c.license_id == license_id).order_by(events.c.id.desc()).limit(limit)
    return [event_of(row) for row in tx.connection.execute(query)]


def find_event(tx: ReadTransaction, event_id: int) -> Event | None:
    """Return the event with this ID."""
    return tx.first(select(*EVENT).where(events.c.id == event_id), event_of)


def list_changes_at(
    tx: ReadTransaction, license_id: int, *, actor: str, at: datetime, limit: int
) -> list[Event]:
    """Return the last events of a license that an actor caused at a moment, oldest first."""
    is_one = (
        events.c.license_id == license_id,
        events.c.actor == actor,
        events.c.occurred_at == to_seconds(at),
    )
    query = select(*EVENT).where(*is_one).order_by(events.c.id.desc()).limit(limit)
    return [event_of(row) for row in tx.connection.execute(query)][::-1]


def save_events(tx: WriteTransaction, happened: Sequence[Event]) -> None:
    """Insert events into the audit log."""
    if tx.is_postgres and any(not one.license_id for one in happened):
        # The transaction needs its ID before its events get theirs; events of a license follow other writes.
        tx.connection.execute(BEGIN_TO_WRITE)
    values = list(map(event_values, happened))
    if not all(one.license_id for one in happened):
        values = [row | {"customer_id": customer_of(one)} for row, one in zip(values, happened, strict=True)]
    INSERT_EVENTS.execute(tx.connection, values)


def customer_of(event: Event) -> int | None:
    """Return the customer that the event itself is about, rather than its license."""
    details = event.details or {}
    is_name = event.name == "name.saved" and details.get("kind") == "customer"
    number = details.get("number") if is_name or event.name.startswith("customer.") else None
    return number if isinstance(number, int) else None


EVENT = [events.c[name] for name in Event.__struct_fields__]


def event_of(row: Sequence[Any]) -> Event:
    """Build the event of a row of ``EVENT``."""
    at, name, license_id, activation_id, actor, address, details = row
    decoded = None if details is None else msgspec.json.decode(details)
    return Event(to_datetime(at), name, license_id, activation_id, actor, address, decoded)


def event_values(event: Event) -> Values:
    """Return every column of the event except its ID and its customer."""
    return {
        "occurred_at": to_seconds(event.occurred_at),
        "name": event.name,
        "license_id": event.license_id,
        "activation_id": event.activation_id,
        "actor": event.actor,
        "ip_address": event.ip_address,
        "details": to_json(event.details),
    }


def find_checkpoint(tx: ReadTransaction, name: str) -> int:
    """Return the ID of the last row that the process with this name has read; 0 before the first."""
    query = select(checkpoints.c.last_id).where(checkpoints.c.name == name)
    return tx.connection.execute(query).scalar() or 0


def advance_checkpoint(tx: WriteTransaction, name: str, last_id: int) -> None:
    """Move a checkpoint forward, never back."""
    _ADVANCE.execute(tx.connection, [{"name": name, "last_id": last_id}])


_NEWEST = select(events.c.occurred_at).order_by(events.c.id.desc()).limit(1)
_ADVANCE = bulk_upsert(checkpoints, ["name"], largest=["last_id"])
INSERT_EVENTS = bulk_insert(events, without="id")
#: Assigns the transaction's ID, which otherwise happens at its first change. PostgreSQL only.
BEGIN_TO_WRITE = select(cast(func.pg_current_xact_id(), Text))


# --- the feed -------------------------------------------------------------------------------------


def list_feed(
    tx: ReadTransaction,
    *,
    after_id: int,
    until_id: int,
    license_id: int | None,
    limit: int,
    names: Collection[str] = ("*",),
) -> list[FeedEvent]:
    """Return the next events after an ID, up to another, of a license or of all, oldest first. In ``names``,
    a name that ends in ``*`` is a prefix.
    """
    query = _FEED.where(events.c.id > after_id, events.c.id <= until_id).limit(limit)
    if "*" not in names:
        starts = [events.c.name.startswith(one[:-1], autoescape=True) for one in names if one.endswith("*")]
        query = query.where(or_(events.c.name.in_([one for one in names if not one.endswith("*")]), *starts))
    if license_id is None:
        query = query.order_by(events.c.id)
    else:
        # The index on licenses has no IDs: ordered by the plain column, PostgreSQL would scan all events.
        query = query.where(events.c.license_id == license_id).order_by(events.c.id + 0)
    return [FeedEvent(row[0], event_of(row[1:-3]), *row[-3:]) for row in tx.connection.execute(query)]


_CUSTOMER = func.coalesce(licenses.c.customer_id, events.c.customer_id)
_FEED = select(
    *(events.c.id, *EVENT, _CUSTOMER, licenses.c.order_id, licenses.c.order_details)
).outerjoin_from(events, licenses, licenses.c.id == events.c.license_id)


def list_ids(tx: ReadTransaction, *, after_id: int, limit: int) -> list[int]:
    """Return the next event IDs after this one."""
    query = select(events.c.id).where(events.c.id > after_id).order_by(events.c.id).limit(limit)
    return list(tx.connection.execute(query).scalars())


def find_newest_id(tx: ReadTransaction) -> int:
    """Return the largest event ID, 0 if there is no event."""
    return int(tx.connection.execute(select(func.coalesce(func.max(events.c.id), 0))).scalar_one())


def find_newest_moment(tx: ReadTransaction) -> datetime | None:
    """Return the time of the newest event; None if there is no event."""
    return tx.first(_NEWEST, lambda row: to_datetime(row[0]))


def find_deletion_moment(tx: ReadTransaction) -> int:
    """Return the time, in seconds, before which old events may have been deleted."""
    return find_checkpoint(tx, DELETED_BEFORE)


#: Names in ``checkpoints``: the event up to which none can still be committed; the newest event when settling
#: began; and the transaction ID assigned after that, 0 while none is waited for.
_SETTLED, _SEEN, _AFTER = _NAMES = ("settled", "settled_seen", "settled_after")
_IS_OURS = checkpoints.c.name.in_(_NAMES)
_FIND = select(checkpoints.c.name, checkpoints.c.last_id).where(_IS_OURS)
_LOCK = select(checkpoints.c.name).where(checkpoints.c.name == _SETTLED).with_for_update(skip_locked=True)
_INSERT = bulk_upsert(checkpoints, ["name"])
_UPDATE = bulk_update(checkpoints, ["name"], ["last_id"])
_AT = select(checkpoints.c.last_id).where(checkpoints.c.name == _SETTLED).scalar_subquery()
#: Selects the events below which others may still appear.
UNSETTLED = select(events.c.id).where(events.c.id > func.coalesce(_AT, 0))


def _number(of_transaction: ColumnElement[object]) -> ColumnElement[int]:
    return cast(cast(of_transaction, Text), BigInteger)


_NEWEST_SETTLED = select(
    func.coalesce(func.max(events.c.id), 0), func.pg_current_xact_id_if_assigned().is_not(None)
).select_from(events)
_OLDEST = func.pg_snapshot_xmin(func.pg_current_snapshot())
_NUMBERS = select(_number(func.pg_current_xact_id()), _number(_OLDEST))


def find_settled_id(tx: ReadTransaction) -> int:
    """Return the ID up to which events are known to be settled. Later reads see all events up to it."""
    return find_checkpoint(tx, _SETTLED) if tx.is_postgres else find_newest_id(tx)


def settle(tx: WriteTransaction) -> int:
    """Advance the settled ID if possible, and return it: no event up to it can still be committed. It is not
    advanced in a transaction that has changed or locked something, or while another process is settling.
    """
    if not tx.is_postgres:
        # SQLite has one writer at a time.
        return find_newest_id(tx)
    newest, has_number = tx.connection.execute(_NEWEST_SETTLED).one()
    settled = find_settled_id(tx)
    if settled >= newest or has_number:
        return settled
    _INSERT.execute(tx.connection, [{"name": name, "last_id": 0} for name in _NAMES])
    if tx.connection.execute(_LOCK).first() is None:
        return settled
    before = {name: last_id for name, last_id in tx.connection.execute(_FIND)}
    after = _settle(before, newest, *tx.connection.execute(_NUMBERS).one())
    moved = [{"where_name": name, "last_id": after[name]} for name in _NAMES if after[name] != before[name]]
    _UPDATE.execute(tx.connection, moved)
    return after[_SETTLED]


def _settle(at: dict[str, int], newest: int, own: int, oldest: int) -> dict[str, int]:
    """Return the new checkpoints. ``own`` is the ID of this transaction, assigned after ``newest`` was the
    newest visible event; ``oldest`` is the smallest ID of a running transaction.
    """
    settled, seen, after = (at[name] for name in _NAMES)
    if 0 < after <= oldest:
        settled, after = max(settled, seen), 0
    # A larger ID comes from the server that this database was copied from.
    if not 0 < after <= own:
        seen, after = newest, own
        if own <= oldest:
            settled, after = max(settled, seen), 0
    return {_SETTLED: settled, _SEEN: seen, _AFTER: after}
