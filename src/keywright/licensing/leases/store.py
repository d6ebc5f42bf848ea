"""Leases in the database: functions over a transaction that has locked their licenses."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, func, select, update

from keywright.core.nouns import MAX_COUNTED
from keywright.db.bulk import Lookup, Values, bulk_delete, bulk_insert, bulk_update
from keywright.db.rows import to_datetime, to_optional_seconds, to_seconds
from keywright.db.schema import lease_counters, leases
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.licensing.leases.model import Lease, LeaseCounter

#: A license, a device's ID (0 without a device) and a holder.
Holding = tuple[int, int, str]


def find_leases(tx: ReadTransaction, names: Iterable[tuple[int, str]]) -> list[Lease]:
    """Return the leases with these licenses and IDs."""
    return list(map(_lease_of, _WITH_ID.find_rows(tx.connection, names)))


def find_held_by(tx: ReadTransaction, holdings: Iterable[Holding]) -> list[Lease]:
    """Return the counted leases of these holders."""
    return list(map(_lease_of, _HELD_BY.find_rows(tx.connection, holdings)))


def list_over(tx: ReadTransaction, license_ids: Iterable[int], now: datetime) -> list[Lease]:
    """Return the leases of these licenses that are over but still counted."""
    return list(map(_lease_of, _OVER.find_rows(tx.connection, license_ids, moment=to_seconds(now))))


def list_next_ends(tx: ReadTransaction, license_id: int, limit: int) -> list[Lease]:
    """Return the license's counted leases that end first."""
    found = tx.connection.execute(_NEXT_ENDS, {"of_license": license_id, "most": limit})
    return list(map(_lease_of, found))


def find_latest(tx: ReadTransaction, devices: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Lease]:
    """Return the lease that expires last of each of these devices (license and activation), by device; none
    for a device that has released all.
    """
    found: dict[tuple[int, int], Lease] = {}
    for lease in map(_lease_of, _OF_DEVICE.find_rows(tx.connection, devices)):
        device = lease.license_id, lease.activation_id or 0
        if device not in found or found[device].expires_at < lease.expires_at:
            found[device] = lease
    return found


def find_counters(tx: ReadTransaction, license_ids: Iterable[int]) -> dict[int, LeaseCounter]:
    """Return the counters of these licenses; a license that never granted a lease has none."""
    return {row[0]: _counter_of(row) for row in _COUNTERS.find_rows(tx.connection, license_ids)}


def find_barred_until(tx: ReadTransaction, holding: Holding) -> datetime | None:
    """Return until when a holder gets no lease, because the customer ended one."""
    license_id, activation_id, holder = holding
    column = leases.c
    is_its = (
        column.license_id == license_id,
        column.activation_id == activation_id,
        column.holder == holder,
        column.ended_at.is_not(None),
    )
    until = tx.connection.execute(select(func.max(column.barred_until)).where(*is_its)).scalar()
    return None if until is None else to_datetime(until)


def save_bar(tx: WriteTransaction, license_id: int, until: datetime) -> None:
    """Record that a holder of the license is barred until then, so that its holders are looked up."""
    change = update(lease_counters).where(lease_counters.c.license_id == license_id)
    tx.connection.execute(change.values(barred_until=to_seconds(until)))


def count_held(tx: ReadTransaction, license_ids: Iterable[int], now: datetime) -> dict[int, int]:
    """Return the number of leases held now by each of these licenses, if it has a counter."""
    counters = find_counters(tx, license_ids)
    over: dict[int, int] = {}
    for one in list_over(tx, counters, now) if counters else ():
        over[one.license_id] = over.get(one.license_id, 0) + 1
    return {number: one.held - over.get(number, 0) for number, one in counters.items()}


def list_leases(
    tx: ReadTransaction, license_id: int, *, before: tuple[int, str] | None, limit: int
) -> list[Lease]:
    """Return the license's leases, newest first, including those that ended without being released.
    ``before`` is the position of the last lease on the page before: its creation in seconds, and its ID.
    """
    query = select(*_LEASE).where(leases.c.license_id == license_id)
    if before is not None:
        at, lease_id = before
        is_older = leases.c.created_at < at
        query = query.where(is_older | ((leases.c.created_at == at) & (leases.c.lease_id < lease_id)))
    query = query.order_by(leases.c.created_at.desc(), leases.c.lease_id.desc()).limit(limit)
    return list(map(_lease_of, tx.connection.execute(query)))


def count_leases(tx: ReadTransaction, license_id: int) -> int:
    """Return the number of the license's stored leases; counts up to ``MAX_COUNTED + 1``."""
    some = select(leases.c.lease_id).where(leases.c.license_id == license_id).limit(MAX_COUNTED + 1)
    return int(tx.connection.execute(select(func.count()).select_from(some.subquery())).scalar_one())


def save_new_leases(tx: WriteTransaction, new: Sequence[Lease]) -> None:
    """Insert leases."""
    _INSERT.execute(tx.connection, list(map(_values, new)))


def save_leases(tx: WriteTransaction, changed: Iterable[tuple[Lease, Lease]]) -> None:
    """Update the times of leases, each given before and after."""
    renewed: list[Values] = []
    ended: list[Values] = []
    for before, after in changed:
        row = {
            "where_license_id": after.license_id,
            "where_lease_id": after.lease_id,
            "renewed_at": to_seconds(after.renewed_at),
            "expires_at": to_seconds(after.expires_at),
        }
        if before.ended_at == after.ended_at:
            renewed.append(row)
        else:
            moments = {name: getattr(after, name) for name in _ENDED}
            ended.append(row | {name: to_optional_seconds(one) for name, one in moments.items()})
    _RENEW.execute(tx.connection, renewed)
    _END.execute(tx.connection, ended)


