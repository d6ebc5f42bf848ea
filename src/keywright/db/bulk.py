"""Statements for many rows. SQLite, where an execution is cheap, executes one per row; PostgreSQL executes
one for all rows, which are passed as one parameter.

On SQLite, a lookup of many keys exists in a few sizes (1, 2, 4 … 128); shorter lists are padded by repeating
a key, so that a few compiled statements suffice.

A statement is built when it is first executed, for the database in use: a starting server needs few.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

Values = dict[str, Any]
Change = sa.Insert | sa.Update | sa.Delete
Item = TypeVar("Item")

#: The most keys in one statement on SQLite, and the most rows in one on PostgreSQL.
MAX_KEYS = 128
MAX_ROWS = 1_000
_POSTGRES = "postgresql"


def is_postgres(connection: sa.Connection) -> bool:
    """Whether the connection is to PostgreSQL."""
    return connection.dialect.name == _POSTGRES


def insert_or(table: sa.Table, *, is_postgres: bool) -> Any:
    """Return an INSERT that supports ON CONFLICT."""
    if is_postgres:
        # Imported here: an installation with SQLite does not need it.
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    return sqlite.insert(table)


def _compile_for_sqlite(
    statement: sa.ClauseElement, names: Sequence[str] | None = None
) -> tuple[str, dict[str, Any]]:
    """Compile a statement for SQLite, and return its literal values: SQLAlchemy would process every value of
    every row. An insert or update gets values for these names.
    """
    keys = None if names is None else list(names)
    compiled = statement.compile(dialect=sqlite.dialect(paramstyle="named"), column_keys=keys)
    return str(compiled), compiled.params


# --- lookups --------------------------------------------------------------------------------------


class Lookup:
    """A query for the rows in which a column has one of many values, or several columns have one of many
    combinations of values: the keys.
    """

    def __init__(self, query: sa.Select[Any], *columns: sa.Column[Any]) -> None:
        self._query = query
        self._columns = columns
        self._for_size = lru_cache(lambda size: _compile_for_sqlite(query.where(_is_one_of(columns, size))))

    @cached_property
    def _for_postgres(self) -> sa.Select[Any]:
        return _join_arrays(self._query, self._columns)

    def find_rows(self, connection: sa.Connection, keys: Iterable[Any], **others: Any) -> list[Any]:
        """Return the rows, each at least once; a key of several columns is a tuple. ``others`` are the
        query's own parameters.
        """
        combinations = list(zip(keys, strict=True) if len(self._columns) == 1 else keys)
        if connection.dialect.name == _POSTGRES:
            return select_by_arrays(connection, self._for_postgres, combinations, **others)
        found: list[Any] = []
        for chunk in _chunks(combinations, MAX_KEYS):
            size = 1 << (len(chunk) - 1).bit_length()
            padded = [*chunk, *[chunk[0]] * (size - len(chunk))]
            flat = chain.from_iterable(padded)
            parameters = dict(zip(_parameter_names(size * len(self._columns)), flat, strict=True))
            statement, literals = self._for_size(size)
            found += connection.exec_driver_sql(statement, {**literals, **parameters, **others}).all()
        return found


def _is_one_of(columns: Sequence[sa.Column[Any]], size: int) -> sa.ColumnElement[bool]:
    names = iter(_parameter_names(size * len(columns)))
    if len(columns) == 1:
        return columns[0].in_([sa.bindparam(name, type_=columns[0].type) for name in names])
    return sa.or_(*(sa.and_(*(one == sa.bindparam(next(names)) for one in columns)) for _ in range(size)))


def _join_arrays(query: sa.Select[Any], columns: Sequence[sa.Column[Any]]) -> sa.Select[Any]:
    if len(columns) == 1:
        return query.where(columns[0] == sa.func.any(_array_parameter(0, columns[0])))
    table = array_table(*columns)
    return query.where(*(one == table.c[one.name] for one in columns))


def array_table(*columns: sa.Column[Any]) -> sa.TableValuedAlias:
    """Return a table of the keys that ``select_by_arrays`` passes, with columns of the same names."""
    arrays = (_array_parameter(i, one) for i, one in enumerate(columns))
    return sa.func.unnest(*arrays).table_valued(*(one.name for one in columns)).render_derived("keys")


def select_by_arrays(
    connection: sa.Connection, query: sa.Select[Any], keys: Sequence[tuple[Any, ...]], **others: Any
) -> list[Any]:
    """Return the rows of a query with an ``array_table``, and ``others`` as its parameters, on PostgreSQL."""
    found: list[Any] = []
    for chunk in _chunks(keys, MAX_ROWS):
        arrays = {f"v{i}": _array_literal(values) for i, values in enumerate(zip(*chunk, strict=True))}
        found += connection.execute(query, arrays | others).all()
    return found


def _array_parameter(number: int, column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    from sqlalchemy.dialects.postgresql import ARRAY

    return sa.cast(sa.bindparam(f"v{number}", type_=sa.Text), ARRAY(column.type))


def _array_literal(values: Sequence[Any]) -> str:
    """Write an array for PostgreSQL (https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO)."""
    return f"{{{','.join(map(_array_element, values))}}}"


def _array_element(value: Any) -> str:
    if isinstance(value, bytes):
        return f'"\\\\x{value.hex()}"'
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)


@lru_cache
def _parameter_names(amount: int) -> tuple[str, ...]:
    return tuple(f"v{i}" for i in range(amount))


def _chunks(values: Sequence[Item], size: int) -> Sequence[Sequence[Item]]:
    if 0 < len(values) <= size:
        return (values,)
    return [values[start : start + size] for start in range(0, len(values), size)]


# --- writes ---------------------------------------------------------------------------------------


class BulkWrite:
    """A statement that inserts, updates or deletes many rows, each given by its parameters."""

    def __init__(
        self, for_row: Callable[[], Change], for_rows: Callable[[], Change], binary: Sequence[str]
    ) -> None:
        self._for_sqlite = lru_cache(lambda names: _compile_for_sqlite(for_row(), names)[0])
        self._build_for_rows = for_rows
        self._binary = binary

    @cached_property
    def _for_rows(self) -> Change:
        return self._build_for_rows()

    def execute(self, connection: sa.Connection, rows: Sequence[Values]) -> None:
        """Write these rows."""
        if not rows:
            return
        if connection.dialect.name != _POSTGRES:
            connection.exec_driver_sql(self._for_sqlite(tuple(rows[0])), rows)
            return
        for chunk in _chunks(rows, MAX_ROWS):
            connection.execute(self._for_rows, {"rows": json_text([self._to_json(row) for row in chunk])})

    def _to_json(self, row: Values) -> Values:
        if not self._binary:
            return row
        return row | {name: None if row[name] is None else row[name].hex() for name in self._binary}


def bulk_insert(table: sa.Table, *, without: str = "") -> BulkWrite:
    """Return a statement that inserts rows, without one column, which the database fills."""
    columns = [one for one in table.c if one.name != without]

    def for_rows() -> sa.Insert:
        parameter = _json_columns({one.name: one for one in columns})
        names = [one.name for one in columns]
        return sa.insert(table).from_select(names, sa.select(*map(parameter, names)))

    return BulkWrite(lambda: sa.insert(table), for_rows, _binary_names(columns))


def bulk_upsert(
    table: sa.Table, keys: Sequence[str], *, sums: Sequence[str] = (), largest: Sequence[str] = ()
) -> BulkWrite:
    """Return a statement that inserts rows. If a row with these keys exists, its ``sums`` are increased by
    the given values, and its ``largest`` keep the larger value; without either, it is unchanged. Rows are
    locked in the order of their keys, so that two transactions cannot deadlock.
    """

    def merge(change: Any) -> sa.Insert:
        new = change.excluded
        maxima = {
            name: sa.case((new[name] > table.c[name], new[name]), else_=table.c[name]) for name in largest
        }
        values = {name: table.c[name] + new[name] for name in sums} | maxima
        merged: sa.Insert = (
            change.on_conflict_do_update(index_elements=keys, set_=values)
            if values
            else change.on_conflict_do_nothing()
        )
        return merged

    def for_rows() -> sa.Insert:
        parameter, names = _json_columns({one.name: one for one in table.c}), [one.name for one in table.c]
        source = sa.select(*map(parameter, names)).order_by(*map(parameter, keys))
        return merge(insert_or(table, is_postgres=True).from_select(names, source))

    return BulkWrite(
        lambda: merge(insert_or(table, is_postgres=False)), for_rows, _binary_names(list(table.c))
    )


def bulk_update(table: sa.Table, keys: Sequence[str], names: Sequence[str]) -> BulkWrite:
    """Return a statement that updates these columns where the keys equal its parameters ``where_…``."""
    columns = [table.c[name] for name in names]

    def for_row() -> sa.Update:
        is_it = (table.c[key] == sa.bindparam(f"where_{key}") for key in keys)
        return sa.update(table).where(*is_it).values({name: sa.bindparam(name) for name in names})

    def for_rows() -> sa.Update:
        parameter = _json_columns({**_key_columns(table, keys), **{one.name: one for one in columns}})
        is_one = (table.c[key] == parameter(f"where_{key}") for key in keys)
        return sa.update(table).where(*is_one).values({name: parameter(name) for name in names})

    binary_keys = _binary_names([table.c[key] for key in keys])
    binary = [*_binary_names(columns), *(f"where_{name}" for name in binary_keys)]
    return BulkWrite(for_row, for_rows, binary)


def bulk_delete(table: sa.Table, *keys: str) -> BulkWrite:
    """Return a statement that deletes rows where the keys equal its parameters ``where_…``."""

    def for_row() -> sa.Delete:
        return sa.delete(table).where(*(table.c[key] == sa.bindparam(f"where_{key}") for key in keys))

    def for_rows() -> sa.Delete:
        parameter = _json_columns(_key_columns(table, keys))
        return sa.delete(table).where(*(table.c[key] == parameter(f"where_{key}") for key in keys))

    return BulkWrite(for_row, for_rows, ())


def _key_columns(table: sa.Table, keys: Sequence[str]) -> dict[str, sa.Column[Any]]:
    return {f"where_{key}": table.c[key] for key in keys}


def _json_columns(columns: dict[str, sa.Column[Any]]) -> Callable[[str], sa.ColumnElement[Any]]:
    """Return a function from a parameter's name to its column in a table made from one JSON value."""
    rows = sa.cast(sa.bindparam("rows", type_=sa.Text), sa.JSON)
    declared = [
        sa.column(name, sa.Text() if isinstance(one.type, sa.String | sa.LargeBinary) else one.type)
        for name, one in columns.items()
    ]
    table = sa.func.json_to_recordset(rows).table_valued(*declared).render_derived("input", with_types=True)

    def parameter(name: str) -> sa.ColumnElement[Any]:
        is_binary = isinstance(columns[name].type, sa.LargeBinary)
        return sa.func.decode(table.c[name], "hex") if is_binary else table.c[name]

    return parameter


def _binary_names(columns: Sequence[sa.Column[Any]]) -> list[str]:
    return [one.name for one in columns if isinstance(one.type, sa.LargeBinary)]


def json_text(rows: Sequence[Values]) -> str:
    """Encode rows as the single parameter for PostgreSQL."""
    return msgspec.json.encode(rows).decode()
