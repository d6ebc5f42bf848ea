"""Endpoints and deliveries in the database."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from keywright.core.nouns import ItemPage
from keywright.core.parsing import MAX_RETRY_AFTER
from keywright.db.bulk import Lookup, bulk_insert, bulk_update
from keywright.db.rows import (
    Records,
    due_spans,
    is_due,
    read_page,
    to_columns,
    to_datetime,
    to_optional_seconds,
    to_seconds,
)
from keywright.db.schema import events, webhook_deliveries, webhook_endpoints, webhook_secrets
from keywright.db.sealed_columns import webhook_associated_data
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.delivery.webhooks import rules
from keywright.delivery.webhooks.commands import ListDeliveries
from keywright.delivery.webhooks.model import Delivery, Endpoint, State
from keywright.engine.queue import Item, Kind
from keywright.events.model import Event
from keywright.events.store import EVENT, event_of
from keywright.search.feed import find_visible_id

WEBHOOKS = Records(webhook_endpoints, Endpoint)
_DELIVERY = [webhook_deliveries.c[name] for name in Delivery.__struct_fields__]
_column = webhook_deliveries.c
_IS_WAITING = _column.finished_at.is_(None)
_IS_OF_ENDPOINT = _column.endpoint_id == bindparam("of_endpoint")
# The statements of every step are built once.
_SECRETS = (
    select(webhook_secrets.c.sealed_secret, webhook_secrets.c.valid_until)
    .where(webhook_secrets.c.endpoint_id == bindparam("of_endpoint"))
    .order_by(webhook_secrets.c.number.desc())
)
_DUE = (
    select(*_DELIVERY, *EVENT)
    .join_from(webhook_deliveries, events, events.c.id == _column.event_id, isouter=True)
    .where(
        _IS_OF_ENDPOINT,
        _column.next_attempt_at > bindparam("after"),
        _column.next_attempt_at <= bindparam("until"),
    )
    .order_by(_column.next_attempt_at, _column.id)
    .limit(bindparam("most"))
)
_STATE = Delivery.__struct_fields__.index("state")
_TIMES = [place for place, name in enumerate(Delivery.__struct_fields__) if name.endswith("_at")]
_INSERT = bulk_insert(webhook_deliveries, without="id")
_SAVE = bulk_update(
    webhook_deliveries,
    ["id"],
    [
        *("state", "attempts", "next_attempt_at", "first_attempt_at", "last_attempt_at"),
        *("duration_ms", "status", "answer", "finished_at"),
    ],
)
_BEGIN = bulk_update(webhook_deliveries, ["id"], ["next_attempt_at"])
_WAITING_BY_ID = Lookup(select(*_DELIVERY).where(_IS_WAITING), _column.id)
_BY_EVENTS = Lookup(select(*_DELIVERY).where(_IS_OF_ENDPOINT), _column.event_id)
_BUSY = Lookup(select(_column.license_id).where(_IS_OF_ENDPOINT, _IS_WAITING).distinct(), _column.license_id)
_HEADS = Lookup(
    select(func.min(_column.event_id)).where(_IS_OF_ENDPOINT, _IS_WAITING).group_by(_column.license_id),
    _column.license_id,
)


# --- endpoints ------------------------------------------------------------------------------------


def count_endpoints(tx: ReadTransaction) -> int:
    """Count the endpoints."""
    query = select(func.count()).select_from(webhook_endpoints)
    return int(tx.connection.execute(query).scalar_one())


def delete_endpoint(tx: WriteTransaction, endpoint_id: int) -> None:
    """Delete an endpoint and its secrets."""
    tx.connection.execute(delete(webhook_endpoints).where(webhook_endpoints.c.id == endpoint_id))
    tx.connection.execute(delete(webhook_secrets).where(webhook_secrets.c.endpoint_id == endpoint_id))


# --- secrets --------------------------------------------------------------------------------------


def list_secrets(tx: ReadTransaction, endpoint_id: int, now: datetime) -> list[str]:
    """List the secrets that are valid now, the newest first."""
    sealed = [
        row.sealed_secret
        for row in tx.connection.execute(_SECRETS, {"of_endpoint": endpoint_id})
        if row.valid_until is None or row.valid_until > to_seconds(now)
    ]
    place = webhook_associated_data(endpoint_id)
    return [tx.key_ring.unseal(one, place).decode() for one in sealed]


def save_secret(
    tx: WriteTransaction, endpoint_id: int, secret: str, *, now: datetime, until: datetime
) -> None:
    """Add a secret. The previous secret stays valid until ``until``; older secrets are deleted."""
    of_endpoint = webhook_secrets.c.endpoint_id == endpoint_id
    is_over = and_(of_endpoint, webhook_secrets.c.valid_until.is_not(None))
    tx.connection.execute(delete(webhook_secrets).where(is_over))
    last = tx.connection.execute(select(func.max(webhook_secrets.c.number)).where(of_endpoint)).scalar()
    tx.connection.execute(update(webhook_secrets).where(of_endpoint).values(valid_until=to_seconds(until)))
    sealed = tx.sealing.seal(secret.encode(), webhook_associated_data(endpoint_id))
    row = {"endpoint_id": endpoint_id, "number": (last or 0) + 1, "sealed_secret": sealed}
    tx.connection.execute(insert(webhook_secrets).values(row))


# --- claims ---------------------------------------------------------------------------------------

_endpoint = webhook_endpoints.c
_HAS_DUE = exists().where(
    _column.endpoint_id == _endpoint.id, is_due(_column.next_attempt_at, rules.LONGEST_PAUSE)
)
_IS_QUIET = func.coalesce(~is_due(_endpoint.paused_until, MAX_RETRY_AFTER), literal(False))
_CAN_SEND = and_(_HAS_DUE, ~_IS_QUIET)
_NEWEST = select(func.coalesce(func.max(events.c.id), 0)).scalar_subquery()


def _with_visible_events(tx: ReadTransaction, items: list[Item]) -> list[Item]:
    """Keep the endpoints with due deliveries, or whose next event can no longer be preceded by another."""
    visible_id = find_visible_id(tx, 0)
    return [one for one in items if one.detail <= visible_id]


#: The enabled endpoints that have deliveries to send now (``detail`` is 0), or events after their position
#: (``detail`` is the next event ID). A claim lasts longer than the timeout of a request, by the time in which
#: a request may be started.
ENDPOINTS = Kind(
    and_(_endpoint.disabled_at.is_(None), or_(_endpoint.position < _NEWEST, _CAN_SEND)),
    _endpoint.claimed_until,
    _endpoint.claimed_by,
    columns=WEBHOOKS.columns,
    convert=WEBHOOKS.of_row,
    detail=case((_CAN_SEND, 0), else_=_endpoint.position + 1),
    holds_for=timedelta(seconds=16),
    confirm=_with_visible_events,
)


def release_claim(tx: WriteTransaction, endpoint_id: int) -> None:
    """Release the claim on an endpoint that is locked."""
    query = update(webhook_endpoints).where(webhook_endpoints.c.id == endpoint_id)
    tx.connection.execute(query.values(claimed_by=None, claimed_until=None))


# --- deliveries -----------------------------------------------------------------------------------


def find_delivery(tx: ReadTransaction, endpoint_id: int, delivery_id: int) -> Delivery | None:
    """Find the delivery with this ID."""
    query = select(*_DELIVERY).where(_column.id == delivery_id, _column.endpoint_id == endpoint_id)
    return tx.first(query, _delivery_of)


def list_deliveries(tx: ReadTransaction, query: ListDeliveries) -> ItemPage[Delivery]:
    """Read a page of an endpoint's deliveries."""
    conditions = [_column.endpoint_id == query.endpoint_id]
    if query.state is not None:
        conditions.append(_column.state == query.state)
    if query.license_id is not None:
        conditions.append(_column.license_id == query.license_id)
    return read_page(tx, select(*_DELIVERY).where(*conditions), query.paging, _delivery_of)


