"""Copy a database into another, empty one."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Connection, Table, bindparam, delete, func, select, text, update

from keywright.core.errors import StoreError
from keywright.db.bulk import bulk_insert, is_postgres
from keywright.db.schema import (
    ID_KINDS,
    checkpoints,
    installation,
    metadata,
    portal_links,
    portal_sessions,
    portal_sign_ins,
    sequences,
    sessions,
    signing_keys,
)
from keywright.db.sealed_columns import find_secret_ids
from keywright.db.sqlite import SqliteStorage
from keywright.maintenance.inspection import last_number

if TYPE_CHECKING:
    from keywright.db import Storage

_ROWS_AT_ONCE = 1_000
#: The rows of the first two tables were written when the target was created; users and customers sign in
#: again.
_NOT_COPIED = (installation, sequences, sessions, portal_links, portal_sessions, portal_sign_ins)
_TABLES = [table for table in metadata.sorted_tables if table not in _NOT_COPIED]
_SET_LAST = text("SELECT setval(:name, :last)").bindparams(bindparam("last", type_=BigInteger))


def copy(source: "Storage", target: "Storage", progress: Callable[[str, int], None]) -> None:
    """Copy all rows except sessions, atomically; the target continues the ID sequences of the source.

    The source is read as one snapshot; an SQLite source cannot be written during the copy. ``progress`` is
    called with each table's name and row count. Raises ``StoreError`` if the target is not empty, or is the
    source.
    """
    paths = [one.path for one in (source, target) if isinstance(one, SqliteStorage)]
    if len(paths) == 2 and paths[0].samefile(paths[1]):
        # It would wait for its own lock.
        raise StoreError("this is the database that is to be copied. Name another one, which is empty.")
    no_writers = source.write_lock() if isinstance(source, SqliteStorage) else nullcontext()
    with no_writers, source.read() as reading, target.write() as writing:
        old, new = reading.connection, writing.connection
        # A server that ran on the empty database has saved its checkpoints, and created a signing key;
        # without licenses, nothing was signed with it.
        new.execute(delete(checkpoints))
        new.execute(delete(signing_keys))
        for table in _TABLES:
            if new.execute(select(table).limit(1)).first() is not None:
                what = table.name.replace("_", " ")
                raise StoreError(f"the target database already contains {what}. Name an empty database.")
        for table in _TABLES:
            progress(table.name, _copy_table(table, old, new))
        # The rows stay sealed with the secrets of the source.
        secret_ids = find_secret_ids(old)
        new.execute(
            update(installation).values(secret_id=secret_ids.current, previous_secret_id=secret_ids.previous)
        )
        for kind in ID_KINDS:
            _set_last(new, kind, last_number(reading, kind))
        if is_postgres(new):
            _continue_sequences(new)


def _copy_table(table: Table, old: Connection, new: Connection) -> int:
    change, copied = bulk_insert(table), 0
    order = list(table.primary_key)
    for partition in old.execute(select(table).order_by(*order)).yield_per(_ROWS_AT_ONCE).partitions():
        rows: list[dict[str, Any]] = [dict(row._mapping) for row in partition]
        change.execute(new, rows)
        copied += len(rows)
    return copied


def _set_last(connection: Connection, kind: str, last: int) -> None:
    if is_postgres(connection):
        if last:
            connection.execute(_SET_LAST, {"name": f"{kind}_id_seq", "last": last})
        return
    connection.execute(update(sequences).where(sequences.c.name == kind).values(last_id=last))


def _continue_sequences(connection: Connection) -> None:
    """Advance each sequence to the largest ID: PostgreSQL does not do so for explicitly inserted IDs."""
    for table in _TABLES:
        column = table.autoincrement_column
        if column is None:
            continue
        last = connection.execute(select(func.max(column))).scalar()
        sequence = connection.execute(select(func.pg_get_serial_sequence(table.name, column.name))).scalar()
        if last is not None and sequence is not None:
            connection.execute(_SET_LAST, {"name": sequence, "last": last})
