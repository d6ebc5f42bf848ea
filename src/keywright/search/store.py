"""Database queries for statistics and for pages of events."""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, FromClause, bindparam, func, or_, select, union_all
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from keywright.db import rows
from keywright.db.bulk import Lookup
from keywright.db.schema import (
    daily_counts,
    daily_product_counts,
    deleted_licenses,
    events,
    licenses,
    limit_refusals,
    search_terms,
)
from keywright.db.transaction import ReadTransaction
from keywright.events.model import Event
from keywright.events.store import EVENT, event_of
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.search.filters import expiring
from keywright.search.reports_rules import Counted


class Refused(msgspec.Struct, frozen=True):
    """A license whose limit refused activations: how often, and when last."""

    license: License
    refusals: int
    last_refused_at: datetime


class EventRecord(msgspec.Struct, frozen=True):
    """An event and its ID."""

    id: int
    event: Event


class Owner(NamedTuple):
    """The customer and the product of a license, and its key, masked."""

    customer_id: int | None
    product_id: int | None
    key: str = ""


class EventFilter(msgspec.Struct, frozen=True):
    """Conditions for events; None means no condition. A name ending with a dot, or an actor ending with a
    colon, is a prefix. The events of a customer or a product are those of the licenses that they have now;
    for a customer, also those of deleted licenses that can be restored, and those about the customer.
    """

    license_id: int | None = None
    name: str | None = None
    actor: str | None = None
    customer_id: int | None = None
    product_id: int | None = None
    #: At or after the first moment, and before the second.
    since: datetime | None = None
    until: datetime | None = None
    #: A prefix of names to leave out.
    without: str | None = None
    #: The smallest ID to read.
    from_id: int | None = None
    #: Events that make up this figure of the reports.
    counted: Counted | None = None


def count_by_status(tx: ReadTransaction) -> dict[int, int]:
    """Count the licenses of each status that occurs. Scans all licenses."""
    query = select(licenses.c.status, func.count()).group_by(licenses.c.status)
    return {int(status): int(number) for status, number in tx.connection.execute(query)}


def count_with_term(tx: ReadTransaction, term: str) -> int:
    """Count the licenses with this term, which is not of an activation. Scans all of them."""
    query = select(func.count()).select_from(search_terms).where(search_terms.c.term == term)
    return int(tx.connection.execute(query).scalar_one())


def count_expiring(tx: ReadTransaction, after: datetime, until: datetime) -> int:
    """Count the licenses that expire after the first moment, and not after the second."""
    source = expiring(after, until)
    return int(tx.connection.execute(select(func.count()).where(*source.where)).scalar_one())


def list_daily_counts(tx: ReadTransaction, names: Collection[str], since: int) -> dict[tuple[str, int], int]:
    """Return the number of events with these names, by name and day (days since 1970-01-01 UTC)."""
    columns = daily_counts.c
    query = select(columns.name, columns.day, columns.amount).where(columns.day >= since)
    found = tx.connection.execute(query.where(columns.name.in_(names)))
    return {(name, int(day)): int(amount) for name, day, amount in found}


def list_daily_product_counts(
    tx: ReadTransaction, product_id: int, names: Collection[str], since: int
) -> dict[tuple[str, int], int]:
    """Return the number of events of a product's licenses, as ``list_daily_counts`` does."""
    columns = daily_product_counts.c
    query = select(columns.name, columns.day, columns.amount).where(
        columns.product_id == product_id, columns.day >= since, columns.name.in_(names)
    )
    return {(name, int(day)): int(amount) for name, day, amount in tx.connection.execute(query)}


def list_refused(tx: ReadTransaction, *, limit: int) -> list[Refused]:
    """Return the licenses that were refused at their limit, latest first."""
    columns = limit_refusals.c
    query = select(columns.license_id, columns.refusals, columns.last_refused_at)
    found = tx.connection.execute(
        query.order_by(columns.last_refused_at.desc(), columns.license_id).limit(limit)
    ).all()
    known = find_licenses_by_id(tx, [row.license_id for row in found])
    return [
        Refused(known[row.license_id], row.refusals, rows.to_datetime(row.last_refused_at))
        for row in found
        if row.license_id in known
    ]