def find_deliveries(tx: ReadTransaction, ids: Collection[int]) -> list[Delivery]:
    """Find the waiting deliveries with these IDs."""
    return [_delivery_of(row) for row in _WAITING_BY_ID.find_rows(tx.connection, ids)]


def list_due(
    tx: ReadTransaction, endpoint_id: int, now: datetime, *, without: Collection[int], limit: int
) -> list[tuple[Delivery, Event | None]]:
    """List the due deliveries, each with its event, or None if the event has been deleted."""
    found: list[tuple[Delivery, Event | None]] = []
    for after, until in due_spans(now, rules.LONGEST_PAUSE):
        values = {"of_endpoint": endpoint_id, "after": after, "until": until, "most": limit + len(without)}
        for row in tx.connection.execute(_DUE, values) if len(found) < limit else ():
            delivery = _delivery_of(row[: len(_DELIVERY)])
            if delivery.id not in without:
                rest = row[len(_DELIVERY) :]
                found.append((delivery, None if rest[0] is None else event_of(rest)))
    return found[:limit]


def count_waiting(tx: ReadTransaction, endpoint_id: int, *, limit: int) -> int:
    """Count the waiting deliveries, up to ``limit``."""
    some = select(_column.id).where(_column.endpoint_id == endpoint_id, _IS_WAITING).limit(limit).subquery()
    return int(tx.connection.execute(select(func.count()).select_from(some)).scalar_one())