def delete_leases(tx: WriteTransaction, names: Iterable[tuple[int, str]]) -> None:
    """Delete the leases with these licenses and IDs."""
    rows = [{"where_license_id": license_id, "where_lease_id": lease_id} for license_id, lease_id in names]
    _DELETE.execute(tx.connection, rows)


def prune(tx: WriteTransaction, kept: Mapping[int, int]) -> None:
    """Delete the oldest leases that ended without being released, until each of these licenses has at most as
    many as ``kept`` states.
    """
    for license_id, most in kept.items():
        tx.connection.execute(_PRUNE, {"of_license": license_id, "kept": most})


def save_new_counters(tx: WriteTransaction, new: Iterable[LeaseCounter]) -> None:
    """Insert counters."""
    rows = [{"license_id": one.license_id, "held": one.held, "places": one.places} for one in new]
    _INSERT_COUNTERS.execute(tx.connection, rows)


def save_counters(tx: WriteTransaction, changed: Iterable[tuple[LeaseCounter, LeaseCounter]]) -> None:
    """Update counters, each given before and after. An unchanged bound is not written."""
    counted: list[Values] = []
    rebound: list[Values] = []
    for before, after in changed:
        row = {"where_license_id": after.license_id, "held": after.held}
        if before.places == after.places:
            counted.append(row)
        else:
            rebound.append(row | {"places": after.places})
    _COUNT.execute(tx.connection, counted)
    _REBOUND.execute(tx.connection, rebound)


def recount_leases(tx: WriteTransaction, license_id: int, limit: int | None) -> list[int] | None:
    """Set the counter of a locked license to the number of its leases that have not ended; returns [before,
    after], or None if it was right. ``limit`` is that of the terms.
    """
    is_of = leases.c.license_id == license_id
    count = select(func.count()).select_from(leases).where(is_of, _IS_COUNTED)
    held = int(tx.connection.execute(count).scalar_one())
    counter = find_counters(tx, [license_id]).get(license_id, LeaseCounter(license_id, 0, 0))
    if counter.held == held:
        return None
    tx.connection.execute(delete(lease_counters).where(lease_counters.c.license_id == license_id))
    save_new_counters(tx, [LeaseCounter(license_id, held, max(limit or 0, held))])
    return [counter.held, held]


def _lease_of(row: Sequence[Any]) -> Lease:
    (license_id, lease_id, activation_id, holder, created, renewed, expires, ended, barred) = row
    return Lease(
        license_id,
        lease_id,
        activation_id or None,
        holder,
        to_datetime(created),
        to_datetime(renewed),
        to_datetime(expires),
        None if ended is None else to_datetime(ended),
        None if barred is None else to_datetime(barred),
    )


def _counter_of(row: Sequence[Any]) -> LeaseCounter:
    license_id, held, places, barred = row
    return LeaseCounter(license_id, held, places, None if barred is None else to_datetime(barred))


def _values(lease: Lease) -> Values:
    return {
        "license_id": lease.license_id,
        "lease_id": lease.lease_id,
        "activation_id": lease.activation_id or 0,
        "holder": lease.holder,
        "created_at": to_seconds(lease.created_at),
        "renewed_at": to_seconds(lease.renewed_at),
        "expires_at": to_seconds(lease.expires_at),
        "ended_at": to_optional_seconds(lease.ended_at),
        "barred_until": to_optional_seconds(lease.barred_until),
    }


_LEASE = [leases.c[name] for name in Lease.__struct_fields__]
_IS_COUNTED = leases.c.ended_at.is_(None)
_IS_OF = leases.c.license_id == bindparam("of_license")
_NAME = ["license_id", "lease_id"]

_WITH_ID = Lookup(select(*_LEASE), leases.c.license_id, leases.c.lease_id)
_HELD_BY = Lookup(
    select(*_LEASE).where(_IS_COUNTED), leases.c.license_id, leases.c.activation_id, leases.c.holder
)
_OF_DEVICE = Lookup(select(*_LEASE), leases.c.license_id, leases.c.activation_id)
_OVER = Lookup(
    select(*_LEASE).where(_IS_COUNTED, leases.c.expires_at <= bindparam("moment")), leases.c.license_id
)
_NEXT_ENDS = select(*_LEASE).where(_IS_OF, _IS_COUNTED).order_by(leases.c.expires_at).limit(bindparam("most"))
_COUNTERS = Lookup(
    select(*(lease_counters.c[name] for name in LeaseCounter.__struct_fields__)),
    lease_counters.c.license_id,
)
_INSERT = bulk_insert(leases)
_RENEW = bulk_update(leases, _NAME, ["renewed_at", "expires_at"])
_ENDED = ("ended_at", "barred_until")
_END = bulk_update(leases, _NAME, ["renewed_at", "expires_at", *_ENDED])
_DELETE = bulk_delete(leases, *_NAME)
_SURPLUS = (
    select(leases.c.lease_id)
    .where(_IS_OF, leases.c.ended_at.is_not(None))
    .order_by(leases.c.ended_at.desc(), leases.c.lease_id)
    .offset(bindparam("kept"))
)
_PRUNE = delete(leases).where(_IS_OF, leases.c.lease_id.in_(_SURPLUS))
_INSERT_COUNTERS = bulk_insert(lease_counters)
_COUNT = bulk_update(lease_counters, ["license_id"], ["held"])
_REBOUND = bulk_update(lease_counters, ["license_id"], ["held", "places"])
