"""Statements about many rows at once: as many runs as there are rows on SQLite, where a run costs next to
nothing; one run on PostgreSQL, where the rows travel as one value.

A lookup of many values exists in a few sizes (1, 2, 4 … 128) on SQLite; shorter lists are filled up by
repeating a value, so that a handful of statements stay compiled instead of one per length.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    Connection,
    Delete,
    Insert,
    LargeBinary,
    Select,
    String,
    Table,
    TableValuedAlias,
    Text,
    Update,
    and_,
    bindparam,
    case,
    cast,
    column,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.dialects.postgresql import insert as insert_on_postgres
from sqlalchemy.dialects.sqlite import insert as insert_on_sqlite

Values = dict[str, Any]
Item = TypeVar("Item")

#: No SQLite statement names more things than this at once, no PostgreSQL statement has more rows.
MOST_NAMED = 128
MOST_ROWS = 1_000


def is_postgres(connection: Connection) -> bool:
    """Whether the statements for PostgreSQL are wanted."""
    return connection.dialect.name == "postgresql"


# --- lookups --------------------------------------------------------------------------------------


class Lookup:
    """The rows in which some columns have one of many values, or combinations of values."""

    def __init__(self, query: Select[Any], *columns: Column[Any]) -> None:
        self._columns = columns
        self._sized = lru_cache(lambda size: query.where(_one_of(columns, size)))
        self._at_once = _matching(query, columns)

    def rows(self, connection: Connection, wanted: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The rows, each at least once; ``wanted`` has a value for every column."""
        if is_postgres(connection):
            return rows_at_once(connection, self._at_once, wanted)
        found: list[Any] = []
        for some in _runs(wanted, MOST_NAMED):
            size = 1 << (len(some) - 1).bit_length()
            filled = [*some, *[some[0]] * (size - len(some))]
            flat = (value for values in filled for value in values)
            named = dict(zip(_names(size * len(self._columns)), flat, strict=True))
            found += connection.execute(self._sized(size), named).all()
        return found


def _one_of(columns: Sequence[Column[Any]], size: int) -> ColumnElement[bool]:
    names = iter(_names(size * len(columns)))
    if len(columns) == 1:
        return columns[0].in_([bindparam(name, type_=columns[0].type) for name in names])
    return or_(*(and_(*(one == bindparam(next(names)) for one in columns)) for _ in range(size)))


def _matching(query: Select[Any], columns: Sequence[Column[Any]]) -> Select[Any]:
    if len(columns) == 1:
        return query.where(columns[0] == func.any(_given_array(0, columns[0])))
    table = wanted(*columns)
    return query.where(*(one == table.c[one.name] for one in columns))


def wanted(*columns: Column[Any]) -> TableValuedAlias:
    """A table of the combinations that ``rows_at_once`` is given: a column of the same name for each."""
    arrays = (_given_array(i, one) for i, one in enumerate(columns))
    return func.unnest(*arrays).table_valued(*(one.name for one in columns)).render_derived("wanted")