def list_busy_licenses(tx: ReadTransaction, endpoint_id: int, ids: Collection[int]) -> set[int]:
    """Return which of these licenses have a waiting delivery."""
    return {number for (number,) in _BUSY.find_rows(tx.connection, ids, of_endpoint=endpoint_id)}


def find_by_events(tx: ReadTransaction, endpoint_id: int, ids: Collection[int]) -> dict[int, Delivery]:
    """Find the existing deliveries of these events, by event ID."""
    found = map(_delivery_of, _BY_EVENTS.find_rows(tx.connection, ids, of_endpoint=endpoint_id))
    return {one.event_id: one for one in found}


def save_new_deliveries(tx: WriteTransaction, new: Sequence[Delivery]) -> None:
    """Insert deliveries."""
    _INSERT.execute(tx.connection, [to_columns(one) for one in new])


def save_deliveries(tx: WriteTransaction, changed: Sequence[Delivery]) -> None:
    """Update the columns that an attempt changes."""
    rows = [
        {
            "where_id": one.id,
            "state": one.state,
            "attempts": one.attempts,
            "next_attempt_at": to_optional_seconds(one.next_attempt_at),
            "first_attempt_at": to_optional_seconds(one.first_attempt_at),
            "last_attempt_at": to_optional_seconds(one.last_attempt_at),
            "duration_ms": one.duration_ms,
            "status": one.status,
            "answer": one.answer,
            "finished_at": to_optional_seconds(one.finished_at),
        }
        for one in changed
    ]
    _SAVE.execute(tx.connection, rows)


def begin_next(tx: WriteTransaction, endpoint_id: int, licenses_done: Iterable[int], now: datetime) -> None:
    """Schedule the first attempt of each license's oldest waiting delivery for now."""
    ids = sorted(set(licenses_done))
    if not ids:
        return
    heads = [number for (number,) in _HEADS.find_rows(tx.connection, ids, of_endpoint=endpoint_id)]
    waiting = find_by_events(tx, endpoint_id, heads).values() if heads else ()
    new = [one.id for one in waiting if one.next_attempt_at is None]
    _BEGIN.execute(tx.connection, [{"where_id": one, "next_attempt_at": to_seconds(now)} for one in new])


def attempt_now(tx: WriteTransaction, endpoint_id: int, now: datetime) -> None:
    """Make all deliveries with a scheduled attempt due now."""
    query = update(webhook_deliveries).where(
        _column.endpoint_id == endpoint_id, _column.next_attempt_at > to_seconds(now)
    )
    tx.connection.execute(query.values(next_attempt_at=to_seconds(now)))


def begin_again(tx: WriteTransaction, endpoint_id: int, now: datetime) -> None:
    """Reset the attempts of all waiting deliveries, and make those with a scheduled attempt due now."""
    waiting = update(webhook_deliveries).where(_column.endpoint_id == endpoint_id, _IS_WAITING)
    tx.connection.execute(waiting.values(attempts=0, first_attempt_at=None))
    attempt_now(tx, endpoint_id, now)


def delete_finished(tx: WriteTransaction, before: datetime, *, limit: int) -> int:
    """Delete a batch of deliveries that ended before this time, or else of a deleted endpoint."""
    where = _column.finished_at < to_seconds(before)
    deleted = _delete_some(tx, where, limit)
    if not deleted and (endpoint_id := _find_deleted_endpoint(tx)) is not None:
        deleted = _delete_some(tx, _column.endpoint_id == endpoint_id, limit)
    return deleted


def _delete_some(tx: WriteTransaction, where: ColumnElement[bool], limit: int) -> int:
    some = select(_column.id).where(where).limit(limit)
    return tx.connection.execute(delete(webhook_deliveries).where(_column.id.in_(some))).rowcount


def _find_deleted_endpoint(tx: ReadTransaction) -> int | None:
    """Find the ID of a deleted endpoint that still has deliveries, with one index lookup per endpoint."""
    known = set(tx.connection.execute(select(webhook_endpoints.c.id)).scalars())
    found = _next_endpoint(tx, 0)
    while found is not None and found in known:
        found = _next_endpoint(tx, found)
    return found


def _next_endpoint(tx: ReadTransaction, after: int) -> int | None:
    query = select(func.min(_column.endpoint_id)).where(_column.endpoint_id > after)
    found: int | None = tx.connection.execute(query).scalar_one()
    return found


def _delivery_of(row: Sequence[Any]) -> Delivery:
    fields = list(row)
    fields[_STATE] = State(fields[_STATE])
    for place in _TIMES:
        if fields[place] is not None:
            fields[place] = to_datetime(fields[place])
    return Delivery(*fields)
