"""Releases by customers in the database."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import bindparam, delete, select

from keywright.db.bulk import Lookup, bulk_insert
from keywright.db.rows import to_datetime, to_seconds
from keywright.db.schema import portal_releases
from keywright.db.transaction import ReadTransaction, WriteTransaction

_RELEASES = Lookup(
    select(portal_releases.c.license_id, portal_releases.c.released_at), portal_releases.c.license_id
)
_INSERT = bulk_insert(portal_releases)
_DELETE_OLD = delete(portal_releases).where(
    portal_releases.c.license_id == bindparam("where_id"), portal_releases.c.released_at <= bindparam("until")
)


def list_releases(tx: ReadTransaction, license_ids: Iterable[int]) -> dict[int, list[datetime]]:
    """When customers freed devices of these licenses, by license."""
    found: dict[int, list[datetime]] = {}
    for license_id, released_at in _RELEASES.find_rows(tx.connection, license_ids):
        found.setdefault(license_id, []).append(to_datetime(released_at))
    return found


def save_releases(
    tx: WriteTransaction, new: Iterable[tuple[int, datetime, int]], old_until: Mapping[int, datetime]
) -> None:
    """Insert releases (license, time, activation), and delete those of a license until the given time."""
    rows = [
        {"license_id": license_id, "released_at": to_seconds(at), "activation_id": activation_id}
        for license_id, at, activation_id in new
    ]
    old = [{"where_id": number, "until": to_seconds(until)} for number, until in old_until.items()]
    if old:
        tx.connection.execute(_DELETE_OLD, old)
    _INSERT.execute(tx.connection, rows)
