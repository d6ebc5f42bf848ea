"""Database access for connections and the events of shops."""

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa

from keywright.core.nouns import ItemPage
from keywright.db.bulk import Values, insert_or
from keywright.db.rows import (
    Records,
    is_due,
    read_page,
    to_datetime,
    to_optional_seconds,
    to_seconds,
)
from keywright.db.schema import connections, shop_events
from keywright.db.sealed_columns import connection_associated_data, shop_event_associated_data
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.engine.queue import Kind
from keywright.provisioning.shops import model
from keywright.provisioning.shops.commands import ListShopEvents
from keywright.provisioning.shops.event_rules import LONGEST_DELAY, to_milliseconds

#: The largest number of connections of an installation.
MAX_CONNECTIONS = 200
#: The largest number of rows that a step reads or deletes.
AT_ONCE = 50
#: The largest number of events that are deleted together with their connection.
_MAX_DELETED = 500
CONNECTIONS = Records(connections, model.Connection)
list_connections, find_connection = CONNECTIONS.list_all, CONNECTIONS.find
lock_connection, save_connection = CONNECTIONS.lock, CONNECTIONS.update
_EVENT = [shop_events.c[name] for name in model.StoredEvent.__struct_fields__]
_OPENED = CONNECTIONS.all.add_columns(connections.c.sealed_secret, connections.c.sealed_api_key).where(
    connections.c.id == sa.bindparam("id")
)
_EVENT_BY_ID = sa.select(*_EVENT).where(shop_events.c.id == sa.bindparam("id"))
_LOCKED_EVENT = _EVENT_BY_ID.with_for_update()
_PAYLOAD = sa.select(shop_events.c.sealed_payload).where(shop_events.c.id == sa.bindparam("id"))
_SAVE_PAYLOAD = (
    sa.update(shop_events)
    .where(shop_events.c.id == sa.bindparam("where_id"))
    .values(sealed_payload=sa.bindparam("sealed_payload"))
)
_SAVE_PROGRESS = (
    sa.update(connections)
    .where(connections.c.id == sa.bindparam("where_id"))
    .values(last_event_at=sa.bindparam("last_event_at"), failures=sa.bindparam("failures"))
)
_decode_payload = msgspec.msgpack.Decoder(model.Payload).decode
#: The events whose next attempt is due, the longest due first. Claiming an attempt schedules the next one.
EVENTS = Kind(
    is_due(shop_events.c.next_attempt_at, LONGEST_DELAY),
    shop_events.c.next_attempt_at,
    order=(shop_events.c.next_attempt_at,),
    columns=(shop_events.c.id, shop_events.c.connection_id),
    convert=tuple,
    changes=lambda _: {"attempts": shop_events.c.attempts + 1},
    holds_for=timedelta(seconds=30),
)


# --- connections ----------------------------------------------------------------------------------


def open_connection(tx: ReadTransaction, connection_id: int) -> model.OpenedConnection | None:
    """Return the connection with its secrets."""

    def opened(row: sa.Row[Any]) -> model.OpenedConnection:
        secret, api_key = (
            tx.key_ring.unseal(one, connection_associated_data(connection_id, name)).decode()
            for one, name in ((row.sealed_secret, "secret"), (row.sealed_api_key, "api_key"))
        )
        return model.OpenedConnection(CONNECTIONS.of_row(row), secret, api_key)

    return tx.first(_OPENED, opened, id=connection_id)


def save_new_connection(tx: WriteTransaction, connection: model.Connection, secret: str, api_key: str) -> int:
    """Insert a connection; return its ID."""
    values = CONNECTIONS.values_of(connection) | {"sealed_secret": b"", "sealed_api_key": b""}
    connection_id = tx.insert(connections, values)
    save_secrets(tx, connection_id, secret=secret, api_key=api_key)
    return connection_id


def save_secrets(
    tx: WriteTransaction, connection_id: int, *, secret: str | None = None, api_key: str | None = None
) -> None:
    """Seal and store the given secrets."""
    values = {
        f"sealed_{name}": tx.sealing.seal(text.encode(), connection_associated_data(connection_id, name))
        for name, text in (("secret", secret), ("api_key", api_key))
        if text is not None
    }
    if values:
        tx.connection.execute(sa.update(connections).where(connections.c.id == connection_id).values(values))


