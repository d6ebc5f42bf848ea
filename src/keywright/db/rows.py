"""Conversion of values in rows, tables in which each row is one struct, and keyset pagination."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Generic, TypeVar, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, fields
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Row,
    Select,
    Table,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)

from keywright.core.fields import is_struct, split_type, strip_annotations
from keywright.core.nouns import MAX_COUNTED, ItemPage, List, ListQuery, Paging
from keywright.db.bulk import Values
from keywright.db.transaction import ReadTransaction, WriteTransaction


# Many rows have the same times (of one batch, one import), and converting them is the slowest part of reading
# or writing a row.
@lru_cache(maxsize=8192)
def to_datetime(seconds: int) -> datetime:
    """Return the time that many seconds after 1970-01-01 UTC."""
    return datetime.fromtimestamp(seconds, UTC)


@lru_cache(maxsize=8192)
def to_seconds(time: datetime) -> int:
    """Return whole seconds since 1970-01-01 UTC."""
    return int(time.timestamp())


@lru_cache(maxsize=8192)
def to_optional_seconds(time: datetime | None) -> int | None:
    """Return whole seconds since 1970-01-01 UTC, or None for None."""
    return None if time is None else int(time.timestamp())


#: Later than any moment, in seconds.
_NEVER = 2**63 - 1


def due_spans(now: datetime, longest: timedelta) -> tuple[tuple[int, int], ...]:
    """Return the spans, in seconds and without their beginnings, of moments that are due: up to now, and
    further ahead than the ``longest`` pause, as a wrong clock has written them.
    """
    return (-1, to_seconds(now)), (to_seconds(now + longest), _NEVER)


#: The current moment, in seconds: a parameter of the statement.
NOW = bindparam("now", type_=BigInteger)


def is_due(at: ColumnElement[Any], longest: timedelta) -> ColumnElement[bool]:
    """Whether a moment is in one of the ``due_spans`` at ``NOW``."""
    return or_(at <= NOW, at > NOW + int(longest.total_seconds()))


def to_json(value: Mapping[str, Any] | None) -> str | None:
    """Return JSON text, or None for None."""
    return None if value is None else msgspec.json.encode(value).decode()


def to_columns(struct: msgspec.Struct) -> Values:
    """Return the fields of a struct as columns of its table, without the ID."""
    return {
        name: to_seconds(value) if isinstance(value, datetime) else value
        for name, value in msgspec.structs.asdict(struct).items()
        if name != "id"
    }


def with_datetimes(row: Row[Any]) -> Values:
    """Return a row by column, with datetimes in the columns that end in ``_at`` or ``_until``."""
    return {
        name: to_datetime(value) if name.endswith(("_at", "_until")) and value is not None else value
        for name, value in row._mapping.items()
    }


Item = TypeVar("Item")


def read_page(
    tx: ReadTransaction, query: Select[Any], paging: Paging, convert: Callable[[Row[Any]], Item]
) -> ItemPage[Item]:
    """Return a page of the rows of ``query``, which has no order and selects from a table with the column
    ``id``. An index on the sort column and the ID keeps it fast.
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


Model = TypeVar("Model", bound=Struct)

#: The parameters of a list that are not filters.
_OF_ANY_LIST = frozenset({*ListQuery.__struct_fields__, "sort"})


