"""The periods of meters in the database: those that are counted in, and those that are closed."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import ColumnElement, Select, case, func, literal, null, select, tuple_

from keywright.core.paging import MAX_COUNTED, ItemPage
from keywright.db.rows import to_seconds
from keywright.db.schema import licenses, meter_usage, past_usage
from keywright.db.transaction import ReadTransaction
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.licensing.usage import rules
from keywright.licensing.usage.commands import ListPeriods, PeriodFilter
from keywright.licensing.usage.model import MeterUsage
from keywright.licensing.usage.store import past_of

#: The beginning of a period, in its place.
_time_of = itemgetter(2)
_FIELDS = MeterUsage.__struct_fields__
_PLACE = _FIELDS[:3]
_OF_NEWEST = [*(meter_usage.c[name] for name in _FIELDS[:5]), *(null().label(name) for name in _FIELDS[5:])]
_NEWEST = select(*_OF_NEWEST).join(licenses, licenses.c.id == meter_usage.c.license_id)
_PAST = select(*(past_usage.c[name] for name in _FIELDS)).outerjoin(
    licenses, licenses.c.id == past_usage.c.license_id
)
_PRODUCT_OF_PAST = func.coalesce(past_usage.c.product_id, licenses.c.product_id)


def list_periods(tx: ReadTransaction, query: ListPeriods) -> ItemPage[MeterUsage]:
    """A page of periods; those that are not closed have the limit, product and customer of now."""
    where = query.where
    parts = [_NEWEST.where(*_conditions(meter_usage, licenses.c.product_id, where))]
    parts.append(_PAST.where(*_conditions(past_usage, _PRODUCT_OF_PAST, where)))
    if where.is_closed:
        parts = parts[1:]
    rows = (row for part in parts for row in tx.connection.execute(_page(part, query)))
    found = sorted(rows, key=_time_of, reverse=True) if query.is_newest_first else sorted(rows)
    total = sum(_count(tx, part) for part in parts) if query.is_counted else None
    return ItemPage(_with_limits(tx, [past_of(row) for row in found[: query.limit]]), total)


def _page(part: Select[Any], query: ListPeriods) -> Select[Any]:
    columns = [part.selected_columns[name] for name in _PLACE]
    if query.after is not None:
        part = part.where(tuple_(*columns) > tuple_(*map(literal, query.after)))
    order = [_time_of(columns).desc()] if query.is_newest_first else columns
    return part.order_by(*order).limit(query.limit)


def _count(tx: ReadTransaction, part: Select[Any]) -> int:
    some = part.limit(MAX_COUNTED + 1).subquery()
    return int(tx.connection.execute(select(func.count()).select_from(some)).scalar_one())


def _conditions(table: Any, product: ColumnElement[Any], where: PeriodFilter) -> list[ColumnElement[bool]]:
    columns = table.c
    start = case((columns.period_start == 0, licenses.c.created_at), else_=columns.period_start)
    given: list[tuple[Any, Callable[[Any], ColumnElement[bool]]]] = [
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
    """These periods, those that are not closed with the limit, product and customer of now."""
    owners = find_licenses_by_id(tx, {one.license_id for one in found if one.closed_at is None})
    shown = []
    for one in found:
        license = None if one.closed_at is not None else owners.get(one.license_id)
        meter = None if license is None else terms_of(license).meters.get(one.meter)
        known = one if meter is None else rules.complete(one, meter)
        shown.append(rules.detach(known, license, meter))
    return shown
