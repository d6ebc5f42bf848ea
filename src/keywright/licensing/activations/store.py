"""Activations in the database: functions over a transaction."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from keywright.db.bulk import Lookup, Values, array_table, bulk_delete, bulk_insert, bulk_update, bulk_upsert
from keywright.db.rows import to_datetime, to_json, to_optional_seconds, to_seconds
from keywright.db.schema import (
    activations,
    last_seen,
    lease_counters,
    leases,
    license_claims,
    license_moments,
    license_notes,
    license_tags,
    license_transfers,
    licenses,
    meter_usage,
    new_devices,
    portal_removals,
    pruned_activations,
    refusals,
    rotated_keys,
    trials,
)
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.licensing.activations import rules
from keywright.licensing.activations.model import Activation, SeenDevice
from keywright.licensing.licenses.store import DELETE_LICENSES, LICENSE


def list_activations(tx: ReadTransaction, license_ids: Iterable[int]) -> dict[int, list[Activation]]:
    """Return every record of these licenses, by license, oldest first."""
    return _by_license(tx, ACTIVATIONS_OF, license_ids)


def list_active(tx: ReadTransaction, license_ids: Iterable[int]) -> dict[int, list[Activation]]:
    """Return every active record of these licenses, by license, oldest first."""
    return _by_license(tx, ACTIVE_OF, license_ids)


def find_activations(tx: ReadTransaction, tokens: Iterable[tuple[int, str]]) -> list[Activation]:
    """Return the records with these tokens, each only within its license."""
    # No database can store NUL, so no record has such a token.
    possible = [pair for pair in tokens if "\0" not in pair[1]]
    found = {
        (row.license_id, row.token): activation_of(row)
        for row in ACTIVATIONS_WITH.find_rows(tx.connection, possible)
    }
    return list(found.values())


def find_by_id(tx: ReadTransaction, numbers: Iterable[tuple[int, int]]) -> list[Activation]:
    """Return the records with these IDs, each only within its license; scans all records of the licenses."""
    return [activation_of(row) for row in ACTIVATIONS_BY_ID.find_rows(tx.connection, numbers)]


def list_ended_at(tx: ReadTransaction, license_id: int, at: datetime, *, limit: int) -> list[Activation]:
    """Return the first records of a license that were given up at this moment."""
    is_one = (activations.c.license_id == license_id, activations.c.deactivated_at == to_seconds(at))
    query = ACTIVATIONS.where(*is_one).order_by(activations.c.id).limit(limit)
    return [activation_of(row) for row in tx.connection.execute(query)]


def find_by_fingerprint(tx: ReadTransaction, devices: Iterable[tuple[int, str]]) -> list[Activation]:
    """Return the records of these devices, each only within its license."""
    return [activation_of(row) for row in FINGERPRINTS_WITH.find_rows(tx.connection, devices)]


def _by_license(
    tx: ReadTransaction, query: Lookup, license_ids: Iterable[int]
) -> dict[int, list[Activation]]:
    found: dict[int, list[Activation]] = {}
    for row in query.find_rows(tx.connection, license_ids):
        found.setdefault(row[2], []).append(activation_of(row))
    for records in found.values():
        records.sort(key=rules.by_age)
    return found


def recount(tx: WriteTransaction, license_id: int) -> dict[str, list[int]] | None:
    """Set a license's counters to the numbers of its active activations and of those given up; returns
    [before, after] of the wrong ones, by name, or None if the license no longer exists.
    """
    row = tx.connection.execute(COUNTERS_LOCKED, {"where_id": license_id}).first()
    if row is None:
        return None
    active, uncounted, ended = tx.connection.execute(RECORDS_COUNTED, {"where_id": license_id}).one()
    limit = row.times_activated_max
    room = None if limit is None else max(limit, active)
    values = {"where_id": license_id, "taken": active, "free": uncounted, "ended": ended, "room": room}
    tx.connection.execute(RECOUNT, values)
    pairs = {
        "times_activated": [row.times_activated, active],
        "uncounted_count": [row.uncounted_count, uncounted],
        "deactivated_count": [row.deactivated_count, ended],
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def delete_licenses(tx: WriteTransaction, license_ids: Collection[int]) -> None:
    """Delete these licenses with their activations, leases and usage, and the e-mail addresses of their
    trials; their events and trials stay.
    """
    for change in DELETE_BELONGINGS:
        change.execute(tx.connection, [{"where_license_id": number} for number in license_ids])
    forgotten = [{"where_license_id": number, "email": None} for number in license_ids]
    FORGET_EMAILS.execute(tx.connection, forgotten)
    DELETE_LICENSES.execute(tx.connection, [{"where_id": number} for number in license_ids])


def delete_places(tx: WriteTransaction, license_id: int) -> None:
    """Delete all activations and leases of a license, active or given up; the caller resets the counters."""
    tx.connection.execute(_NOTE_PRUNED, {"of_license": license_id})
    for table in (activations, last_seen, leases):
        tx.connection.execute(sa.delete(table).where(table.c.license_id == license_id))


def list_new_devices(tx: ReadTransaction, license_ids: Iterable[int]) -> dict[int, list[SeenDevice]]:
    """Return the devices that were new to these licenses, by license."""
    found: dict[int, list[SeenDevice]] = {}
    for license_id, seen_at, fingerprint in NEW_DEVICES_OF.find_rows(tx.connection, license_ids):
        found.setdefault(license_id, []).append(SeenDevice(to_datetime(seen_at), fingerprint))
    return found


def save_new_devices(
    tx: WriteTransaction, new: Iterable[tuple[int, SeenDevice]], old_until: Mapping[int, datetime]
) -> None:
    """Insert devices that were new to licenses, and delete those of each license up to the given time."""
    rows = [
        {"license_id": license_id, "seen_at": to_seconds(one.seen_at), "fingerprint": one.fingerprint}
        for license_id, one in new
    ]
    INSERT_NEW_DEVICES.execute(tx.connection, rows)
    old = [{"where_id": number, "until": to_seconds(until)} for number, until in old_until.items()]
    tx.connection.execute(DELETE_OLD_DEVICES, old)


def save_last_seen(tx: WriteTransaction, seen: Mapping[tuple[int, int], int]) -> None:
    """Insert these times, or update earlier ones; skip licenses that have been deleted since."""
    present = {row[0] for row in PRESENT.find_rows(tx.connection, {license_id for license_id, _ in seen})}
    values = [
        {"license_id": license_id, "activation_id": number, "seen_at": seen_at}
        for (license_id, number), seen_at in seen.items()
        if license_id in present
    ]
    SAVE_LAST_SEEN.execute(tx.connection, values)


def save_versions(tx: WriteTransaction, versions: Mapping[tuple[int, int], str]) -> None:
    """Store the versions of these activations, by license and ID."""
    SAVE_VERSIONS.execute(
        tx.connection,
        [
            {"where_license_id": license_id, "where_id": id, "app_version": version}
            for (license_id, id), version in sorted(versions.items())
        ],
    )


def save_new_activations(tx: WriteTransaction, new: Sequence[Activation]) -> None:
    """Insert activations."""
    INSERT_ACTIVATIONS.execute(tx.connection, list(map(activation_values, new)))


def save_activations(tx: WriteTransaction, changed: Iterable[tuple[Activation, Activation]]) -> None:
    """Update activations, each given before and after; few columns if only the place changed."""
    ended: list[Values] = []
    rewritten: list[Values] = []
    for before, after in changed:
        key = {"where_license_id": after.license_id, "where_token": after.token}
        if replace(after, **{name: getattr(before, name) for name in _PLACE}) == before:
            ended.append(key | {name: to_optional_seconds(getattr(after, name)) for name in _PLACE})
        else:
            rewritten.append(activation_values(after) | key)
    UPDATE_ACTIVATIONS.execute(tx.connection, ended)
    REWRITE_ACTIVATIONS.execute(tx.connection, rewritten)


def deactivate_all(tx: WriteTransaction, license_id: int, now: datetime) -> None:
    """Give up every place of a license, in one statement."""
    values = {"where_id": license_id, "moment": to_seconds(now)}
    tx.connection.execute(DEACTIVATE_ACTIVATIONS, values)


#: Decoding to a known type takes less than half of the time of decoding to any.
_decode_meta = msgspec.json.Decoder(dict[str, Any]).decode

_NAMES = Activation.__struct_fields__
#: The columns that ``activation_of`` reads: one per field, in that order.
ACTIVATION = [activations.c[name] for name in _NAMES]
_META, _CREATED, _COUNTED = map(_NAMES.index, ("meta_data", "created_at", "is_counted"))
#: What changes when a place is given up or taken back, or an answer is signed for its device.
_PLACE = ("updated_at", "deactivated_at", "offline_until")
_OPTIONAL_TIMES = tuple(map(_NAMES.index, _PLACE))


def activation_of(row: Sequence[Any]) -> Activation:
    """Build the activation of a row of ``ACTIVATION``."""
    values = [*row]
    values[_CREATED] = to_datetime(values[_CREATED])
    for place in _OPTIONAL_TIMES:
        if values[place] is not None:
            values[place] = to_datetime(values[place])
    if values[_META] is not None:
        values[_META] = _decode_meta(values[_META])
    values[_COUNTED] = bool(values[_COUNTED])
    return Activation(*values)


def activation_values(activation: Activation) -> Values:
    """Return every column of the activation."""
    return {
        "license_id": activation.license_id,
        "token": activation.token,
        "id": activation.id,
        "label": activation.label,
        "source": activation.source,
        "ip_address": activation.ip_address,
        "user_agent": activation.user_agent,
        "meta_data": to_json(activation.meta_data),
        "created_at": to_seconds(activation.created_at),
        "updated_at": to_optional_seconds(activation.updated_at),
        "deactivated_at": to_optional_seconds(activation.deactivated_at),
        "fingerprint": activation.fingerprint,
        "platform": activation.platform,
        "app_version": activation.app_version,
        "offline_until": to_optional_seconds(activation.offline_until),
        "is_counted": int(activation.is_counted),
    }


ACTIVATIONS = sa.select(*ACTIVATION)
IS_ACTIVE = activations.c.deactivated_at.is_(None)

#: Licenses with up to this many records are read in bulk, with all of their records.
FEW_RECORDS = 100
ACTIVATIONS_OF = Lookup(ACTIVATIONS, activations.c.license_id)
ACTIVE_OF = Lookup(ACTIVATIONS.where(IS_ACTIVE), activations.c.license_id)
ACTIVATIONS_WITH = Lookup(ACTIVATIONS, activations.c.license_id, activations.c.token)
ACTIVATIONS_BY_ID = Lookup(ACTIVATIONS, activations.c.license_id, activations.c.id)
FINGERPRINTS_WITH = Lookup(ACTIVATIONS, activations.c.license_id, activations.c.fingerprint)

_IS_ITS = activations.c.license_id == licenses.c.id
_AT_LICENSE = activations.c.license_id == sa.bindparam("where_id")
_SOME_ACTIVE = ACTIVATIONS.where(_AT_LICENSE, IS_ACTIVE).order_by(activations.c.token)
_SOME_DEACTIVATED = ACTIVATIONS.where(_AT_LICENSE, activations.c.deactivated_at.is_not(None)).order_by(
    activations.c.deactivated_at.desc(), activations.c.id.desc()
)
_SOME = sa.union_all(
    sa.select(_SOME_ACTIVE.limit(sa.bindparam("most_active")).subquery()),
    sa.select(_SOME_DEACTIVATED.limit(sa.bindparam("most_deactivated")).subquery()),
).subquery("some")
#: One license with up to ``most_active`` of its active records and ``most_deactivated`` of those given up
#: most recently; a license without records has one row, with NULLs.
SOME_RECORDS = (
    sa.select(*LICENSE, *_SOME.c)
    .select_from(licenses.outerjoin(_SOME, _SOME.c.license_id == licenses.c.id))
    .where(licenses.c.id == sa.bindparam("where_id"))
)
#: Up to ``most`` active records of one license.
SOME_ACTIVE = _SOME_ACTIVE.limit(sa.bindparam("most"))


@cache
def records_lookup() -> Lookup:
    """Select licenses with their records; a license without records, or with more than a few, has one row,
    with NULLs. A single statement reads a consistent snapshot. PostgreSQL only.
    """
    # Sorted and limited, so that PostgreSQL uses the index for each license, however many records it
    # estimates; otherwise the plan for the largest license would serve all.
    most = sa.literal_column(str(FEW_RECORDS), sa.Integer)
    have_few = licenses.c.times_activated + licenses.c.uncounted_count + licenses.c.deactivated_count <= most
    own = ACTIVATIONS.where(_IS_ITS, have_few).order_by(activations.c.token).limit(most)
    few = own.correlate(licenses).lateral("few")
    return Lookup(
        sa.select(*LICENSE, *few.c).select_from(licenses.outerjoin(few, sa.true())), licenses.c.key_hmac
    )


@cache
def select_records_of(names: tuple[str, ...]) -> sa.Select[Any]:
    """Select licenses by key with, for each of these columns, the record that has the value given with the
    key, or NULLs; no other records are read. PostgreSQL only.
    """
    keys = array_table(licenses.c.key_hmac, *(activations.c[name] for name in names))
    columns, source = list[Any](LICENSE), keys.join(licenses, licenses.c.key_hmac == keys.c.key_hmac)
    for name in names:
        # Limited, so that PostgreSQL looks up one record instead of scanning all records of a license.
        is_named = activations.c[name] == keys.c[name]
        one = ACTIVATIONS.where(_IS_ITS, is_named).limit(sa.literal_column("1")).correlate(licenses, keys)
        record = one.lateral(f"by_{name}")
        columns += [column.label(f"{record.name}_{column.name}") for column in record.c]
        source = source.outerjoin(record, sa.true())
    return sa.select(*columns).select_from(source)


INSERT_ACTIVATIONS = bulk_insert(activations)
UPDATE_ACTIVATIONS = bulk_update(activations, ["license_id", "token"], _PLACE)
REWRITE_ACTIVATIONS = bulk_update(activations, ["license_id", "token"], [one.name for one in activations.c])
#: Gives up every active record of a license.
DEACTIVATE_ACTIVATIONS = (
    sa.update(activations)
    .where(_AT_LICENSE, IS_ACTIVE)
    .values(deactivated_at=sa.bindparam("moment"), updated_at=sa.bindparam("moment"))
)
#: Notes records whose search terms are to be deleted later.
_NOTE_PRUNED = sa.insert(pruned_activations).from_select(
    ["license_id", "activation_id"],
    sa.select(activations.c.license_id, activations.c.id).where(
        activations.c.license_id == sa.bindparam("of_license")
    ),
)
DELETE_BELONGINGS = [
    bulk_delete(table, "license_id")
    for table in (
        activations,
        leases,
        lease_counters,
        meter_usage,
        new_devices,
        portal_removals,
        license_claims,
        license_transfers,
        last_seen,
        refusals,
        license_notes,
        license_tags,
        license_moments,
        rotated_keys,
    )
]

FORGET_EMAILS = bulk_update(trials, ["license_id"], ["email"])
LAST_SEEN_WITH = Lookup(
    sa.select(last_seen.c.activation_id, last_seen.c.seen_at),
    last_seen.c.license_id,
    last_seen.c.activation_id,
)
#: Up to ``most`` devices that hold places of a license, from the token ``start`` on, and when each was last
#: seen.
HOLDERS = (
    sa.select(*ACTIVATION, last_seen.c.seen_at)
    .outerjoin_from(
        activations,
        last_seen,
        sa.and_(
            last_seen.c.license_id == activations.c.license_id,
            last_seen.c.activation_id == activations.c.id,
        ),
    )
    .where(_AT_LICENSE, IS_ACTIVE, activations.c.token >= sa.bindparam("start"))
    .order_by(activations.c.token)
    .limit(sa.bindparam("most"))
)
PRESENT = Lookup(sa.select(licenses.c.id), licenses.c.id)
SAVE_VERSIONS = bulk_update(activations, ["license_id", "id"], ["app_version"])
SAVE_LAST_SEEN = bulk_upsert(last_seen, ["license_id", "activation_id"], largest=["seen_at"])
NEW_DEVICES_OF = Lookup(sa.select(new_devices), new_devices.c.license_id)
INSERT_NEW_DEVICES = bulk_upsert(new_devices, ["license_id", "seen_at", "fingerprint"])
DELETE_OLD_DEVICES = sa.delete(new_devices).where(
    new_devices.c.license_id == sa.bindparam("where_id"), new_devices.c.seen_at <= sa.bindparam("until")
)

_COUNTERS = ("times_activated", "times_activated_max", "uncounted_count", "deactivated_count")
COUNTERS_LOCKED = (
    sa.select(*(licenses.c[name] for name in _COUNTERS))
    .where(licenses.c.id == sa.bindparam("where_id"))
    .with_for_update()
)
IS_COUNTED = activations.c.is_counted != 0
#: The number of a license's activations that take places, that are active without one, and that were given
#: up.
RECORDS_COUNTED = (
    sa.select(
        sa.func.count().filter(IS_ACTIVE, IS_COUNTED),
        sa.func.count().filter(IS_ACTIVE, ~IS_COUNTED),
        sa.func.count().filter(~IS_ACTIVE),
    )
    .select_from(activations)
    .where(_AT_LICENSE)
)
RECOUNT = (
    sa.update(licenses)
    .where(licenses.c.id == sa.bindparam("where_id"))
    .values(
        times_activated=sa.bindparam("taken"),
        uncounted_count=sa.bindparam("free"),
        deactivated_count=sa.bindparam("ended"),
        places=sa.bindparam("room"),
    )
)
