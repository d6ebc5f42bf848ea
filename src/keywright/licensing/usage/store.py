"""Usage of meters and its periods in the database. The transaction holds the locks of the licenses."""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace

from keywright.core.nouns import MAX_COUNTED, ItemPage
from keywright.db.bulk import Lookup, Values, bulk_delete, bulk_insert, bulk_update
from keywright.db.rows import to_columns, to_datetime, to_seconds
from keywright.db.schema import licenses, meter_usage, past_usage
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import END_OF_TIME, terms_of
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.licensing.terms.model import Terms
from keywright.licensing.usage import rules
from keywright.licensing.usage.model import ListPeriods, MeterUsage, PeriodFilter
from keywright.licensing.usage.rules import usage_by_meter

#: A license and the name of a meter; then with the first second of a period.
MeterName = tuple[int, str]
PeriodName = tuple[int, str, datetime]

#: The most old rows deleted at once, and the most licenses returned as due.
_MAX_OLD, _MAX_DUE = 1_000, 200


def find_usage(tx: ReadTransaction, meters: Iterable[MeterName]) -> dict[MeterName, MeterUsage]:
    """The usage of these meters in their newest periods, by meter; without those never used."""
    found = map(_usage_of, _OF_METER.find_rows(tx.connection, meters))
    return {(one.license_id, one.meter): one for one in found}


def find_past(tx: ReadTransaction, meters: Iterable[MeterName]) -> list[MeterUsage]:
    """Return the usage of these meters in open periods that are not their newest."""
    return list(map(past_of, _PAST_OF_METER.find_rows(tx.connection, meters)))


def list_past(tx: ReadTransaction, license_ids: Iterable[int]) -> list[MeterUsage]:
    """Return the usage of all meters of these licenses in open periods that are not their newest."""
    return list(map(past_of, _PAST_OF_LICENSE.find_rows(tx.connection, license_ids)))


def find_ends(tx: ReadTransaction, meters: Iterable[MeterName]) -> dict[MeterName, datetime]:
    """Return the end of the last period of each of these meters, by meter, without its newest open one."""
    found = _ENDS.find_rows(tx.connection, meters)
    return {(row[0], row[1]): to_datetime(row[2]) for row in found}


def has_any(tx: ReadTransaction, license_id: int) -> bool:
    """Whether any meter of the license was used."""
    tables = (meter_usage, past_usage)
    return any(tx.which_exist(tuple(sa.select(one).where(one.c.license_id == license_id) for one in tables)))


def find_due(tx: ReadTransaction, ended_before: datetime) -> tuple[int, ...]:
    """Return some licenses with an open period that ended at this moment or before."""
    until = {"until": to_seconds(ended_before)}
    found = {row[0] for query in _DUE for row in tx.connection.execute(query, until)}
    return tuple(sorted(found)[:_MAX_DUE])


def list_usage(tx: ReadTransaction, license_ids: Iterable[int]) -> dict[int, list[MeterUsage]]:
    """Return the usage of all meters of these licenses in their newest periods, by license."""
    found: dict[int, list[MeterUsage]] = {}
    for one in map(_usage_of, _OF_LICENSE.find_rows(tx.connection, license_ids)):
        found.setdefault(one.license_id, []).append(one)
    return found


def show_usage(
    tx: ReadTransaction, terms: Terms, newest: Sequence[MeterUsage], now: datetime
) -> dict[str, int]:
    """Return the amount used now of each of the terms' meters; ``newest`` is from ``list_usage``."""
    ahead = [(one.license_id, one.meter) for one in newest if one.period_start > now]
    return usage_by_meter(terms, [*newest, *(find_past(tx, ahead) if ahead else ())], now)


def save_new_usage(tx: WriteTransaction, new: Sequence[MeterUsage]) -> None:
    """Insert the usage of newest periods."""
    _INSERT.execute(tx.connection, [_columns_of(one, meter_usage) for one in new])


def save_usage(tx: WriteTransaction, changed: Sequence[MeterUsage]) -> None:
    """Update the usage of newest periods."""
    rows = [_columns_of(one, meter_usage, where=_METER) for one in changed]
    _UPDATE.execute(tx.connection, rows)


def delete_usage(tx: WriteTransaction, meters: Iterable[MeterName]) -> None:
    """Delete the usage of newest periods, as they are closed."""
    rows = [{"where_license_id": license_id, "where_meter": name} for license_id, name in meters]
    _DELETE.execute(tx.connection, rows)


