"""Licenses in the database: functions over a transaction."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from msgspec.structs import asdict, replace
from sqlalchemy import ColumnElement, Row, Text, cast, column, func, literal_column, not_, select, table

from keywright.core.crypto import fold_key
from keywright.core.errors import StoreConflict
from keywright.db.bulk import BulkWrite, Lookup, Values, bulk_delete, bulk_insert, bulk_update, bulk_upsert
from keywright.db.rows import to_datetime, to_optional_seconds, to_seconds
from keywright.db.schema import licenses, rotated_keys
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.licensing.licenses.model import License, LicenseFilter, order_line_hash, order_of

#: The most licenses whose keys are unsealed to compare them.
MAX_CANDIDATES = 2_000


def find_licenses(tx: ReadTransaction, keys: Iterable[str]) -> dict[str, License]:
    """Return the licenses with these keys, by key."""
    key_of = tx.key_ring.blind_indexes(keys)
    return {
        key_of[row[KEY_HASH]]: license_of(row, key_of[row[KEY_HASH]])
        for row in LICENSES_WITH.find_rows(tx.connection, key_of)
    }


def find_rotated(tx: ReadTransaction, keys: Iterable[str]) -> dict[str, License]:
    """Return the licenses that formerly had these keys, by that key, which is also their ``key`` here."""
    key_of = tx.key_ring.blind_indexes(keys)
    return {
        key_of[row[-1]]: license_of(row[:-1], key_of[row[-1]])
        for row in LICENSES_ROTATED.find_rows(tx.connection, key_of)
    }


def find_licenses_by_id(tx: ReadTransaction, license_ids: Collection[int]) -> dict[int, License]:
    """Return the licenses with these IDs, by ID, in this order."""
    found = {row.id: _unseal(tx, row) for row in _LICENSES_BY_ID.find_rows(tx.connection, license_ids)}
    return {number: found[number] for number in license_ids if number in found}


def find_by_folded_key(tx: ReadTransaction, text: str) -> list[License]:
    """Return the licenses whose key equals this one in any case, with or without dashes, oldest first."""
    indexes = [index for ring in tx.key_ring.rings if (index := ring.key_folded(text)) is not None]
    found = _find_by_index(tx, licenses.c.key_folded.in_(indexes), limit=MAX_CANDIDATES)
    return [one for one in found if fold_key(one.key) == fold_key(text)]


def find_typed(tx: ReadTransaction, key: str) -> License | None:
    """Return the license with this key; else the only license whose key differs just in case and dashes."""
    exact, similar = find_licenses(tx, [key]).get(key), find_by_folded_key(tx, key)
    return exact or (similar[0] if len(similar) == 1 else None)


def find_by_key_end(tx: ReadTransaction, text: str, *, most: int | None = None) -> list[License] | None:
    """Return the licenses whose key ends with this text, in any case, without dashes, oldest first. None if
    more than ``most`` (by default 2,000) have the same last characters.
    """
    most = MAX_CANDIDATES if most is None else most
    indexes = [index for ring in tx.key_ring.rings if (index := ring.key_end(text)) is not None]
    found = _find_by_index(tx, licenses.c.key_end.in_(indexes), limit=most + 1)
    if len(found) > most:
        return None
    return [one for one in found if fold_key(one.key).endswith(fold_key(text))]


def find_by_key_start(tx: ReadTransaction, text: str, *, most: int) -> list[License] | None:
    """The licenses whose key begins with this text, as ``find_by_key_end``; none for under 8 characters."""
    indexes = [index for ring in tx.key_ring.rings if (index := ring.key_start(text)) is not None]
    found = _find_by_index(tx, licenses.c.key_start.in_(indexes), limit=most + 1)
    if len(found) > most:
        return None
    return [one for one in found if fold_key(one.key).startswith(fold_key(text))]


def save_key_starts(tx: WriteTransaction, *, after_id: int, limit: int) -> int | None:
    """Index the beginning of the keys of the next licenses, which older versions did not store. Returns the
    last license's ID, None at the end.
    """
    columns = licenses.c
    query = select(columns.id, columns.sealed_key, columns.key_start).where(columns.id > after_id)
    found = tx.connection.execute(query.order_by(columns.id).limit(limit).with_for_update()).all()
    keys = {row.id: tx.key_ring.unseal_key(row.sealed_key, row.id) for row in found if row.key_start is None}
    values = [{"where_id": id, "key_start": tx.sealing.key_start(key)} for id, key in keys.items()]
    _SAVE_KEY_STARTS.execute(tx.connection, values)
    return found[-1].id if len(found) == limit else None


def _find_by_index(tx: ReadTransaction, is_candidate: ColumnElement[bool], *, limit: int) -> list[License]:
    query = select(*_SEALED).where(is_candidate).order_by(licenses.c.id).limit(limit)
    return [_unseal(tx, row) for row in tx.connection.execute(query)]


def find_by_order_lines(tx: ReadTransaction, lines: Iterable[bytes]) -> dict[bytes, License]:
    """Return the licenses of these order lines, by ``order_line_hash``."""
    found = _LICENSES_BY_ORDER_LINE.find_rows(tx.connection, lines)
    return {row[-1]: license_of(row[:-2], tx.key_ring.unseal_key(row[-2], row.id)) for row in found}


def list_licenses(
    tx: ReadTransaction, where: LicenseFilter, *, after_id: int = 0, skip: int = 0, limit: int
) -> list[License]:
    """Return the next matching licenses after this ID, oldest first, without the first ``skip``."""
    conditions, is_after = _conditions(where), licenses.c.id > after_id
    if skip:
        # Skips IDs, which an index has, instead of whole rows.
        ids = select(licenses.c.id).where(is_after, *conditions).order_by(licenses.c.id)
        is_after = licenses.c.id >= ids.offset(skip).limit(1).scalar_subquery()
    if where.customer_id is not None:
        # Selects IDs, too: for a customer with many licenses, PostgreSQL would scan all licenses in ID order
        # until it has found enough, and recent ones are last.
        ids = select(licenses.c.id).where(is_after, *conditions).order_by(licenses.c.id)
        is_after = licenses.c.id.in_(ids.limit(limit))
    query = select(*_SEALED).where(is_after, *conditions).order_by(licenses.c.id).limit(limit)
    return [_unseal(tx, row) for row in tx.connection.execute(query)]


def count_licenses(tx: ReadTransaction, where: LicenseFilter, *, most: int | None = None) -> int:
    """Count the matching licenses, up to ``most``."""
    some = select(licenses.c.id).where(*_conditions(where)).limit(most).subquery()
    return int(tx.connection.execute(select(func.count()).select_from(some)).scalar_one())


def _unseal(tx: ReadTransaction, row: Row[Any]) -> License:
    return license_of(row[:-1], tx.key_ring.unseal_key(row.sealed_key, row.id))


def lock_licenses(tx: WriteTransaction, names: Iterable[str | int]) -> list[License]:
    """Return the licenses with these keys or IDs, locked in ID order until the end of the transaction."""
    key_of = tx.key_ring.blind_indexes([name for name in names if isinstance(name, str)])
    ids = [name for name in names if isinstance(name, int)]
    if not ids:
        return [
            license_of(row, key_of[row[KEY_HASH]]) for row in LICENSES_LOCKED.find_rows(tx.connection, key_of)
        ]
    if key_of:
        # In one statement, so that batches cannot deadlock.
        ids += [row[_ID] for row in LICENSES_WITH.find_rows(tx.connection, key_of)]
    rows = LICENSES_LOCKED_BY_ID.find_rows(tx.connection, sorted({*ids}))
    unseal = tx.key_ring.unseal_key
    return [license_of(row[:-1], key_of.get(row[KEY_HASH]) or unseal(row[-1], row[_ID])) for row in rows]


def find_holders(tx: WriteTransaction, names: Iterable[str | int]) -> dict[str | int, str]:
    """Find which of these licenses are held by another transaction that waits for no lock itself: return the
    IDs of those transactions, by key or ID. Neither locks nor waits; nothing is found on SQLite.
    """
    if not tx.is_postgres:
        return {}
    key_of = tx.key_ring.blind_indexes([name for name in names if isinstance(name, str)])
    found: dict[str | int, str] = {key_of[row[0]]: row[2] for row in HOLDERS.find_rows(tx.connection, key_of)}
    ids = [name for name in names if isinstance(name, int)]
    return found | {row[1]: row[2] for row in HOLDERS_BY_ID.find_rows(tx.connection, ids)}


def save_new_licenses(
    tx: WriteTransaction, new: Sequence[License], *, imported: Collection[int] = ()
) -> None:
    """Insert licenses; the database rejects a key that is taken. ``imported`` as in ``save_licenses``."""
    values = [_license_values(tx, one, None) | {"id": one.id} | _room(one, imported) for one in new]
    INSERT_LICENSES.execute(tx.connection, values)
    _refuse_other_fingerprints(tx, new)


def save_licenses(
    tx: WriteTransaction, changed: Iterable[tuple[License, License]], *, imported: Collection[int] = ()
) -> None:
    """Update licenses, each given as loaded and as changed. The database rejects a key that is taken, and a
    counter above the limit that it had before, except for the ``imported`` licenses (IDs).

    Taking and giving up places, the most frequent change, writes few columns; any other change writes all.
    """
    values: dict[BulkWrite, list[Values]] = {}
    rewritten = []
    for before, after in changed:
        if after.id in imported or _with_places_of(before, after) != before:
            rewritten.append((before, after))
            continue
        change, row = UPDATE_COUNTERS, counter_values(after)
        if after.expires_at != before.expires_at:
            change = UPDATE_COUNTERS_AND_EXPIRY
            row |= {
                "expires_at": to_optional_seconds(after.expires_at),
                "deactivated_count": after.deactivated_count,
            }
        elif after.times_activated <= before.times_activated:
            change = UPDATE_COUNTERS_AND_PLACES
            row |= {"places": places(after, before), "deactivated_count": after.deactivated_count}
        elif after.deactivated_count != before.deactivated_count:
            change = UPDATE_COUNTERS_AND_RECORDS
            row["deactivated_count"] = after.deactivated_count
        values.setdefault(change, []).append(row)
    if rewritten:
        _rewrite(tx, rewritten, imported)
    for change, rows in values.items():
        change.execute(tx.connection, rows)


def _with_places_of(before: License, after: License) -> License:
    """Return a changed license with the former values of what taking and giving up places changes. The first
    place taken may set the expiry.
    """
    is_begun = before.expires_at is None and after.times_activated > before.times_activated
    return replace(
        after,
        times_activated=before.times_activated,
        deactivated_count=before.deactivated_count,
        updated_at=before.updated_at,
        expires_at=before.expires_at if is_begun else after.expires_at,
    )


def _rewrite(
    tx: WriteTransaction, changed: Sequence[tuple[License, License]], imported: Collection[int]
) -> None:
    values = [
        _license_values(tx, after, before) | {"where_id": after.id} | _room(after, imported)
        for before, after in changed
    ]
    UPDATE_LICENSES.execute(tx.connection, values)
    save_rotated_keys(tx, [(before, after) for before, after in changed if before.key != after.key])
    _refuse_other_fingerprints(tx, [after for _, after in changed])


def save_rotated_keys(tx: WriteTransaction, changed: Sequence[tuple[License, License]]) -> None:
    """Store the former keys of these licenses."""
    values = [
        {
            "license_id": after.id,
            "key_hmac": tx.sealing.blind_index(before.key),
            "sealed_key": tx.sealing.seal_key(before.key, after.id),
            "rotated_at": to_seconds(after.updated_at),
        }
        for before, after in changed
    ]
    INSERT_ROTATED.execute(tx.connection, values)


def _refuse_other_fingerprints(tx: WriteTransaction, written: Sequence[License]) -> None:
    """Raise ``StoreConflict`` for a key that another license has under the other secret. The table's
    constraint covers each secret separately; nothing is written with the other one any more, so a key that is
    not found now cannot appear.
    """
    if len(tx.key_ring.rings) == 1 or not written:
        return
    own = {tx.sealing.blind_index(one.key) for one in written}
    others = tx.key_ring.blind_indexes([one.key for one in written]).keys() - own
    if LICENSES_WITH.find_rows(tx.connection, others):
        raise StoreConflict("a license key is taken, and still sealed with the other secret")


def _room(license: License, imported: Collection[int]) -> Values:
    """Return the ``places`` of an imported license: its limit, or its activation count if that is higher."""
    limit = license.times_activated_max
    if limit is None or license.id not in imported:
        return {}
    return {"places": max(limit, license.times_activated)}


def _license_values(tx: WriteTransaction, license: License, before: License | None) -> Values:
    return new_license_values(tx, license) | {"places": places(license, before)}


def new_license_values(tx: WriteTransaction, license: License) -> Values:
    """Return the columns of a license with its key sealed, except its ID and places."""
    return license_values(license) | {
        "key_hmac": tx.sealing.blind_index(license.key),
        "sealed_key": tx.sealing.seal_key(license.key, license.id),
        "key_start": tx.sealing.key_start(license.key),
        "key_end": tx.sealing.key_end(license.key),
        "key_folded": tx.sealing.key_folded(license.key),
    }


_NAMES = License.__struct_fields__
#: The columns that ``license_of`` reads: one per field, in that order, with the key's hash instead of the
#: key.
LICENSE = [licenses.c["key_hmac" if name == "key" else name] for name in _NAMES]
_SEALED = [*LICENSE, licenses.c.sealed_key]
_ID, KEY_HASH = map(_NAMES.index, ("id", "key"))
_TIMES = ("expires_at", "created_at", "updated_at")
_EXPIRES, _CREATED, _UPDATED = map(_NAMES.index, _TIMES)


def license_of(row: Sequence[Any], key: str) -> License:
    """Build the license of a row of ``LICENSE`` whose key is known."""
    values = [*row]
    values[KEY_HASH] = key
    if values[_EXPIRES] is not None:
        values[_EXPIRES] = to_datetime(values[_EXPIRES])
    values[_CREATED], values[_UPDATED] = to_datetime(values[_CREATED]), to_datetime(values[_UPDATED])
    return License(*values)


def license_values(license: License) -> Values:
    """Return the columns that a change of a license may touch, with their values."""
    values = asdict(license) | {name: to_optional_seconds(getattr(license, name)) for name in _TIMES}
    del values["id"], values["key"]
    return values | _order_columns(license)


def _order_columns(license: License) -> Values:
    """Return the columns that index an order which is more than a number."""
    if license.order_details is None:
        return {"order_ref": None, "order_line_hash": None}
    order = order_of(license)
    return {
        "order_ref": order.id if order.number is None else None,
        "order_line_hash": order_line_hash(order),
    }


def counter_values(license: License) -> Values:
    """Return the columns that taking a place changes."""
    return {
        "where_id": license.id,
        "times_activated": license.times_activated,
        "updated_at": to_seconds(license.updated_at),
    }


def places(after: License, before: License | None) -> int | None:
    """Return the most that ``times_activated`` may be from now on; None without a limit.

    It is the limit, or what was already taken when the limit was lowered below it: no more than the license
    as it was ``before`` allowed.
    """
    limit = after.times_activated_max
    if limit is None or before is None:
        return limit
    taken = after.times_activated
    if before.times_activated_max is not None:
        taken = min(taken, max(before.times_activated, before.times_activated_max))
    return max(limit, taken)


LICENSES_WITH = Lookup(select(*LICENSE), licenses.c.key_hmac)
LICENSES_ROTATED = Lookup(
    select(*LICENSE, rotated_keys.c.key_hmac).join(rotated_keys, rotated_keys.c.license_id == licenses.c.id),
    rotated_keys.c.key_hmac,
)
#: In ID order, so that two batches cannot deadlock.
LICENSES_LOCKED = Lookup(select(*LICENSE).order_by(licenses.c.id).with_for_update(), licenses.c.key_hmac)
LICENSES_LOCKED_BY_ID = Lookup(select(*_SEALED).order_by(licenses.c.id).with_for_update(), licenses.c.id)
_LICENSES_BY_ID = Lookup(select(*_SEALED), licenses.c.id)
_LICENSES_BY_ORDER_LINE = Lookup(select(*_SEALED, licenses.c.order_line_hash), licenses.c.order_line_hash)
#: An upsert: a license may get a former key again, and lose it again.
INSERT_ROTATED = bulk_upsert(rotated_keys, ["license_id", "key_hmac"], largest=["rotated_at"])

_LOCKER: ColumnElement[Any] = literal_column("licenses.xmax")
_HELD, _WANTED = (
    table("pg_locks", *map(column, ("locktype", "transactionid", "pid", "granted"))).alias(name)
    for name in ("held", "wanted_elsewhere")
)
#: The transactions that hold these licenses and do not wait for a lock themselves: a waiting batch holds what
#: it has locked so far, and ends soon. A row's ``xmax`` is the transaction that locked it last, and a
#: transaction holds its own ID until its end. PostgreSQL only.
_HOLDERS = select(licenses.c.key_hmac, licenses.c.id, cast(_LOCKER, Text)).where(
    select(1)
    .where(
        _HELD.c.locktype == "transactionid",
        _HELD.c.transactionid == _LOCKER,
        _HELD.c.granted,
        ~select(1).where(_WANTED.c.pid == _HELD.c.pid, not_(_WANTED.c.granted)).exists(),
    )
    .exists()
)
HOLDERS, HOLDERS_BY_ID = Lookup(_HOLDERS, licenses.c.key_hmac), Lookup(_HOLDERS, licenses.c.id)

#: Without ``expires_at``, which is indexed: SQLite would write to the index even if nothing changes.
_COUNTER = ("times_activated", "updated_at")

INSERT_LICENSES = bulk_insert(licenses)
UPDATE_LICENSES = bulk_update(licenses, ["id"], [one.name for one in licenses.c if one.name != "id"])
UPDATE_COUNTERS = bulk_update(licenses, ["id"], _COUNTER)
UPDATE_COUNTERS_AND_RECORDS = bulk_update(licenses, ["id"], (*_COUNTER, "deactivated_count"))
UPDATE_COUNTERS_AND_EXPIRY = bulk_update(licenses, ["id"], (*_COUNTER, "deactivated_count", "expires_at"))
UPDATE_COUNTERS_AND_PLACES = bulk_update(licenses, ["id"], (*_COUNTER, "deactivated_count", "places"))
_SAVE_KEY_STARTS = bulk_update(licenses, ["id"], ["key_start"])
DELETE_LICENSES = bulk_delete(licenses, "id")


def _conditions(where: LicenseFilter) -> list[ColumnElement[bool]]:
    return [
        licenses.c[name] == value
        for name in where.__struct_fields__
        if (value := getattr(where, name)) is not None
    ]