class Records(Generic[Model]):
    """The statements for a table with the columns of ``model``; ``id`` is the key. Lists and objects are
    stored as JSON; an empty object is stored as NULL.
    """

    def __init__(self, table: Table, model: type[Model], product_column: str = "id") -> None:
        """``product_column`` has the product whose API keys may see a row."""
        self.table, self.product_column = table, product_column
        self._model = model
        self.columns = [table.c[name] for name in model.__struct_fields__]
        self.all = select(*self.columns)
        # Built once: an import executes them thousands of times.
        self._by_id, self._insert = self.all.where(table.c.id == bindparam("id")), insert(table)
        self._locked = self._by_id.with_for_update()
        split = {one.name: split_type(one.type) for one in fields(model)}
        kinds = {name: strip_annotations(kind) for name, (kind, _) in split.items()}
        #: The value of a decoded column that is NULL.
        self._empty: dict[str, Any] = {
            name: None if is_nullable else {} for name, (_, is_nullable) in split.items()
        }
        self._decoders = {
            name: msgspec.json.Decoder(kind).decode
            for name, kind in kinds.items()
            if get_origin(kind) in (list, dict, tuple, Mapping) or is_struct(kind)
        }
        #: The fields that are stored with another type.
        self._converters = {
            name: kind
            for name, kind in kinds.items()
            if kind is bool or (isinstance(kind, type) and issubclass(kind, StrEnum))
        }

    def find(self, tx: ReadTransaction, id: int) -> Model | None:
        """Return the object with this ID."""
        return tx.first(self._by_id, self.of_row, id=id)

    def find_by(self, tx: ReadTransaction, column: str, value: Any) -> Model | None:
        """Return the object with this value in a unique column."""
        return tx.first(self.all.where(self.condition(column, value)), self.of_row)

    def list_all(self, tx: ReadTransaction) -> list[Model]:
        """Return all objects, oldest first; for small tables."""
        return [self.of_row(row) for row in tx.connection.execute(self.all.order_by(self.table.c.id))]

    def lock(self, tx: WriteTransaction, id: int) -> Model | None:
        """Return the object with this ID, locked until the end of the transaction."""
        return tx.first(self._locked, self.of_row, id=id)

    def list_page(self, tx: ReadTransaction, query: List) -> ItemPage[Model]:
        """Return the requested page."""
        conditions = [
            self.condition(name, value)
            for name, value in asdict(query.where).items()
            if value is not None and name not in _OF_ANY_LIST
        ]
        if query.only_product_id is not None:
            conditions.append(self.table.c[self.product_column] == query.only_product_id)
        return read_page(tx, self.all.where(*conditions), query.paging, self.of_row)

    def condition(self, name: str, value: Any) -> ColumnElement[bool]:
        """Return the condition of a filter: ``created_after`` and the like compare times."""
        columns = self.table.c
        column, _, side = name.rpartition("_")
        if side == "after":
            return columns[f"{column}_at"] > to_seconds(value)
        if side == "before":
            return columns[f"{column}_at"] < to_seconds(value)
        is_equal: ColumnElement[bool] = columns[name] == value
        return is_equal

    def insert(self, tx: WriteTransaction, one: Model) -> None:
        """Insert a row."""
        tx.connection.execute(self._insert, self.values_of(one) | {"id": one.id})  # type: ignore[attr-defined]

    def insert_new(self, tx: WriteTransaction, one: Model) -> int:
        """Insert a row, and return the ID that the database assigned."""
        return tx.insert(self.table, self.values_of(one))

    def update(self, tx: WriteTransaction, one: Model) -> None:
        """Update every column."""
        this = self.table.c.id == one.id  # type: ignore[attr-defined]
        tx.connection.execute(update(self.table).where(this).values(self.values_of(one)))

    def delete(self, tx: WriteTransaction, id: int) -> None:
        """Delete the row with this ID."""
        tx.connection.execute(delete(self.table).where(self.table.c.id == id))

    def of_row(self, row: Row[Any]) -> Model:
        """Build the struct of a row; other columns in it are ignored."""
        found = with_datetimes(row)
        values = {name: found[name] for name in self._model.__struct_fields__}
        for name, decode in self._decoders.items():
            values[name] = self._empty[name] if values[name] is None else decode(values[name])
        for name, convert in self._converters.items():
            values[name] = None if values[name] is None else convert(values[name])
        return self._model(**values)

    def values_of(self, one: Model) -> Values:
        """Return the columns of a struct, without the ID."""
        values = to_columns(one)
        for name in self._decoders:
            is_null = values[name] is None or values[name] == {}
            values[name] = None if is_null else msgspec.json.encode(values[name]).decode()
        for name, convert in self._converters.items():
            # A boolean is a small integer on PostgreSQL.
            values[name] = int(values[name]) if convert is bool else values[name]
        return values