def save_new_past(tx: WriteTransaction, new: Sequence[MeterUsage]) -> None:
    """Insert the usage of periods that are not the newest of their meters, or are closed."""
    _INSERT_PAST.execute(tx.connection, [_columns_of(one, past_usage) for one in new])


def save_past(tx: WriteTransaction, changed: Sequence[MeterUsage]) -> None:
    """Update the usage of past periods."""
    rows = [_columns_of(one, past_usage, where=_PERIOD) for one in changed]
    _UPDATE_PAST.execute(tx.connection, rows)


def end_packages(tx: WriteTransaction, license_ids: Collection[int], now: datetime) -> None:
    """End those periods of these deleted licenses now that would never end."""
    ended = sa.update(past_usage).where(past_usage.c.license_id.in_(license_ids), ~_IS_CLOSED)
    never = to_seconds(END_OF_TIME)
    tx.connection.execute(ended.where(past_usage.c.period_end == never).values(period_end=to_seconds(now)))


def take_back(tx: WriteTransaction, rows: Sequence[Values], license: License) -> list[Values]:
    """Return those of these rows of ``meter_usage``, of a license that is restored, that are its newest
    periods: all that were not closed since its deletion. Their copies in ``past_usage`` are deleted.
    """
    made = to_seconds(license.created_at)
    by_name = {(license.id, row["meter"], row["period_start"] or made): row for row in rows}
    past = {one.place: one for one in map(past_of, _OF_PERIOD.find_rows(tx.connection, by_name))}
    kept = {name: one for name, one in past.items() if one.closed_at is None}
    keys = [f"where_{name}" for name in _PERIOD]
    _DELETE_PAST.execute(tx.connection, [dict(zip(keys, name, strict=True)) for name in kept])
    return [
        # The snapshot may be from an older version.
        {"period_end": 0} | row | ({"used": kept[name].used} if name in kept else {})
        for name, row in by_name.items()
        if name in kept or name not in past
    ]


def delete_old(tx: WriteTransaction, before: datetime) -> int:
    """Delete some usage of periods that were closed before this moment; returns how many."""
    return tx.connection.execute(_DELETE_OLD, {"before": to_seconds(before)}).rowcount


def _usage_of(row: Sequence[Any]) -> MeterUsage:
    license_id, meter, period_start, used, period_end = row
    return MeterUsage(license_id, meter, to_datetime(period_start), used, to_datetime(period_end))


def past_of(row: Sequence[Any]) -> MeterUsage:
    """Build the usage from a row with all of its fields."""
    *of_license, closed_at = row[5:]
    known = dict(zip(_FIELDS[5:-1], of_license, strict=True))
    return replace(_usage_of(row[:5]), **known, closed_at=closed_at and to_datetime(closed_at))


def _columns_of(one: MeterUsage, table: sa.Table, where: Sequence[str] = ()) -> Values:
    """Return the columns of a row; those that identify it are named ``where_…``."""
    values = {name: value for name, value in to_columns(one).items() if name in table.c}
    return {f"where_{name}" if name in where else name: value for name, value in values.items()}


_FIELDS = MeterUsage.__struct_fields__
_METER, _PERIOD = list(_FIELDS[:2]), list(_FIELDS[:3])
_USAGE = sa.select(*(meter_usage.c[name] for name in _FIELDS[:5]))
_OF_METER = Lookup(_USAGE, *(meter_usage.c[name] for name in _METER))
_OF_LICENSE = Lookup(_USAGE, meter_usage.c.license_id)
_INSERT = bulk_insert(meter_usage)
_UPDATE = bulk_update(meter_usage, _METER, _FIELDS[2:5])
_DELETE = bulk_delete(meter_usage, *_METER)