def rows_at_once(connection: Connection, query: Select[Any], wanted: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The rows of a query with ``wanted`` in it, on PostgreSQL."""
    found: list[Any] = []
    for some in _runs(wanted, MOST_ROWS):
        values = {f"v{i}": _array(values) for i, values in enumerate(zip(*some, strict=True))}
        found += connection.execute(query, values).all()
    return found


def _given_array(number: int, column: Column[Any]) -> ColumnElement[Any]:
    return cast(bindparam(f"v{number}", type_=Text), ARRAY(column.type))


def _array(values: Sequence[Any]) -> str:
    """An array as PostgreSQL reads it (https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO)."""
    return f"{{{','.join(map(_element, values))}}}"


def _element(value: Any) -> str:
    if isinstance(value, bytes):
        return f'"\\\\x{value.hex()}"'
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)


@lru_cache
def _names(amount: int) -> tuple[str, ...]:
    return tuple(f"v{i}" for i in range(amount))


def _runs(values: Sequence[Item], most: int) -> Iterator[Sequence[Item]]:
    if len(values) <= most:
        if values:
            yield values
        return
    for start in range(0, len(values), most):
        yield values[start : start + most]


# --- changes --------------------------------------------------------------------------------------


class Change:
    """A change of many rows, each given by the values of its parameters."""

    def __init__(
        self, each: Insert | Update | Delete, at_once: Insert | Update | Delete, binary: Sequence[str]
    ) -> None:
        self._each = each
        self._at_once = at_once
        self._binary = binary

    def execute(self, connection: Connection, rows: Sequence[Values]) -> None:
        """Make the change for these rows."""
        if not rows:
            return
        if not is_postgres(connection):
            connection.execute(self._each, rows)
            return
        for some in _runs(rows, MOST_ROWS):
            connection.execute(self._at_once, {"rows": json_text([self._as_json(row) for row in some])})

    def _as_json(self, row: Values) -> Values:
        return row | {name: row[name].hex() for name in self._binary} if self._binary else row


def inserting(table: Table, *, without: str = "") -> Change:
    """Insert rows: a parameter for every column but one that the database fills by itself."""
    columns = [one for one in table.c if one.name != without]
    given = _given({one.name: one for one in columns})
    source = select(*(given(one.name) for one in columns))
    names = [one.name for one in columns]
    return Change(insert(table), insert(table).from_select(names, source), _binary(columns))


def upserting(
    table: Table, keys: Sequence[str], *, sums: Sequence[str] = (), largest: Sequence[str] = ()
) -> Change:
    """Insert rows. Where there is one with these keys, its ``sums`` grow by what is given, and of ``largest``
    the larger value stays; without either, it is left alone. Rows are taken in the order of their keys, so
    that two who do this cannot wait for each other.
    """
    columns = list(table.c)
    given = _given({one.name: one for one in columns})
    source = select(*(given(one.name) for one in columns)).order_by(*(given(name) for name in keys))
    names = [one.name for one in columns]
    each, at_once = insert_on_sqlite(table), insert_on_postgres(table).from_select(names, source)
    if not sums and not largest:
        return Change(each.on_conflict_do_nothing(), at_once.on_conflict_do_nothing(), _binary(columns))

    def merged(new: Any) -> dict[str, ColumnElement[Any]]:
        rising = {name: case((new[name] > table.c[name], new[name]), else_=table.c[name]) for name in largest}
        return {name: table.c[name] + new[name] for name in sums} | rising

    return Change(
        each.on_conflict_do_update(index_elements=keys, set_=merged(each.excluded)),
        at_once.on_conflict_do_update(index_elements=keys, set_=merged(at_once.excluded)),
        _binary(columns),
    )


def updating(table: Table, keys: Sequence[str], names: Sequence[str]) -> Change:
    """Update these columns where the keys, as parameters ``at_…``, are equal."""
    columns = [table.c[name] for name in names]
    given = _given({**_at(table, keys), **{one.name: one for one in columns}})
    each = update(table).where(*(table.c[key] == bindparam(f"at_{key}") for key in keys))
    at_once = update(table).where(*(table.c[key] == given(f"at_{key}") for key in keys))
    return Change(
        each.values({name: bindparam(name) for name in names}),
        at_once.values({name: given(name) for name in names}),
        [*_binary(columns), *(f"at_{name}" for name in _binary([table.c[key] for key in keys]))],
    )


def deleting(table: Table, *keys: str) -> Change:
    """Delete where the keys, as parameters ``at_…``, are equal."""
    given = _given(_at(table, keys))
    return Change(
        delete(table).where(*(table.c[key] == bindparam(f"at_{key}") for key in keys)),
        delete(table).where(*(table.c[key] == given(f"at_{key}") for key in keys)),
        (),
    )


def _at(table: Table, keys: Sequence[str]) -> dict[str, Column[Any]]:
    return {f"at_{key}": table.c[key] for key in keys}


def _given(columns: dict[str, Column[Any]]) -> Callable[[str], ColumnElement[Any]]:
    """The parameters as columns of a table that is made from one JSON value."""
    rows = cast(bindparam("rows", type_=Text), JSON)
    declared = [column(name, _in_json(one)) for name, one in columns.items()]
    table = func.json_to_recordset(rows).table_valued(*declared).render_derived("given", with_types=True)

    def value(name: str) -> ColumnElement[Any]:
        is_binary = isinstance(columns[name].type, LargeBinary)
        return func.decode(table.c[name], "hex") if is_binary else table.c[name]

    return value


def _in_json(column: Column[Any]) -> Any:
    return Text() if isinstance(column.type, String | LargeBinary) else column.type


def _binary(columns: Sequence[Column[Any]]) -> list[str]:
    return [one.name for one in columns if isinstance(one.type, LargeBinary)]


def json_text(rows: Sequence[Values]) -> str:
    """Rows as the one value by which they travel to PostgreSQL."""
    return msgspec.json.encode(rows).decode()
