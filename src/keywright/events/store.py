"""Events in the database: functions over a transaction."""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Text, cast, func, select

from keywright.db.bulk import Values, bulk_insert, bulk_upsert
from keywright.db.rows import to_datetime, to_json, to_seconds
from keywright.db.schema import checkpoints, events
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.events.model import Event


def list_events(tx: ReadTransaction, license_id: int, *, limit: int) -> list[Event]:
    """The latest ``limit`` events of a license, latest first."""
    query = select(*EVENT).where(events.c.license_id == license_id).order_by(events.c.id.desc()).limit(limit)
    return [event_of(row) for row in tx.connection.execute(query)]


def save_events(tx: WriteTransaction, happened: Sequence[Event]) -> None:
    """Add to the record of what happened."""
    if tx.is_postgres and any(not one.license_id for one in happened):
        # The transaction has a number before its events have; those of a license were written after it.
        tx.connection.execute(BEGIN_TO_WRITE)
    INSERT_EVENTS.execute(tx.connection, list(map(event_values, happened)))


EVENT = [events.c[name] for name in Event.__struct_fields__]


def event_of(row: Sequence[Any]) -> Event:
    """The event of a row of ``EVENT``."""
    at, name, license_id, activation_id, actor, address, details = row
    decoded = None if details is None else msgspec.json.decode(details)
    return Event(to_datetime(at), name, license_id, activation_id, actor, address, decoded)


def event_values(event: Event) -> Values:
    """Every column of the event but its number."""
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
    """The last row that the process of this name has read; 0 before the first."""
    query = select(checkpoints.c.last_id).where(checkpoints.c.name == name)
    return tx.connection.execute(query).scalar() or 0


def advance_checkpoint(tx: WriteTransaction, name: str, last_id: int) -> None:
    """Move a checkpoint forward, never back."""
    _ADVANCE.execute(tx.connection, [{"name": name, "last_id": last_id}])


_ADVANCE = bulk_upsert(checkpoints, ["name"], largest=["last_id"])
INSERT_EVENTS = bulk_insert(events, without="id")
#: Gives the transaction its number, which it gets with its first change otherwise. Only for PostgreSQL.
BEGIN_TO_WRITE = select(cast(func.pg_current_xact_id(), Text))
