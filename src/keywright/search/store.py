"""Figures and events that pages show beside lists of licenses."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from keywright.db import rows
from keywright.db.schema import daily_counts, events, licenses, limit_refusals, search_terms
from keywright.db.transaction import ReadTransaction
from keywright.events.model import Event
from keywright.events.store import EVENT
from keywright.licensing.licenses.model import License
from keywright.search import scan_store
from keywright.search.filters import expiring


class Refused(msgspec.Struct, frozen=True):
    """A license that had no place for somebody who asked: how often, and when last."""

    license: License
    refusals: int
    last_refused_at: datetime


class EventRecord(msgspec.Struct, frozen=True):
    """An event and its number."""

    id: int
    event: Event


class EventFilter(msgspec.Struct, frozen=True):
    """Which events a list is about; None is any. A name that ends with a dot, and an actor that ends with a
    colon, are all that begin so.
    """

    license_id: int | None = None
    name: str | None = None
    actor: str | None = None
    #: From this moment on, and before that one.
    since: datetime | None = None
    until: datetime | None = None
    #: None with a smaller number is looked at.
    from_id: int | None = None
    #: None whose name begins so.
    without: str | None = None


def count_by_status(tx: ReadTransaction) -> dict[int, int]:
    """How many licenses there are of each status that occurs: all of them are counted."""
    query = select(licenses.c.status, func.count()).group_by(licenses.c.status)
    return {int(status): int(number) for status, number in tx.connection.execute(query)}


def count_with_term(tx: ReadTransaction, term: str) -> int:
    """How many licenses have this term, one without an activation: all of them are counted."""
    query = select(func.count()).select_from(search_terms).where(search_terms.c.term == term)
    return int(tx.connection.execute(query).scalar_one())


def count_expiring(tx: ReadTransaction, after: datetime, until: datetime) -> int:
    """How many licenses expire after the one moment, and not after the other: all of them are counted."""
    source = expiring(after, until)
    return int(tx.connection.execute(select(func.count()).where(*source.where)).scalar_one())


def list_daily_counts(tx: ReadTransaction, names: Collection[str], since: int) -> dict[tuple[str, int], int]:
    """How often something of these names happened, by name and day (counted from 1970-01-01 UTC)."""
    columns = daily_counts.c
    query = select(columns.name, columns.day, columns.amount).where(columns.day >= since)
    found = tx.connection.execute(query.where(columns.name.in_(names)))
    return {(name, int(day)): int(amount) for name, day, amount in found}


def list_refused(tx: ReadTransaction, *, limit: int) -> list[Refused]:
    """The licenses that were refused at their limit, latest first."""
    columns = limit_refusals.c
    query = select(columns.license_id, columns.refusals, columns.last_refused_at)
    found = tx.connection.execute(
        query.order_by(columns.last_refused_at.desc(), columns.license_id).limit(limit)
    ).all()
    known = {one.id: one for one in scan_store.list_numbered(tx, [row.license_id for row in found])}
    return [
        Refused(known[row.license_id], row.refusals, rows.moment(row.last_refused_at))
        for row in found
        if row.license_id in known
    ]


def list_events(
    tx: ReadTransaction, where: EventFilter, *, before_id: int | None, size: int, limit: int
) -> tuple[list[EventRecord], int | None]:
    """The newest matching events before a number, among the first ``size``; and the number of the last one
    that was looked at, None when there are no more.
    """
    span = []
    if before_id is not None:
        span.append(events.c.id < before_id)
    if where.from_id is not None:
        span.append(events.c.id >= where.from_id)
    if where.license_id is not None:
        span.append(events.c.license_id == where.license_id)
    order = _by_number(tx, where).desc()
    some = select(events.c.id, *EVENT).where(*span).order_by(order).limit(size).subquery()
    query = select(some).where(*_wanted(some.c, where))
    found = [_record_of(row) for row in tx.connection.execute(query.order_by(some.c.id.desc()).limit(limit))]
    if len(found) == limit:
        return found, found[-1].id
    last = select(events.c.id).where(*span).order_by(order).offset(size - 1).limit(1)
    return found, tx.connection.execute(last).scalar_one_or_none()


def _by_number(tx: ReadTransaction, where: EventFilter) -> ColumnElement[int]:
    """What sorts events by their numbers. PostgreSQL's index on licenses does not have these, and everything
    would be looked through in the order of numbers for a license that has many events.
    """
    is_sorted = where.license_id is None or not tx.is_postgres
    return events.c.id if is_sorted else events.c.id + 0


def licenses_there(tx: ReadTransaction, numbers: Collection[int]) -> set[int]:
    """Those of these numbers that a license has."""
    found = tx.connection.execute(select(licenses.c.id).where(licenses.c.id.in_(numbers)))
    return {int(number) for number in found.scalars()}


def event_number_at(tx: ReadTransaction, moment: datetime) -> int:
    """The number of the first event at this moment or later, as far as events were numbered in the order in
    which they happened; one more than there are when all were earlier.
    """
    columns, at = events.c, rows.seconds(moment)
    low, high = 0, int(tx.connection.execute(select(func.coalesce(func.max(columns.id), 0))).scalar_one()) + 1
    while high - low > 1:
        middle = (low + high) // 2
        query = (
            select(columns.id, columns.occurred_at).where(columns.id >= middle).order_by(columns.id).limit(1)
        )
        found = tx.connection.execute(query).first()
        if found is None or found.occurred_at >= at:
            high = middle
        else:
            low = min(found.id, high - 1)
    return high


def _wanted(columns: ReadOnlyColumnCollection[str, Any], where: EventFilter) -> Iterator[ColumnElement[bool]]:
    """What is looked at in each event."""
    for value, column, end in ((where.name, columns.name, "."), (where.actor, columns.actor, ":")):
        if value is not None:
            is_beginning = value.endswith(end)
            yield column.startswith(value, autoescape=True) if is_beginning else column == value
    if where.without is not None:
        yield ~columns.name.startswith(where.without, autoescape=True)
    if where.since is not None:
        yield columns.occurred_at >= rows.seconds(where.since)
    if where.until is not None:
        yield columns.occurred_at < rows.seconds(where.until)


def _record_of(row: Sequence[Any]) -> EventRecord:
    number, at, name, license_id, activation_id, actor, address, details = row
    said = None if details is None else msgspec.json.decode(details)
    event = Event(rows.moment(at), name, license_id, activation_id, actor, address, said)
    return EventRecord(number, event)