def save_progress(
    tx: WriteTransaction, connection: model.Connection, last_event_at: datetime, failures: int
) -> None:
    """Update the time of the last event, and the number of failures in a row, of a locked connection."""
    if (connection.last_event_at, connection.failures) == (last_event_at, failures):
        return
    values = {"last_event_at": to_seconds(last_event_at), "failures": failures}
    tx.connection.execute(_SAVE_PROGRESS, values | {"where_id": connection.id})


def delete_connection(tx: WriteTransaction, connection_id: int) -> None:
    """Delete the connection and some of its events, waiting ones first; ``delete_left_events`` deletes the
    others. The record of its sales is kept, so that nothing is sold twice.
    """
    column = shop_events.c
    tx.connection.execute(sa.delete(connections).where(connections.c.id == connection_id))
    query = sa.select(column.id).where(column.connection_id == connection_id)
    for some in (query.where(column.next_attempt_at.is_not(None)), query):
        _delete_events(tx, some.limit(_MAX_DELETED))


def topics_to_text(topics: tuple[str, ...] | None) -> str | None:
    """Return the column value for topics."""
    return None if topics is None else msgspec.json.encode(topics).decode()


# --- events ---------------------------------------------------------------------------------------


def save_new_event(tx: WriteTransaction, event: model.StoredEvent, payload: model.Payload) -> int | None:
    """Insert an event; return its ID. Return None, and change nothing, if the connection has the event."""
    values = _event_values(event) | {"sealed_payload": b""}
    new = insert_or(shop_events, is_postgres=tx.is_postgres)
    new = new.on_conflict_do_nothing(index_elements=["connection_id", "event_id"])
    row_id: int | None = tx.connection.execute(new.returning(shop_events.c.id), values).scalar()
    if row_id is not None:
        _save_payload(tx, row_id, msgspec.msgpack.encode(payload))
    return row_id


def find_event(tx: ReadTransaction, row_id: int) -> model.StoredEvent | None:
    """Return the event with this ID."""
    return tx.first(_EVENT_BY_ID, _event_of, id=row_id)


def lock_event(tx: WriteTransaction, row_id: int) -> model.StoredEvent | None:
    """Return the event with this ID, locked until the end of the transaction."""
    return tx.first(_LOCKED_EVENT, _event_of, id=row_id)


def find_payload(tx: ReadTransaction, row_id: int) -> model.Payload | None:
    """Return an event's payload; None if it was deleted."""
    return unseal_payload(tx, row_id, tx.connection.execute(_PAYLOAD, {"id": row_id}).scalar_one())


def unseal_payload(tx: ReadTransaction, row_id: int, sealed: bytes) -> model.Payload | None:
    """Decrypt the payload in an event's column; None if it was deleted."""
    plain = tx.key_ring.unseal(sealed, shop_event_associated_data(row_id))
    return _decode_payload(plain) if plain else None


def list_events(tx: ReadTransaction, query: ListShopEvents) -> ItemPage[model.StoredEvent]:
    """Return a page of the matching events."""
    if query.connection_id is None:
        # The events of a removed connection are deleted later.
        conditions: list[sa.ColumnElement[bool]] = [
            sa.exists().where(connections.c.id == shop_events.c.connection_id)
        ]
    else:
        conditions = [shop_events.c.connection_id == query.connection_id]
    if query.state is not None:
        # A literal, not a parameter: partial indexes are used only for values that are part of the statement.
        conditions.append(shop_events.c.state == sa.literal(query.state.value, literal_execute=True))
    return read_page(tx, sa.select(*_EVENT).where(*conditions), query.paging, _event_of)


def hasten(tx: WriteTransaction, connection_id: int, subscription: str, now: datetime) -> None:
    """Make the renewals of a subscription that wait for its sale due now."""
    column = shop_events.c
    waiting = sa.update(shop_events).where(
        column.connection_id == connection_id,
        column.next_attempt_at.is_not(None),
        column.reason == model.Reason.UNKNOWN_ORDER.value,
        column.order_ref == subscription,
    )
    tx.connection.execute(waiting.values(next_attempt_at=to_seconds(now)))


