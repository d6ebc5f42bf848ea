"""Removals by customers in the database."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import bindparam, delete, func, or_, select

from keywright.db.bulk import Lookup, bulk_upsert
from keywright.db.rows import to_datetime, to_seconds
from keywright.db.schema import portal_removals
from keywright.db.transaction import ReadTransaction, WriteTransaction

_REMOVALS = Lookup(
    select(portal_removals.c.license_id, portal_removals.c.released_at), portal_removals.c.license_id
)
_INSERT = bulk_upsert(portal_removals, ["license_id", "released_at", "activation_id"])
_IS_OF = portal_removals.c.license_id == bindparam("where_id")
_NEWEST = (
    select(portal_removals.c.released_at)
    .where(_IS_OF)
    .order_by(portal_removals.c.released_at.desc())
    .limit(bindparam("most"))
    .subquery()
)
_DELETE_OUTDATED = delete(portal_removals).where(
    _IS_OF,
    or_(
        portal_removals.c.released_at <= bindparam("until"),
        portal_removals.c.released_at < select(func.min(_NEWEST.c.released_at)).scalar_subquery(),
    ),
)


class Outdated(NamedTuple):
    """The removals of a license that do not count any more: those until then, and all but the ``most``
    newest.
    """

    until: datetime
    most: int


def list_removals(tx: ReadTransaction, license_ids: Iterable[int]) -> dict[int, list[datetime]]:
    """When customers freed devices of these licenses, by license."""
    found: dict[int, list[datetime]] = {}
    for license_id, removed_at in _REMOVALS.find_rows(tx.connection, license_ids):
        found.setdefault(license_id, []).append(to_datetime(removed_at))
    return found


def save_removals(
    tx: WriteTransaction, new: Iterable[tuple[int, datetime, int]], outdated: Mapping[int, Outdated]
) -> None:
    """Insert removals (license, time, activation), of a device at most one in a second, and delete those that
    do not count any more.
    """
    rows = [
        {"license_id": license_id, "released_at": to_seconds(at), "activation_id": activation_id}
        for license_id, at, activation_id in new
    ]
    _INSERT.execute(tx.connection, rows)
    for number, (until, most) in outdated.items():
        of_license = {"where_id": number, "until": to_seconds(until), "most": most}
        tx.connection.execute(_DELETE_OUTDATED, of_license)