def list_events(
    tx: ReadTransaction, where: EventFilter, *, before_id: int | None, size: int, limit: int
) -> tuple[list[EventRecord], int | None]:
    """The newest matches among the next ``size`` events, and the ID to continue before; None at the end."""
    span = []
    if before_id is not None:
        span.append(events.c.id < before_id)
    if where.from_id is not None:
        span.append(events.c.id >= where.from_id)
    if where.license_id is not None:
        span.append(events.c.license_id == where.license_id)
    order = _sort_key(tx, where).desc()
    columns = (events.c.id, *EVENT, events.c.customer_id)
    some = select(*columns).where(*span).order_by(order).limit(size).subquery()
    query = select(some).where(*_conditions(some.c, where), *_of_owner(some.c, where))
    latest = tx.connection.execute(query.order_by(some.c.id.desc()).limit(limit))
    found = [EventRecord(row.id, event_of(row[1:-1])) for row in latest]
    if len(found) == limit:
        return found, found[-1].id
    last = select(events.c.id).where(*span).order_by(order).offset(size - 1).limit(1)
    return found, tx.connection.execute(last).scalar_one_or_none()


def count_owned(tx: ReadTransaction, where: EventFilter, *, most: int) -> int:
    """Count the licenses of a customer or a product, up to ``most``."""
    some = _licenses_of(where, most)
    return int(tx.connection.execute(select(func.count()).select_from(some)).scalar_one())


def gather_event_ids(
    tx: ReadTransaction, where: EventFilter, *, before_id: int | None, most: int
) -> list[int] | None:
    """Return the IDs of all events of a customer or a product, newest first, filtered only by ID; None if
    there are more than ``most``. There must not be more licenses than that.
    """
    some = _licenses_of(where, most)
    # Forces the index on licenses, whatever the planner estimates for the IDs.
    number = events.c.id + 0
    bounds = [] if before_id is None else [number < before_id]
    bounds += [] if where.from_id is None else [number >= where.from_id]
    queries = [select(events.c.id).join(some, some.c.id == events.c.license_id)]
    if _includes_own(where):
        queries.append(select(events.c.id).where(events.c.customer_id == where.customer_id))
    found = [
        number
        for query in queries
        for number in tx.connection.execute(query.where(*bounds).limit(most + 1)).scalars()
    ]
    return None if len(found) > most else sorted(found, reverse=True)


def list_events_by_id(
    tx: ReadTransaction, ids: Collection[int], where: EventFilter, *, limit: int
) -> list[EventRecord]:
    """Return the newest of the events with these IDs that match. The owner of their licenses is checked only
    if a figure is listed.
    """
    query = select(events.c.id, *EVENT).where(events.c.id.in_(ids), *_conditions(events.c, where))
    if where.counted is not None:
        query = query.where(*_of_owner(events.c, where))
    latest = tx.connection.execute(query.order_by(events.c.id.desc()).limit(limit))
    return [EventRecord(row.id, event_of(row[1:])) for row in latest]


def _licenses_of(where: EventFilter, most: int) -> FromClause:
    """Select a customer's or product's licenses; for a customer, also deleted ones that can be restored."""
    of_them = select(licenses.c.id).where(*_has_owner(where)).limit(most)
    if not _includes_own(where):
        return of_them.subquery()
    deleted = select(deleted_licenses.c.license_id).where(deleted_licenses.c.customer_id == where.customer_id)
    return union_all(select(of_them.subquery()), select(deleted.limit(most).subquery())).subquery()


def _has_owner(where: EventFilter) -> Iterator[ColumnElement[bool]]:
    if where.customer_id is not None:
        yield licenses.c.customer_id == where.customer_id
    if where.product_id is not None:
        yield licenses.c.product_id == where.product_id


def _includes_own(where: EventFilter) -> bool:
    """Whether events about the customer, and of deleted licenses, match."""
    return where.customer_id is not None and where.product_id is None