def save_outcome(
    tx: WriteTransaction,
    row_id: int,
    state: model.EventState,
    reason: model.Reason | None = None,
    detail: str | None = None,
    *,
    next_attempt_at: datetime | None = None,
    **others: int | str | None,
) -> None:
    """Update the state of an event, and other columns."""
    values: Values = {
        "state": state.value,
        "reason": None if reason is None else reason.value,
        "detail": None if detail is None else detail[:400],
        "next_attempt_at": to_optional_seconds(next_attempt_at),
    }
    values |= others
    tx.connection.execute(_save_columns(tuple(values)), values | {"where_id": row_id})


@lru_cache
def _save_columns(names: tuple[str, ...]) -> sa.Update:
    query = sa.update(shop_events).where(shop_events.c.id == sa.bindparam("where_id"))
    return query.values({name: sa.bindparam(name) for name in names})


def list_received(
    tx: ReadTransaction, connection_id: int, since: datetime, after_id: int
) -> list[model.StoredEvent]:
    """List some of the events that were received since then, after an ID, by ID."""
    column = shop_events.c
    conditions = (column.connection_id == connection_id, column.id > after_id)
    query = sa.select(*_EVENT).where(*conditions, column.received_at >= to_seconds(since))
    return [_event_of(row) for row in tx.connection.execute(query.order_by(column.id).limit(AT_ONCE))]


def delete_old_events(tx: WriteTransaction, before: datetime) -> int:
    """Delete some of the events that were received before then, but none that waits for processing or for a
    person. Return their number.
    """
    column = shop_events.c
    is_over = column.state.in_((model.EventState.DONE.value, model.EventState.IGNORED.value))
    old = sa.select(column.id).where(column.received_at < to_seconds(before), is_over)
    return _delete_events(tx, old.order_by(column.received_at).limit(AT_ONCE))


def delete_left_events(tx: WriteTransaction) -> int:
    """Delete some of the events of removed connections. Return their number."""
    column = shop_events.c
    known = [0, *tx.connection.execute(sa.select(connections.c.id).order_by(connections.c.id)).scalars()]
    for before, after in zip(known, [*known[1:], None], strict=True):
        if after == before + 1:
            continue
        query = sa.select(column.id).where(column.connection_id > before)
        query = query if after is None else query.where(column.connection_id < after)
        deleted = _delete_events(tx, query.order_by(column.connection_id).limit(AT_ONCE))
        if deleted:
            return deleted
    return 0


def _delete_events(tx: WriteTransaction, query: sa.Select[Any]) -> int:
    row_ids = tx.connection.execute(query).scalars().all()
    if row_ids:
        tx.connection.execute(sa.delete(shop_events).where(shop_events.c.id.in_(row_ids)))
    return len(row_ids)


def forget_payload(tx: WriteTransaction, row_id: int) -> None:
    """Delete an event's payload."""
    _save_payload(tx, row_id, b"")


def _save_payload(tx: WriteTransaction, row_id: int, plain: bytes) -> None:
    sealed = tx.sealing.seal(plain, shop_event_associated_data(row_id))
    tx.connection.execute(_SAVE_PAYLOAD, {"where_id": row_id, "sealed_payload": sealed})


def _event_of(row: sa.Row[Any]) -> model.StoredEvent:
    return model.StoredEvent(
        id=row.id,
        connection_id=row.connection_id,
        event_id=row.event_id,
        name=row.name,
        order_ref=row.order_ref,
        state=model.EventState(row.state),
        reason=None if row.reason is None else model.Reason(row.reason),
        detail=row.detail,
        happened_at=to_datetime(row.happened_at // 1000),
        received_at=to_datetime(row.received_at),
        attempts=row.attempts,
        is_forced=model.Again(row.is_forced),
        next_attempt_at=None if row.next_attempt_at is None else to_datetime(row.next_attempt_at),
    )


def _event_values(event: model.StoredEvent) -> Values:
    values = msgspec.structs.asdict(event)
    del values["id"]
    return values | {
        "state": event.state.value,
        "reason": None if event.reason is None else event.reason.value,
        "is_forced": event.is_forced.value,
        "happened_at": to_milliseconds(event.happened_at),
        "received_at": to_seconds(event.received_at),
        "next_attempt_at": to_optional_seconds(event.next_attempt_at),
        "customer_id": None,
    }
