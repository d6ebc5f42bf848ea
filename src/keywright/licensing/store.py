"""The small tables about licenses: notes and tags, refused calls, removals by customers, moments."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import bindparam, delete, func, insert, or_, select, tuple_, update

from keywright.db.bulk import Lookup, bulk_delete, bulk_insert, bulk_upsert, insert_or
from keywright.db.rows import to_columns, to_datetime, to_seconds
from keywright.db.schema import (
    checkpoints,
    license_moments,
    license_notes,
    license_tags,
    licenses,
    portal_removals,
    refusals,
)
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.events.store import advance_checkpoint
from keywright.licensing.moments import Place
from keywright.licensing.notes import Notes
from keywright.licensing.refusals import RefusedCall

_NOTES_OF = Lookup(select(license_notes.c.license_id, license_notes.c.note), license_notes.c.license_id)
_TAGS_OF = Lookup(select(license_tags.c.license_id, license_tags.c.tag), license_tags.c.license_id)
_DELETE_NOTES = [bulk_delete(table, "license_id") for table in (license_notes, license_tags)]


def find_notes(tx: ReadTransaction, license_ids: Collection[int]) -> dict[int, Notes]:
    """Return the notes and tags of these licenses, by license; ``Notes()`` if there are none."""
    notes = {row.license_id: row.note for row in _NOTES_OF.find_rows(tx.connection, license_ids)}
    tags: dict[int, set[str]] = {}
    for license_id, tag in _TAGS_OF.find_rows(tx.connection, license_ids):
        tags.setdefault(license_id, set()).add(tag)
    return {one: Notes(notes.get(one, ""), tuple(sorted(tags.get(one, ())))) for one in license_ids}


def save_notes(tx: WriteTransaction, license_id: int, notes: Notes) -> None:
    """Replace the note and tags of a license."""
    for change in _DELETE_NOTES:
        change.execute(tx.connection, [{"where_license_id": license_id}])
    if notes.note:
        values = {"license_id": license_id, "note": notes.note}
        tx.connection.execute(insert(license_notes).values(values))
    if notes.tags:
        rows = [{"license_id": license_id, "tag": one} for one in notes.tags]
        tx.connection.execute(insert(license_tags), rows)


#: The name in ``checkpoints`` of the time of the last save; its row is the lock for saving.
_CHECKPOINT = "refusals_saved"
#: The most old rows that a statement deletes or changes.
_MAX_OLD = 1_000
_FIELDS = RefusedCall.__struct_fields__

_REFUSALS_OF = Lookup(
    select(refusals.c.license_id, *(refusals.c[name] for name in _FIELDS)), refusals.c.license_id
)
_DELETE_REFUSALS = bulk_delete(refusals, "license_id")
_INSERT_REFUSALS = bulk_insert(refusals)
_KEY = tuple_(refusals.c.license_id, refusals.c.number)
_IS_OLD = refusals.c.refused_at < bindparam("before")
_OLD = select(refusals.c.license_id, refusals.c.number).where(_IS_OLD).limit(_MAX_OLD)
_DELETE_OLD = delete(refusals).where(_KEY.in_(_OLD))
_FORGET_ADDRESSES = (
    update(refusals).where(_KEY.in_(_OLD.where(refusals.c.ip_address != ""))).values(ip_address="")
)


def lock_refusals(tx: WriteTransaction, now: datetime) -> None:
    """Serialize saves by several servers: each reads what the others have saved, and replaces it."""
    advance_checkpoint(tx, _CHECKPOINT, to_seconds(now))


def list_refusals(tx: ReadTransaction, license_ids: Collection[int]) -> dict[int, list[RefusedCall]]:
    """Return the refused calls of these licenses, by license, newest first."""
    found: dict[int, list[RefusedCall]] = defaultdict(list)
    for license_id, *values in {tuple(row) for row in _REFUSALS_OF.find_rows(tx.connection, license_ids)}:
        fields = dict(zip(_FIELDS, values, strict=True))
        found[license_id].append(RefusedCall(**fields | {"refused_at": to_datetime(fields["refused_at"])}))
    for calls in found.values():
        calls.sort(key=lambda one: one.refused_at, reverse=True)
    return found


def save_refusals(tx: WriteTransaction, kept: Mapping[int, Sequence[RefusedCall]]) -> None:
    """Replace the refused calls of these licenses."""
    _DELETE_REFUSALS.execute(tx.connection, [{"where_license_id": number} for number in sorted(kept)])
    _INSERT_REFUSALS.execute(
        tx.connection,
        [
            {"license_id": license_id, "number": number} | to_columns(one)
            for license_id, calls in sorted(kept.items())
            for number, one in enumerate(calls)
        ],
    )


def delete_old_refusals(tx: WriteTransaction, before: datetime) -> int:
    """Delete some of the calls that were refused before this moment; returns how many."""
    return tx.connection.execute(_DELETE_OLD, {"before": to_seconds(before)}).rowcount


def forget_addresses(tx: WriteTransaction, before: datetime) -> int:
    """Erase the IP addresses of some of the calls that were refused before this moment; returns how many."""
    return tx.connection.execute(_FORGET_ADDRESSES, {"before": to_seconds(before)}).rowcount


_REMOVALS = Lookup(
    select(portal_removals.c.license_id, portal_removals.c.released_at), portal_removals.c.license_id
)
_INSERT_REMOVALS = bulk_upsert(portal_removals, ["license_id", "released_at", "activation_id"])
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
    """The removals of a license that no longer count: those up to ``until``, and all but the ``most``
    newest.
    """

    until: datetime
    most: int


def list_removals(tx: ReadTransaction, license_ids: Iterable[int]) -> dict[int, list[datetime]]:
    """Return when customers removed devices of these licenses, by license."""
    found: dict[int, list[datetime]] = {}
    for license_id, removed_at in _REMOVALS.find_rows(tx.connection, license_ids):
        found.setdefault(license_id, []).append(to_datetime(removed_at))
    return found


def save_removals(
    tx: WriteTransaction, new: Iterable[tuple[int, datetime, int]], outdated: Mapping[int, Outdated]
) -> None:
    """Insert removals (license, time, activation), at most one per device and second, and delete those that
    no longer count.
    """
    rows = [
        {"license_id": license_id, "released_at": to_seconds(at), "activation_id": activation_id}
        for license_id, at, activation_id in new
    ]
    _INSERT_REMOVALS.execute(tx.connection, rows)
    for number, (until, most) in outdated.items():
        of_license = {"where_id": number, "until": to_seconds(until), "most": most}
        tx.connection.execute(_DELETE_OUTDATED, of_license)


#: The largest tolerated difference between the clocks of two servers.
CLOCKS_APART = timedelta(minutes=30)
_COLUMNS = [licenses.c[name] for name in "id expires_at created_at status customer_id product_id".split()]


class Expiring(NamedTuple):
    """What moments need of a license that expires."""

    id: int
    expires_at: datetime
    created_at: datetime
    status: int
    customer_id: int | None
    product_id: int | None

    @property
    def place(self) -> Place:
        """The position among the licenses by expiry."""
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
    """Record that a moment became an event. Returns False if it already was one: the last one of this kind
    had the same subject and, if ``again_after`` is set, was less than that ago. A recorded time that is too
    far ahead of now comes from a wrong clock, and does not count.
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
    """Return the subject (an expiry, a limit or a number of days) of the last moment of each kind, and when
    it became an event, by license and kind.
    """
    column = license_moments.c
    query = select(column.license_id, column.kind, column.about, column.recorded_at)
    found = tx.connection.execute(query.where(column.license_id.in_(license_ids)))
    return {(row.license_id, row.kind): (row.about, row.recorded_at) for row in found}