def _of_owner(
    columns: ReadOnlyColumnCollection[str, Any], where: EventFilter
) -> Iterator[ColumnElement[bool]]:
    """Filter events by the owner of their license: with scalar subqueries, as PostgreSQL would read all
    licenses of the customer for an EXISTS.
    """
    if not (conditions := [*_has_owner(where)]):
        return
    theirs = select(licenses.c.id).where(licenses.c.id == columns.license_id, *conditions)
    found = [theirs.scalar_subquery().is_not(None)]
    if _includes_own(where):
        deleted = deleted_licenses.c
        is_theirs = (deleted.license_id == columns.license_id, deleted.customer_id == where.customer_id)
        found.append(select(deleted.license_id).where(*is_theirs).scalar_subquery().is_not(None))
        found.append(columns.customer_id == where.customer_id)
    yield or_(*found)


def _sort_key(tx: ReadTransaction, where: EventFilter) -> ColumnElement[int]:
    """Return the expression that sorts events by ID. PostgreSQL's index on licenses does not contain IDs;
    sorted by the plain column, a license with many events would cause a scan of all events.
    """
    is_sorted = where.license_id is None or not tx.is_postgres
    return events.c.id if is_sorted else events.c.id + 0


def find_owners(tx: ReadTransaction, license_ids: Collection[int]) -> dict[int, Owner]:
    """Return the customers and products of those of these licenses that exist."""
    found = _OWNERS_OF.find_rows(tx.connection, license_ids)
    return {row.id: Owner(row.customer_id, row.product_id) for row in found}


def list_products_of(tx: ReadTransaction, license_ids: Collection[int]) -> dict[int, int | None]:
    """Return the products of these licenses; for deleted ones, those named by their deletion."""
    found = {number: owner.product_id for number, owner in find_owners(tx, license_ids).items()}
    if gone := [one for one in license_ids if one not in found]:
        for number, details in _DELETIONS.find_rows(tx.connection, gone):
            found[number] = msgspec.json.decode(details).get("product_id")
    return found


_DELETIONS = Lookup(
    select(events.c.license_id, events.c.details).where(events.c.name == "license.deleted"),
    events.c.license_id,
)
_OWNERS_OF = Lookup(select(licenses.c.id, licenses.c.customer_id, licenses.c.product_id), licenses.c.id)


def find_first_event_id(tx: ReadTransaction, moment: datetime) -> int:
    """Return the ID of the first event at this moment or later, assuming that IDs are in the order of time;
    if all events were earlier, the largest ID plus one.
    """
    at, newest = rows.to_seconds(moment), select(func.coalesce(func.max(events.c.id), 0))
    low, high = 0, int(tx.connection.execute(newest).scalar_one()) + 1
    while high - low > 1:
        # Several steps of a binary search in one query.
        points = [low + max(1, (high - low) * step // (_POINTS + 1)) for step in range(1, _POINTS + 1)]
        named = {f"point_{index}": point for index, point in enumerate(points)}
        for point, found in zip(points, tx.connection.execute(_TIMES_FROM, named).one(), strict=True):
            if found is None or found >= at:
                high = point
                break
            low = point
    return high


#: The number of events that one query of a search by time checks.
_POINTS = 15
#: The times of the first events from these IDs on.
_TIMES_FROM = select(
    *(
        select(events.c.occurred_at)
        .where(events.c.id >= bindparam(f"point_{index}"))
        .order_by(events.c.id)
        .limit(1)
        .scalar_subquery()
        .label(f"time_{index}")
        for index in range(_POINTS)
    )
)


def _conditions(
    columns: ReadOnlyColumnCollection[str, Any], where: EventFilter
) -> Iterator[ColumnElement[bool]]:
    for value, column, end in ((where.name, columns.name, "."), (where.actor, columns.actor, ":")):
        if value is not None:
            is_beginning = value.endswith(end)
            yield column.startswith(value, autoescape=True) if is_beginning else column == value
    if where.without is not None:
        yield ~columns.name.startswith(where.without, autoescape=True)
    if where.since is not None:
        yield columns.occurred_at >= rows.to_seconds(where.since)
    if where.until is not None:
        yield columns.occurred_at < rows.to_seconds(where.until)