_IS_CLOSED = past_usage.c.closed_at.is_not(None)
_PAST = sa.select(*(past_usage.c[name] for name in _FIELDS))
_PAST_OF_METER = Lookup(_PAST.where(~_IS_CLOSED), *(past_usage.c[name] for name in _METER))
_PAST_OF_LICENSE = Lookup(_PAST.where(~_IS_CLOSED), past_usage.c.license_id)
_OF_PERIOD = Lookup(_PAST, *(past_usage.c[name] for name in _PERIOD))
_ENDS = Lookup(
    sa.select(past_usage.c.license_id, past_usage.c.meter, sa.func.max(past_usage.c.period_end)).group_by(
        past_usage.c.license_id, past_usage.c.meter
    ),
    *(past_usage.c[name] for name in _METER),
)
_INSERT_PAST = bulk_insert(past_usage)
_UPDATE_PAST = bulk_update(past_usage, _PERIOD, _FIELDS[3:])
_DELETE_PAST = bulk_delete(past_usage, *_PERIOD)
_DUE = [
    sa.select(table.c.license_id)
    .where(table.c.period_end <= sa.bindparam("until"), condition)
    .order_by(table.c.period_end)
    .limit(_MAX_DUE)
    for table, condition in ((meter_usage, sa.true()), (past_usage, ~_IS_CLOSED))
]
_OLD_PERIOD = [past_usage.c[name] for name in _PERIOD]
_OLD = sa.select(*_OLD_PERIOD).where(past_usage.c.closed_at < sa.bindparam("before")).limit(_MAX_OLD)
_DELETE_OLD = sa.delete(past_usage).where(sa.tuple_(*_OLD_PERIOD).in_(_OLD))


#: The beginning of a period, in its position.
_time_of = itemgetter(2)
_PLACE = _FIELDS[:3]
_OF_NEWEST = [
    *(meter_usage.c[name] for name in _FIELDS[:5]),
    *(sa.null().label(name) for name in _FIELDS[5:]),
]
_NEWEST = sa.select(*_OF_NEWEST).join(licenses, licenses.c.id == meter_usage.c.license_id)
_PAST_PERIODS = sa.select(*(past_usage.c[name] for name in _FIELDS)).outerjoin(
    licenses, licenses.c.id == past_usage.c.license_id
)
_PRODUCT_OF_PAST = sa.func.coalesce(past_usage.c.product_id, licenses.c.product_id)


def list_periods(tx: ReadTransaction, query: ListPeriods) -> ItemPage[MeterUsage]:
    """Return a page of periods; open ones have the current limit, product and customer."""
    where = query.where
    parts = [_NEWEST.where(*_conditions(meter_usage, licenses.c.product_id, where))]
    parts.append(_PAST_PERIODS.where(*_conditions(past_usage, _PRODUCT_OF_PAST, where)))
    if where.is_closed:
        parts = parts[1:]
    rows = (row for part in parts for row in tx.connection.execute(_page(part, query)))
    found = sorted(rows, key=_time_of, reverse=True) if query.is_newest_first else sorted(rows)
    total = sum(_count(tx, part) for part in parts) if query.is_counted else None
    return ItemPage(_with_limits(tx, [past_of(row) for row in found[: query.limit]]), total)


def _page(part: sa.Select[Any], query: ListPeriods) -> sa.Select[Any]:
    columns = [part.selected_columns[name] for name in _PLACE]
    if query.after is not None:
        part = part.where(sa.tuple_(*columns) > sa.tuple_(*map(sa.literal, query.after)))
    order = [_time_of(columns).desc()] if query.is_newest_first else columns
    return part.order_by(*order).limit(query.limit)


def _count(tx: ReadTransaction, part: sa.Select[Any]) -> int:
    some = part.limit(MAX_COUNTED + 1).subquery()
    return int(tx.connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one())


def _conditions(
    table: Any, product: sa.ColumnElement[Any], where: PeriodFilter
) -> list[sa.ColumnElement[bool]]:
    columns = table.c
    start = sa.case((columns.period_start == 0, licenses.c.created_at), else_=columns.period_start)
    given: list[tuple[Any, Callable[[Any], sa.ColumnElement[bool]]]] = [
        (where.only_product_id, lambda value: product == value),
        (where.product_id, lambda value: product == value),
        (where.license_id, lambda value: columns.license_id == value),
        (where.meter, lambda value: columns.meter == value),
        (where.since, lambda value: start >= to_seconds(value)),
        (where.until, lambda value: start < to_seconds(value)),
    ]
    conditions = [condition(value) for value, condition in given if value is not None]
    if table is past_usage and where.is_closed is not None:
        is_closed = columns.closed_at.is_not(None)
        conditions.append(is_closed if where.is_closed else ~is_closed)
    return conditions


def _with_limits(tx: ReadTransaction, found: Sequence[MeterUsage]) -> list[MeterUsage]:
    """Set the current limit, product and customer of those of these periods that are open."""
    owners = find_licenses_by_id(tx, {one.license_id for one in found if one.closed_at is None})
    shown = []
    for one in found:
        license = None if one.closed_at is not None else owners.get(one.license_id)
        meter = None if license is None else terms_of(license).meters.get(one.meter)
        known = one if meter is None else rules.complete(one, meter)
        shown.append(rules.detach(known, license, meter))
    return shown
