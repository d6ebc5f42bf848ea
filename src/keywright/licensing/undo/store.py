"""Snapshots of deleted licenses: all that is needed to restore one, sealed.

A snapshot contains plain values: blind indexes and sealed columns are computed again with the secret at the
time of restoring. It has no IP addresses and user agents of devices that were given up, and no leases, which
last for minutes.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import LargeBinary, Table, and_, delete, func, select, update

from keywright.db.bulk import Lookup, Values, bulk_insert
from keywright.db.rows import to_datetime, to_seconds
from keywright.db.schema import (
    activations,
    deleted_licenses,
    last_seen,
    license_claims,
    license_moments,
    license_notes,
    license_tags,
    license_transfers,
    licenses,
    meter_usage,
    new_devices,
    portal_removals,
    rotated_keys,
    trials,
)
from keywright.db.sealed_columns import snapshot_associated_data
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.licensing.activations.store import activation_values
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import INSERT_LICENSES, license_values, new_license_values
from keywright.licensing.undo.rules import Deleted, DeletedLicense, Snapshot
from keywright.licensing.usage.store import end_packages, take_back

#: A license with more activations than this, active or given up, is deleted without a snapshot.
MAX_RECORDS = 10_000
#: The tables whose rows of a license are stored unchanged.
KEPT_TABLES = (
    *(activations, last_seen, license_moments, license_notes, license_tags),
    *(meter_usage, new_devices, portal_removals, license_claims, license_transfers),
)
_ROWS_OF = {
    table: Lookup(select(table), table.c.id if table is licenses else table.c.license_id)
    for table in (licenses, *KEPT_TABLES, rotated_keys, trials)
}
_INSERTS = {table.name: bulk_insert(table) for table in KEPT_TABLES}
_INSERT_ROTATED, _INSERT_SNAPSHOTS = bulk_insert(rotated_keys), bulk_insert(deleted_licenses)
_NO_ADDRESS = {"ip_address": "", "user_agent": ""}
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(Snapshot).decode

_Rows = Mapping[int, list[Values]]


def is_kept(license: License) -> bool:
    """Whether a snapshot of the license is kept when it is deleted."""
    return license.record_count <= MAX_RECORDS


def keep_snapshots(tx: WriteTransaction, deleted: Collection[Deleted]) -> None:
    """Store snapshots of these licenses, with the changes of their transaction."""
    kept = [one for one in deleted if is_kept(one.license)]
    if not kept:
        return
    ids = [one.license.id for one in kept]
    rows = {table.name: _rows_of(tx, table, ids) for table in _ROWS_OF}
    values = [
        {
            "license_id": one.license.id,
            "customer_id": one.license.customer_id,
            "sealed_snapshot": tx.sealing.seal(
                _encode(_snapshot_of(tx, one, rows)), snapshot_associated_data(one.license.id)
            ),
            "deleted_at": to_seconds(one.deleted_at),
        }
        for one in kept
    ]
    _INSERT_SNAPSHOTS.execute(tx.connection, values)


def find_snapshot(tx: ReadTransaction, license_id: int) -> Snapshot | None:
    """The snapshot of a deleted license, or None. Raises ``ValueError`` if it cannot be read."""
    query = select(deleted_licenses.c.sealed_snapshot).where(deleted_licenses.c.license_id == license_id)
    sealed = tx.connection.execute(query).scalar()
    return None if sealed is None else _unseal(tx, license_id, sealed)


def restore(tx: WriteTransaction, snapshot: Snapshot, license: License) -> None:
    """Insert the license and what belonged to it, and delete the snapshot."""
    kept = {name: one for name, one in snapshot.license.items() if name in licenses.c}
    limit, taken = license.times_activated_max, license.times_activated
    places = None if limit is None else max(limit, taken)
    row = dict.fromkeys(licenses.c.keys()) | kept | new_license_values(tx, license) | {"places": places}
    INSERT_LICENSES.execute(tx.connection, [row])
    used = take_back(tx, snapshot.rows.get(meter_usage.name, []), license)
    for name, insert in _INSERTS.items():
        insert.execute(tx.connection, snapshot.rows.get(name, []) if name != meter_usage.name else used)
    replaced = [
        {
            "license_id": license.id,
            "key_hmac": tx.sealing.blind_index(key),
            "sealed_key": tx.sealing.seal_key(key, license.id),
            "rotated_at": rotated_at,
        }
        for key, rotated_at in snapshot.rotated_keys
    ]
    _INSERT_ROTATED.execute(tx.connection, replaced)
    if snapshot.trial_email is not None:
        is_its = trials.c.license_id == license.id
        tx.connection.execute(update(trials).where(is_its).values(email=snapshot.trial_email))
    tx.connection.execute(delete(deleted_licenses).where(deleted_licenses.c.license_id == license.id))


def license_of(snapshot: Snapshot, license_id: int) -> License:
    """Return the license in a snapshot, with counters that match the activations in it."""
    values: dict[str, Any] = {name: snapshot.license.get(name) for name in License.__struct_fields__}
    for name in ("created_at", "updated_at", "expires_at"):
        if values[name] is not None:
            values[name] = to_datetime(values[name])
    kept = snapshot.rows.get("activations", [])
    active = [one.get("is_counted", 1) for one in kept if one["deactivated_at"] is None]
    counters = {
        "times_activated": len(active) - active.count(0),
        "uncounted_count": active.count(0),
        "deactivated_count": len(kept) - len(active),
    }
    values["quantity"] = values["quantity"] or 1
    return License(**values | counters | {"id": license_id, "key": snapshot.key})


def list_deleted(tx: ReadTransaction, *, before: tuple[int, int] | None, limit: int) -> list[DeletedLicense]:
    """Return licenses that can be restored, most recently deleted first, after a position (seconds, ID)."""
    column = deleted_licenses.c
    query = select(column.license_id, column.deleted_at)
    if before is not None:
        at, license_id = before
        is_at = (column.deleted_at == at) & (column.license_id < license_id)
        query = query.where((column.deleted_at < at) | is_at)
    query = query.order_by(column.deleted_at.desc(), column.license_id.desc()).limit(limit)
    found = []
    for id, deleted_at in tx.connection.execute(query).all():
        # One at a time: with its devices, a snapshot may take megabytes.
        snapshot = find_snapshot(tx, id)
        if snapshot is not None:
            found.append(DeletedLicense(license_of(snapshot, id), to_datetime(deleted_at)))
    return found


def list_of_customer(
    tx: ReadTransaction, customer_id: int, *, after_id: int, limit: int
) -> list[tuple[int, Snapshot]]:
    """Return the snapshots of the next deleted licenses of a customer after an ID, with the licenses' IDs."""
    column = deleted_licenses.c
    is_next = and_(column.customer_id == customer_id, column.license_id > after_id)
    query = select(column.license_id, column.sealed_snapshot).where(is_next)
    found = tx.connection.execute(query.order_by(column.license_id).limit(limit))
    return [(row.license_id, _unseal(tx, row.license_id, row.sealed_snapshot)) for row in found]


