"""Moments in the database."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import insert, or_, select, tuple_, update

from keywright.db.bulk import insert_or
from keywright.db.rows import to_datetime, to_seconds
from keywright.db.schema import checkpoints, license_moments, licenses
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.licensing.moments import Place

#: The clocks of two servers may be so far apart.
CLOCKS_APART = timedelta(minutes=30)
_COLUMNS = [licenses.c[name] for name in "id expires_at created_at status customer_id product_id".split()]


class Expiring(NamedTuple):
    """A license by its expiry."""

    id: int
    expires_at: datetime
    created_at: datetime
    status: int
    customer_id: int | None
    product_id: int | None

    @property
    def place(self) -> Place:
        """Its place among the licenses by expiry."""
        return Place(to_seconds(self.expires_at), self.id)


def mark(
    tx: WriteTransaction,
    license_id: int,
    kind: str,
    about: int,
    now: datetime,
    *,
    again_after: timedelta | None = None,
) -> bool:
    """Remember that a moment was made an event. Returns False where it was one already: the last one of this
    kind was about the same, and less than ``again_after`` ago. One that is later than now was passed by a
    clock that was ahead.
    """
    row = {"license_id": license_id, "kind": kind, "about": about, "recorded_at": to_seconds(now)}
    statement = insert_or(license_moments, is_postgres=tx.is_postgres).values(row)
    column = license_moments.c
    is_new = or_(column.about != about, column.recorded_at > to_seconds(now + CLOCKS_APART))
    if again_after is not None:
        is_new = or_(is_new, column.recorded_at <= to_seconds(now - again_after))
    statement = statement.on_conflict_do_update(
        index_elements=["license_id", "kind"],
        set_={"about": about, "recorded_at": to_seconds(now)},
        where=is_new,
    )
    counted = statement.inline().execution_options(preserve_rowcount=True)
    return int(tx.connection.execute(counted).rowcount) > 0


def find_marks(tx: ReadTransaction, license_ids: Sequence[int]) -> dict[tuple[int, str], tuple[int, int]]:
    """The expiry or limit that the last moment of each kind was about, and when it was made an event, by
    license and kind.
    """
    column = license_moments.c
    query = select(column.license_id, column.kind, column.about, column.recorded_at)
    found = tx.connection.execute(query.where(column.license_id.in_(license_ids)))
    return {(row.license_id, row.kind): (row.about, row.recorded_at) for row in found}


def list_expiring(tx: ReadTransaction, after: Place, until: datetime, *, limit: int) -> list[Expiring]:
    """The next licenses after a place that expire up to a moment."""
    position = (licenses.c.expires_at, licenses.c.id)
    query = (
        select(*_COLUMNS)
        .where(
            licenses.c.expires_at.is_not(None),
            tuple_(*position) > tuple_(*after),
            licenses.c.expires_at <= to_seconds(until),
        )
        .order_by(*position)
        .limit(limit)
    )
    return [_expiring_of(row) for row in tx.connection.execute(query)]


def find_place(tx: ReadTransaction, days: int) -> Place | None:
    """The place up to which the moments so many days before the expiry are events; None before the first."""
    rows = tx.connection.execute(_PLACES.where(checkpoints.c.name.in_(_names(days))))
    found = {row.name: row.last_id for row in rows}
    times, ids = _names(days)
    return Place(found[times], found.get(ids, 0)) if times in found else None


def lock_place(tx: WriteTransaction, days: int) -> Place | None:
    """The same, locked until the end of the transaction."""
    tx.connection.execute(_PLACES.where(checkpoints.c.name == _names(days)[0]).with_for_update())
    return find_place(tx, days)


def save_place(tx: WriteTransaction, days: int, place: Place, *, is_new: bool) -> None:
    """Update the place, or insert the first one."""
    for name, value in zip(_names(days), place, strict=True):
        if is_new:
            tx.connection.execute(insert(checkpoints).values(name=name, last_id=value))
        else:
            tx.connection.execute(update(checkpoints).where(checkpoints.c.name == name).values(last_id=value))


def find_begin(tx: ReadTransaction) -> datetime | None:
    """When moments were made events for the first time."""
    query = select(checkpoints.c.last_id).where(checkpoints.c.name == _BEGIN)
    return tx.first(query, lambda row: to_datetime(row[0]))


def save_begin(tx: WriteTransaction, now: datetime) -> None:
    """Remember that it is now."""
    tx.connection.execute(insert(checkpoints).values(name=_BEGIN, last_id=to_seconds(now)))


_BEGIN = "moments_begin"
_PLACES = select(checkpoints.c.name, checkpoints.c.last_id)


def _names(days: int) -> Sequence[str]:
    return (f"moments_{days}", f"moments_{days}_id")


def _expiring_of(row: Sequence[Any]) -> Expiring:
    return Expiring(row[0], to_datetime(row[1]), to_datetime(row[2]), row[3], row[4], row[5])
