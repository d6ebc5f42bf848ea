"""Values in rows: datetimes are whole seconds, structures are JSON text; pages of a list by keyset."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from sqlalchemy import BigInteger, ColumnElement, Row, Select, bindparam, func, or_, select, tuple_

from keywright.core.paging import MAX_COUNTED, ItemPage, Paging
from keywright.db.bulk import Values
from keywright.db.transaction import ReadTransaction


# Many rows have the same times (one batch, one import), and converting them is the slowest part of reading or
# writing a row.
@lru_cache(maxsize=8192)
def to_datetime(seconds: int) -> datetime:
    """The time that many seconds after 1970-01-01 UTC."""
    return datetime.fromtimestamp(seconds, UTC)


@lru_cache(maxsize=8192)
def to_seconds(time: datetime) -> int:
    """Whole seconds since 1970-01-01 UTC."""
    return int(time.timestamp())


@lru_cache(maxsize=8192)
def to_optional_seconds(time: datetime | None) -> int | None:
    """Whole seconds since 1970-01-01 UTC, or None for None."""
    return None if time is None else int(time.timestamp())


#: Later than any moment, in seconds.
_NEVER = 2**63 - 1


def due_spans(now: datetime, longest: timedelta) -> tuple[tuple[int, int], ...]:
    """The spans, in seconds and without their beginnings, of moments that are due: those up to now, and those
    after the ``longest`` pause there is, which a clock that was ahead has written.
    """
    return (-1, to_seconds(now)), (to_seconds(now + longest), _NEVER)


#: The moment of a look, in seconds: a parameter of its statement.
NOW = bindparam("now", type_=BigInteger)


def is_due(at: ColumnElement[Any], longest: timedelta) -> ColumnElement[bool]:
    """Whether a moment lies in one of the ``due_spans`` at ``NOW``."""
    return or_(at <= NOW, at > NOW + int(longest.total_seconds()))


def to_json(value: Mapping[str, Any] | None) -> str | None:
    """JSON text, or None for None."""
    return None if value is None else msgspec.json.encode(value).decode()


def to_columns(struct: msgspec.Struct) -> Values:
    """The fields of a struct as columns of its table, without the ID."""
    return {
        name: to_seconds(value) if isinstance(value, datetime) else value
        for name, value in msgspec.structs.asdict(struct).items()
        if name != "id"
    }


def with_datetimes(row: Row[Any]) -> Values:
    """A row by column, with datetimes in the columns that end in ``_at`` or ``_until``."""
    return {
        name: to_datetime(value) if name.endswith(("_at", "_until")) and value is not None else value
        for name, value in row._mapping.items()
    }


Item = TypeVar("Item")


def read_page(
    tx: ReadTransaction, query: Select[Any], paging: Paging, convert: Callable[[Row[Any]], Item]
) -> ItemPage[Item]:
    """A page of what ``query``, which has no order, selects from a table with the column ``id``. An index on
    the column by which the list is sorted, and the id, keeps it fast.
    """
    columns = query.selected_columns
    order = (columns[paging.sort.removeprefix("-")], columns["id"])
    is_descending = paging.sort.startswith("-")
    page = query.order_by(*(one.desc() if is_descending else one for one in order)).limit(paging.limit + 1)
    if paging.after is not None:
        after = tuple_(*paging.after)
        page = page.where(tuple_(*order) < after if is_descending else tuple_(*order) > after)
    found = [convert(row) for row in tx.connection.execute(page)]
    return ItemPage(found, _count(tx, query) if paging.is_counted else None)


def _count(tx: ReadTransaction, query: Select[Any]) -> int:
    some = query.with_only_columns(query.selected_columns["id"]).limit(MAX_COUNTED + 1).subquery()
    return int(tx.connection.execute(select(func.count()).select_from(some)).scalar_one())
