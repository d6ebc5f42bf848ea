"""Database queries of the reports: monthly events of licenses, and daily device counts."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Row, and_, bindparam, delete, func, or_, select, tuple_

from keywright.core.parsing import MAX_ID
from keywright.db import schema
from keywright.db.bulk import Lookup, bulk_delete, bulk_upsert
from keywright.db.rows import to_datetime
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.events.store import EVENT
from keywright.search.reports_rules import MONTH, Counted, Device, Figure, Key, subjects_of

#: Events that change a monthly figure.
REPORTED = ("license.created", "license.imported", "license.updated", "license.expired")

_ADD = bulk_upsert(schema.report_counts, ["kind", "subject_id", "day", "name"], sums=["amount"])
_DELETE = bulk_delete(schema.report_counts, "kind", "subject_id", "day", "name")
_WHERE = tuple(f"where_{name}" for name in ("kind", "subject_id", "day", "name"))
_EVENT = ("name", "subject_id", "day", "event_id")
_LIST, _UNLIST = bulk_upsert(schema.report_events, _EVENT), bulk_delete(schema.report_events, *_EVENT)
#: Later than any day.
_NO_DAY = 2**31 - 1
_REPORTED = select(schema.events.c.license_id).where(
    schema.events.c.id > bindparam("after"),
    schema.events.c.id <= bindparam("until"),
    schema.events.c.name.in_(REPORTED),
)
# Not IN, with which SQLite would scan all events with these names.
_HISTORY = Lookup(
    select(schema.events.c.id, *EVENT).where(or_(*(schema.events.c.name == name for name in REPORTED))),
    schema.events.c.license_id,
)
_TRIALS = Lookup(select(schema.trials.c.license_id), schema.trials.c.license_id)
_REFUSALS = Lookup(
    select(
        schema.limit_refusals.c.license_id,
        schema.limit_refusals.c.refusals,
        schema.limit_refusals.c.last_refused_at,
    ),
    schema.limit_refusals.c.license_id,
)


def list_reported(tx: ReadTransaction, *, after_id: int, until_id: int) -> set[int]:
    """Return the licenses of the events after an ID, up to another, that change a monthly figure."""
    return set(tx.connection.execute(_REPORTED, {"after": after_id, "until": until_id}).scalars())


def list_history(tx: ReadTransaction, license_ids: Collection[int]) -> list[Row[Any]]:
    """Return the events of these licenses that change a figure: their IDs and ``EVENT``."""
    return list(_HISTORY.find_rows(tx.connection, license_ids))


def find_trials(tx: ReadTransaction, license_ids: Collection[int]) -> set[int]:
    """Return which of these licenses began as trials."""
    return {row.license_id for row in _TRIALS.find_rows(tx.connection, license_ids)}


def add_counts(tx: WriteTransaction, amounts: Mapping[Key, int]) -> None:
    """Add these amounts to the figures."""
    names = ("kind", "subject_id", "day", "name", "amount")
    values = [dict(zip(names, (*key, amounts[key]), strict=True)) for key in sorted(amounts)]
    _ADD.execute(tx.connection, values)


def save_figures(tx: WriteTransaction, figures: Iterable[Figure]) -> None:
    """Save which events make up the monthly figures."""
    amounts = Counter[tuple[str, int, int, int]]()
    for one in figures:
        for subject in subjects_of(one):
            amounts[one.name, subject, one.month, one.event_id] += one.amount
    for write, wanted, prefix in ((_LIST, 1, ""), (_UNLIST, -1, "where_")):
        keys = sorted(key for key, amount in amounts.items() if amount == wanted)
        names = [f"{prefix}{name}" for name in _EVENT]
        write.execute(tx.connection, [dict(zip(names, key, strict=True)) for key in keys])


def delete_figures(tx: WriteTransaction, *, until: int = _NO_DAY) -> None:
    """Delete the lists of events for the months before a day."""
    tx.connection.execute(delete(schema.report_events).where(schema.report_events.c.day < until))


def list_figure(tx: ReadTransaction, counted: Counted, *, before_id: int | None, limit: int) -> list[int]:
    """Return the IDs of the newest events of a figure before one of them."""
    column, found = schema.report_events.c, list[int]()
    # Month by month, as the index has each month in this order.
    for month in counted.months:
        query = select(column.event_id).where(
            column.name == counted.name,
            column.subject_id == counted.subject_id,
            column.day == month,
            column.event_id < (MAX_ID if before_id is None else before_id),
        )
        found += tx.connection.execute(query.order_by(column.event_id.desc()).limit(limit)).scalars()
    return sorted(found, reverse=True)[:limit]


def delete_counts(tx: WriteTransaction, kind: str, *, since: int = 0, until: int = _NO_DAY) -> None:
    """Delete the figures of a kind from a day on, before another."""
    column = schema.report_counts.c
    tx.connection.execute(
        delete(schema.report_counts).where(column.kind == kind, column.day >= since, column.day < until)
    )


def delete_keys(tx: WriteTransaction, keys: Iterable[Key]) -> None:
    """Delete these figures."""
    _DELETE.execute(tx.connection, [dict(zip(_WHERE, key, strict=True)) for key in sorted(keys)])


def list_counts(
    tx: ReadTransaction,
    kind: str,
    *,
    subjects: Collection[int] = (),
    days: Collection[int] = (),
    since: int = 0,
    limit: int = 50_000,
) -> dict[Key, int]:
    """Return the figures of a kind: of these subjects or all; of these days, or from a day on."""
    column = schema.report_counts.c
    key = (column.kind, column.subject_id, column.day, column.name)
    query = select(*key, column.amount).where(column.kind == kind)
    if subjects:
        query = query.where(column.subject_id.in_(sorted(subjects)))
    # Only one of the two, as SQLite would scan all days otherwise.
    is_of_days = column.day.in_(sorted(days)) if days else column.day >= since
    query = query.where(is_of_days)
    found = tx.connection.execute(query.order_by(*key).limit(limit))
    return {(row[0], row[1], row[2], row[3]): int(row[4]) for row in found}


def sum_months(
    tx: ReadTransaction, subjects: Collection[int], days: Collection[int]
) -> dict[int, dict[str, int]]:
    """Return the sums of the figures of these months, by product and name."""
    column, found = schema.report_counts.c, defaultdict[int, dict[str, int]](dict)
    query = select(column.subject_id, column.name, func.sum(column.amount)).where(
        column.kind == MONTH, column.subject_id.in_(sorted(subjects)), column.day.in_(sorted(days))
    )
    for subject, name, amount in tx.connection.execute(query.group_by(column.subject_id, column.name)):
        found[subject][name] = int(amount)
    return found


def list_devices(tx: ReadTransaction, place: tuple[int, str], *, limit: int) -> list[Device]:
    """Return the activations from a position on, by license and token."""
    column, seen = schema.activations.c, schema.last_seen.c
    position = tuple_(column.license_id, column.token)
    is_seen = and_(seen.license_id == column.license_id, seen.activation_id == column.id)
    query = (
        select(
            *(column.license_id, column.token, schema.licenses.c.product_id, schema.licenses.c.policy_id),
            *(column.app_version, column.platform, column.ip_address),
            *(column.created_at, column.deactivated_at, seen.seen_at),
        )
        .join(schema.licenses, schema.licenses.c.id == column.license_id)
        .outerjoin(schema.last_seen, is_seen)
        .where(position >= tuple_(*place))
        .order_by(column.license_id, column.token)
        .limit(limit)
    )
    return [Device._make(row) for row in tx.connection.execute(query)]


def find_refusals(tx: ReadTransaction, license_ids: Collection[int], since: int) -> dict[int, int]:
    """Return how often these licenses were refused, if the last refusal was not before this moment."""
    found = _REFUSALS.find_rows(tx.connection, license_ids)
    return {row.license_id: int(row.refusals) for row in found if row.last_refused_at >= since}


class RefusedCustomer(NamedTuple):
    """A customer whose licenses were refused at their limit."""

    customer_id: int
    licenses: int
    refusals: int
    last_refused_at: datetime


def list_refused_customers(
    tx: ReadTransaction, *, since: int, most: int, limit: int
) -> list[RefusedCustomer]:
    """Return the customers of the ``most`` most recently refused licenses, most refusals first."""
    column = schema.limit_refusals.c
    latest = select(schema.limit_refusals).where(column.last_refused_at >= since)
    some = latest.order_by(column.last_refused_at.desc()).limit(most).subquery()
    refusals = func.sum(some.c.refusals).label("refusals")
    query = (
        select(
            schema.licenses.c.customer_id,
            func.count().label("licenses"),
            refusals,
            func.max(some.c.last_refused_at).label("last_refused_at"),
        )
        .join(some, some.c.license_id == schema.licenses.c.id)
        .where(schema.licenses.c.customer_id.is_not(None))
        .group_by(schema.licenses.c.customer_id)
        .order_by(refusals.desc(), schema.licenses.c.customer_id)
        .limit(limit)
    )
    found = tx.connection.execute(query)
    return [RefusedCustomer(row[0], row[1], int(row[2]), to_datetime(row[3])) for row in found]
