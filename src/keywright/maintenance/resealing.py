"""Seal anew, with the secret that is in force, what is sealed with the previous one."""

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic, sleep
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, select, tuple_

from keywright.core.crypto import KeyRing
from keywright.db import Storage, sealed
from keywright.db.bulk import Values, updating
from keywright.db.retry import ask, change
from keywright.db.sealed import Sealed
from keywright.db.transaction import ReadTransaction, WriteTransaction

#: The primary key of a row.
_Key = Sequence[Any]


class Resealed(msgspec.Struct):
    """The numbers of values looked at, sealed anew, and unreadable with either secret."""

    seen: int = 0
    changed: int = 0
    unreadable: int = 0


def reseal(storage: Storage, progress: Callable[[Resealed], None]) -> Resealed:
    """Seal everything anew that is not sealed with the secret in force, in small steps beside the server's
    changes. When it was broken off, it begins again, and leaves alone what is done.
    """
    so_far = Resealed()
    for one in sealed.ALL:
        last: _Key | None = None
        while (end := ask(storage, partial(_end_of_step, one=one, after=last), is_single=True)) is not None:
            began = monotonic()
            done = change(storage, partial(_reseal_step, one=one, after=last, end=end))
            so_far = Resealed(
                so_far.seen + done.seen,
                so_far.changed + done.changed,
                so_far.unreadable + done.unreadable,
            )
            progress(so_far)
            last = end
            # The server's changes wait for the same lock: leave it half of the time.
            sleep(monotonic() - began if done.changed else 0)
    return so_far


def _end_of_step(tx: ReadTransaction, one: Sealed, after: _Key | None) -> _Key | None:
    """The key of the last row of the next step; None when there are no more rows."""
    key = list(one.table.primary_key)
    query = select(*key).order_by(*key).limit(one.at_once)
    if after is not None:
        query = query.where(tuple_(*key) > after)
    rows = tx.connection.execute(query).all()
    return tuple(rows[-1]) if rows else None


def _reseal_step(tx: WriteTransaction, one: Sealed, after: _Key | None, end: _Key) -> Resealed:
    """Seal the rows anew that come after a key, up to another; they are locked in order, as everywhere."""
    key = list(one.table.primary_key)
    within: list[ColumnElement[bool]] = [tuple_(*key) <= end]
    if after is not None:
        within.append(tuple_(*key) > after)
    columns = [*key, one.column] + ([] if one.found_by is None else [one.found_by])
    query = select(*columns).where(*within).order_by(*key).with_for_update()
    done, values = Resealed(), list[Values]()
    for row in tx.connection.execute(query):
        done.seen += 1
        plain, ring = _unseal(tx.key_ring, one, row)
        if plain is None or ring is None:
            done.unreadable += 1
        elif ring.secret_mark != tx.sealing.secret_mark:
            values.append(_reseal_row(tx.sealing, one, row, plain))
    done.changed = len(values)
    names = [column.name for column in columns[len(key) :]]
    updating(one.table, [column.name for column in key], names).execute(tx.connection, values)
    return done


def _unseal(key_ring: KeyRing, one: Sealed, row: Any) -> tuple[bytes, KeyRing] | tuple[None, None]:
    """The plain value of a row, and the secret that it is sealed, and found, with."""
    for ring in key_ring.rings:
        try:
            plain = ring.unseal(row._mapping[one.column], one.place(row))
        except ValueError:
            continue
        if one.found_by is None or ring.fingerprint(plain.decode()) == row._mapping[one.found_by]:
            return plain, ring
    return None, None


def _reseal_row(ring: KeyRing, one: Sealed, row: Any, plain: bytes) -> Values:
    values: Values = {f"at_{column.name}": row._mapping[column] for column in one.table.primary_key}
    values[one.column.name] = ring.seal(plain, one.place(row))
    if one.found_by is not None:
        values[one.found_by.name] = ring.fingerprint(plain.decode())
    return values
