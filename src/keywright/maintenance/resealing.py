"""Reseal, with the secret in force, the values that are sealed with the previous one."""

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic, sleep
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, select, tuple_

from keywright.core.crypto import KeyRing
from keywright.db import Storage
from keywright.db.bulk import Values, bulk_update
from keywright.db.retry import run_read, run_write
from keywright.db.sealed_columns import SEALED_COLUMNS, SealedColumn
from keywright.db.transaction import ReadTransaction, WriteTransaction

#: The primary key of a row.
_Key = Sequence[Any]


class Resealed(msgspec.Struct):
    """The numbers of values read, resealed, and unreadable with either secret."""

    read: int = 0
    changed: int = 0
    unreadable: int = 0


def reseal(storage: Storage, progress: Callable[[Resealed], None]) -> Resealed:
    """Reseal everything that is not sealed with the secret in force, in small steps between the server's
    changes. After an interruption it starts over, and leaves the rows that are resealed already.
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
            # The server's changes wait for the same lock: leave it to them half of the time.
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
    """Reseal the rows after one key, up to another; they are locked in order, as everywhere."""
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
    """Return the plain value of a row, and the secret with which it is sealed, and found."""
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
