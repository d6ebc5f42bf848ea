"""Rotate the secret of a database in use: reseal everything that is sealed with it.

From ``begin`` on, everything is written with the new secret. Both secrets are needed until ``reseal`` has
resealed the existing rows and ``finish`` has recorded that. Before ``begin``, every process that uses the
database must know both: a process that knows only the old secret would not find resealed keys, and could
accept a license key twice.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, select, text, tuple_, update

from keywright.core.crypto import KeyRing
from keywright.core.errors import StoreBusy, StoreError
from keywright.db import Storage, database_path
from keywright.db.bulk import Values, bulk_update
from keywright.db.retry import run_read, run_write
from keywright.db.schema import installation
from keywright.db.sealed_columns import QUERY, SEALED_COLUMNS, SealedColumn, SecretIds, find_secret_ids
from keywright.db.sqlite import SqliteStorage
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.db.urls import without_password

#: The primary key of a row.
_Key = Sequence[Any]


class Resealed(msgspec.Struct):
    """How many values were read, resealed, and unreadable with either secret."""

    read: int = 0
    changed: int = 0
    unreadable: int = 0


def reseal(storage: Storage, progress: Callable[[Resealed], None]) -> Resealed:
    """Reseal everything that is not sealed with the current secret, in small steps between the server's
    changes. After an interruption, it starts over and skips rows that are already resealed.
    """
    total = Resealed()
    for target in SEALED_COLUMNS:
        last: _Key | None = None
        while (
            end := run_read(storage, partial(_find_end, target=target, after=last), is_single=True)
        ) is not None:
            began = monotonic()
            step = run_write(storage, partial(_reseal_step, target=target, after=last, end=end))
            total = Resealed(
                total.read + step.read, total.changed + step.changed, total.unreadable + step.unreadable
            )
            progress(total)
            last = end
            # The server's changes need the same lock: leave it to them half of the time.
            sleep(monotonic() - began if step.changed else 0)
    return total


def _find_end(tx: ReadTransaction, target: SealedColumn, after: _Key | None) -> _Key | None:
    """Find the key of the last row of the next step; None when there are no more rows."""
    key = list(target.table.primary_key)
    query = select(*key).order_by(*key).limit(target.batch_size)
    if after is not None:
        query = query.where(tuple_(*key) > after)
    rows = tx.connection.execute(query).all()
    return tuple(rows[-1]) if rows else None


def _reseal_step(tx: WriteTransaction, target: SealedColumn, after: _Key | None, end: _Key) -> Resealed:
    """Reseal the rows after one key, up to another. They are locked in key order, as everywhere."""
    key = list(target.table.primary_key)
    within: list[ColumnElement[bool]] = [tuple_(*key) <= end]
    if after is not None:
        within.append(tuple_(*key) > after)
    columns = [*key, target.column] + ([] if target.blind_index is None else [target.blind_index])
    query = select(*columns).where(*within).order_by(*key).with_for_update()
    step, values = Resealed(), list[Values]()
    for row in tx.connection.execute(query):
        step.read += 1
        plain, ring = _unseal(tx.key_ring, target, row)
        if plain is None or ring is None:
            step.unreadable += 1
        elif ring.secret_id != tx.sealing.secret_id:
            values.append(_reseal_row(tx.sealing, target, row, plain))
    step.changed = len(values)
    names = [*(column.name for column in columns[len(key) :]), *target.other_indexes]
    bulk_update(target.table, [column.name for column in key], names).execute(tx.connection, values)
    return step


def _unseal(key_ring: KeyRing, target: SealedColumn, row: Any) -> tuple[bytes, KeyRing] | tuple[None, None]:
    """Return the plain value of a row, and the key ring that unseals it and computed its blind index; None
    and None if no ring does.
    """
    for ring in key_ring.rings:
        try:
            plain = ring.unseal(row._mapping[target.column], target.associated_data(row))
        except ValueError:
            continue
        if target.blind_index is None or ring.blind_index(plain.decode()) == row._mapping[target.blind_index]:
            return plain, ring
    return None, None


def _reseal_row(ring: KeyRing, target: SealedColumn, row: Any, plain: bytes) -> Values:
    values: Values = {f"where_{column.name}": row._mapping[column] for column in target.table.primary_key}
    values[target.column.name] = ring.seal(plain, target.associated_data(row))
    if target.blind_index is not None:
        values[target.blind_index.name] = ring.blind_index(plain.decode())
    for name, index in target.other_indexes.items():
        values[name] = index(ring, plain.decode())
    return values


#: The seconds to wait for other processes that have an SQLite file open.
_LOCK_TIMEOUT = 2.0
_BEGIN = "UPDATE installation SET previous_secret_id = secret_id, secret_id = ?"
#: While this table is locked, no process can start to use the database or write a license key.
_LOCK = "LOCK TABLE installation IN ACCESS EXCLUSIVE MODE"


class Progress(Enum):
    """The progress of a rotation."""

    NONE = "one secret is known, and the database is written with it"
    PREPARED = "two are known, and the database is written with the previous one"
    BEGUN = "the database is written with the new one, and some rows need the other"
    FINISHED = "two are known, and the database needs the new one only"


#: Returns both secrets: the new one, and the one that the database was written with so far.
TakeNew = Callable[[], KeyRing]


def find_progress(storage: Storage, key_ring: KeyRing) -> Progress:
    """Find the progress of the rotation of a database that these secrets can open."""
    secret_ids = run_read(storage, lambda tx: find_secret_ids(tx.connection))
    if secret_ids.previous is not None:
        return Progress.BEGUN
    if len(key_ring.rings) == 1:
        return Progress.NONE
    return Progress.FINISHED if secret_ids.current == key_ring.secret_id else Progress.PREPARED


def begin(url: str, key_ring: KeyRing, take_new: TakeNew) -> None:
    """Write everything with the secret that ``take_new`` returns, from now on.

    Raises ``StoreError`` if a process that does not know the new secret uses the database. Then nothing has
    begun; on PostgreSQL, ``take_new`` was called nevertheless, so that the process can get the new secret.
    """
    path = database_path(url)
    if path is None:
        _begin_on_postgres(url, take_new)
        return
    try:
        with SqliteStorage(path, key_ring).write_lock(), _exclusive_transaction(path) as writer:
            new = _require_pair(take_new(), _secret_ids_in(writer))
            writer.execute(_BEGIN, (new.secret_id,))
    except StoreBusy:
        raise _in_use(path) from None


def finish(storage: Storage, key_ring: KeyRing) -> None:
    """Record that nothing is sealed with the previous secret any more."""
    new, old = key_ring.rings
    query = update(installation).where(
        installation.c.secret_id == new.secret_id, installation.c.previous_secret_id == old.secret_id
    )
    run_write(storage, lambda tx: tx.connection.execute(query.values(previous_secret_id=None)))


def _begin_on_postgres(url: str, take_new: TakeNew) -> None:
    from keywright.db.session import COUNT_SESSIONS, Session

    # The name of a connection ends with the ID of the secret that it knows, see ``session.name_suffix``.
    count_unaware = f"{COUNT_SESSIONS} AND right(application_name, 18) <> ' +' || CAST(:secret_id AS text)"
    with closing(Session(url)) as session, session.transaction() as connection:
        connection.exec_driver_sql(_LOCK)
        new = _require_pair(take_new(), find_secret_ids(connection))
        unaware = connection.execute(text(count_unaware), {"secret_id": new.secret_id}).scalar_one()
        if unaware:
            raise StoreError(
                f"{unaware} sessions of servers or commands on {without_password(url)} do not have the new "
                "secret yet. Configure both secrets on every server, restart one server after the other, "
                "and run `keywright secret rotate` again."
            )
        values = {"secret_id": new.secret_id, "previous_secret_id": installation.c.secret_id}
        connection.execute(update(installation).values(values))


def _require_pair(key_ring: KeyRing, secret_ids: SecretIds) -> KeyRing:
    """Return the key ring. Raises ``StoreError`` unless the database uses the previous of its two secrets."""
    if secret_ids.previous is not None or [one.secret_id for one in key_ring.rings[1:]] != [
        secret_ids.current
    ]:
        raise StoreError("another command has rotated the secret in the meantime. Try again.")
    return key_ring


@contextmanager
def _exclusive_transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """A transaction on an SQLite file that no other process has open or can open."""
    where = f"{path.absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(where, uri=True, isolation_level=None, timeout=_LOCK_TIMEOUT)) as writer:
        # Set before the log is first read, so that SQLite requires exclusive access to the file.
        writer.execute("PRAGMA locking_mode=EXCLUSIVE")
        try:
            writer.execute("PRAGMA synchronous=FULL")
            writer.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as problem:
            if problem.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise _in_use(path) from None
            raise StoreError(f"{path} cannot be used: {problem}") from None
        yield writer
        writer.execute("COMMIT")


def _secret_ids_in(connection: sqlite3.Connection) -> SecretIds:
    try:
        row = connection.execute(QUERY).fetchone()
    except sqlite3.Error:
        row = None
    if row is None:
        raise StoreError(
            "the database is not migrated to this version yet: start the server once, then try again."
        )
    return SecretIds(*row)


def _in_use(path: Path) -> StoreError:
    return StoreError(
        f"{path} is in use by a server or another command. Stop the server, run `keywright secret rotate`, "
        "and start the server again once that is done."
    )