def list_expiring(tx: ReadTransaction, after: Place, until: datetime, *, limit: int) -> list[Expiring]:
    """Return the next licenses after a position that expire up to a moment."""
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
    """The position up to which moments this many days before the expiry are events; None at first."""
    rows = tx.connection.execute(_PLACES.where(checkpoints.c.name.in_(_names(days))))
    found = {row.name: row.last_id for row in rows}
    times, ids = _names(days)
    return Place(found[times], found.get(ids, 0)) if times in found else None


def lock_place(tx: WriteTransaction, days: int) -> Place | None:
    """Return the same position, locked until the end of the transaction."""
    tx.connection.execute(_PLACES.where(checkpoints.c.name == _names(days)[0]).with_for_update())
    return find_place(tx, days)


def save_place(tx: WriteTransaction, days: int, place: Place, *, is_new: bool) -> None:
    """Update the position, or insert the first one."""
    for name, value in zip(_names(days), place, strict=True):
        if is_new:
            tx.connection.execute(insert(checkpoints).values(name=name, last_id=value))
        else:
            tx.connection.execute(update(checkpoints).where(checkpoints.c.name == name).values(last_id=value))


def find_begin(tx: ReadTransaction) -> datetime | None:
    """Return when moments were first processed."""
    query = select(checkpoints.c.last_id).where(checkpoints.c.name == _BEGIN)
    return tx.first(query, lambda row: to_datetime(row[0]))


def save_begin(tx: WriteTransaction, now: datetime) -> None:
    """Record that moments are first processed now."""
    tx.connection.execute(insert(checkpoints).values(name=_BEGIN, last_id=to_seconds(now)))


_BEGIN = "moments_begin"
_PLACES = select(checkpoints.c.name, checkpoints.c.last_id)


def _names(days: int) -> Sequence[str]:
    return (f"moments_{days}", f"moments_{days}_id")


def _expiring_of(row: Sequence[Any]) -> Expiring:
    return Expiring(row[0], to_datetime(row[1]), to_datetime(row[2]), row[3], row[4], row[5])