def count_deleted_of_customer(tx: ReadTransaction, customer_id: int, *, most: int) -> int:
    """Count the snapshots of a customer's deleted licenses, up to ``most``."""
    own = select(deleted_licenses.c.license_id).where(deleted_licenses.c.customer_id == customer_id)
    return int(
        tx.connection.execute(select(func.count()).select_from(own.limit(most).subquery())).scalar_one()
    )


def delete_of_customer(tx: WriteTransaction, customer_id: int) -> int:
    """Delete the snapshots of a customer's deleted licenses; returns how many."""
    query = delete(deleted_licenses).where(deleted_licenses.c.customer_id == customer_id)
    return tx.connection.execute(query).rowcount


def delete_old(tx: WriteTransaction, before: datetime, *, limit: int) -> int:
    """Delete some snapshots of licenses that were deleted before this moment; returns how many. Their usage
    periods without an end are ended.
    """
    column = deleted_licenses.c
    old = select(column.license_id).where(column.deleted_at < to_seconds(before))
    some = old.order_by(column.deleted_at).limit(limit)
    ids = tx.connection.execute(some).scalars().all()
    end_packages(tx, ids, before)
    return tx.connection.execute(delete(deleted_licenses).where(column.license_id.in_(ids))).rowcount


def list_unreadable(tx: ReadTransaction, *, after_id: int, limit: int) -> tuple[list[int], int | None]:
    """Return which licenses of the next snapshots cannot be read, and the ID to continue after."""
    column = deleted_licenses.c
    query = select(column.license_id, column.sealed_snapshot).where(column.license_id > after_id)
    found = tx.connection.execute(query.order_by(column.license_id).limit(limit)).all()
    unreadable = [
        row.license_id for row in found if not _is_readable(tx, row.license_id, row.sealed_snapshot)
    ]
    return unreadable, found[-1].license_id if len(found) == limit else None


def _is_readable(tx: ReadTransaction, license_id: int, sealed: bytes) -> bool:
    try:
        _unseal(tx, license_id, sealed)
    except (ValueError, msgspec.MsgspecError):
        return False
    return True


def _unseal(tx: ReadTransaction, license_id: int, sealed: bytes) -> Snapshot:
    return _decode(tx.key_ring.unseal(sealed, snapshot_associated_data(license_id)))


def _rows_of(tx: ReadTransaction, table: Table, license_ids: Collection[int]) -> _Rows:
    found = defaultdict[int, list[Values]](list)
    for row in _ROWS_OF[table].find_rows(tx.connection, license_ids):
        values = dict(zip(table.c.keys(), row, strict=True))
        found[values["id" if table is licenses else "license_id"]].append(values)
    return found


def _snapshot_of(tx: ReadTransaction, one: Deleted, rows: Mapping[str, _Rows]) -> Snapshot:
    id = one.license.id
    row = rows["licenses"][id][0] | license_values(one.license)
    emails = [trial["email"] for trial in rows["trials"].get(id, ()) if trial["email"] is not None]
    kept = {table.name: rows[table.name].get(id, []) for table in KEPT_TABLES}
    return Snapshot(
        key=one.license.key,
        license={name: row[name] for name, column in licenses.c.items() if not _is_binary(column)},
        rows=kept | {"activations": _activations_of(one, kept["activations"])},
        rotated_keys=[
            (tx.key_ring.unseal_key(old["sealed_key"], id), old["rotated_at"])
            for old in rows["rotated_keys"].get(id, ())
        ],
        trial_email=emails[0] if emails else None,
    )


def _activations_of(one: Deleted, stored: list[Values]) -> list[Values]:
    """Return the activations at the end of the transaction, without addresses of those given up."""
    if one.emptied_at is not None:
        at = to_seconds(one.emptied_at)
        stored = [row | {"deactivated_at": row["deactivated_at"] or at} for row in stored]
    by_token = {row["token"]: row for row in stored}
    by_token |= {token: activation_values(known) for token, known in one.activations.items()}
    return [row | (_NO_ADDRESS if row["deactivated_at"] is not None else {}) for row in by_token.values()]


def _is_binary(column: Any) -> bool:
    return isinstance(column.type, LargeBinary)
