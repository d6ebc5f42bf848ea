"""Events in the database: functions over a transaction."""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    Row,
    Select,
    Text,
    cast,
    func,
    select,
)

from keywright.db import schema
from keywright.db.bulk import Values, bulk_insert
from keywright.db.rows import to_json, to_seconds, with_datetimes
from keywright.db.schema import events
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.events.model import Event


def list_events(tx: ReadTransaction, license_id: int, *, limit: int) -> list[Event]:
    """The latest ``limit`` events of a license, latest first."""
    query = latest_events(license_id, limit)
    return [event_of(row) for row in tx.connection.execute(query)]


def save_events(tx: WriteTransaction, happened: Sequence[Event]) -> None:
    """Add to the record of what happened."""
    if tx.is_postgres and any(not one.license_id for one in happened):
        # The transaction has a number before its events have; those of a license were written after it.
        tx.connection.execute(BEGIN_TO_WRITE)
    INSERT_EVENTS.execute(tx.connection, [event_values(one) for one in happened])


EVENT = [schema.events.c[name] for name in Event.__struct_fields__]


def event_of(row: Row[Any]) -> Event:
    """The event of a row of ``EVENT``."""
    values = with_datetimes(row)
    details = values["details"]
    return Event(**values | {"details": None if details is None else msgspec.json.decode(details)})


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


INSERT_EVENTS = bulk_insert(events, without="id")
#: Gives the transaction its number, which it gets with its first change otherwise. Only for PostgreSQL.
BEGIN_TO_WRITE = select(cast(func.pg_current_xact_id(), Text))


def latest_events(license_id: int, limit: int) -> Select[Any]:
    """The latest events of a license, latest first."""
    query = select(*EVENT).where(events.c.license_id == license_id)
    return query.order_by(events.c.id.desc()).limit(limit)
