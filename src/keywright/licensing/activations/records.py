"""Licenses with the records that an answer lists, and pruning of records that were given up.

The cost is bounded by what is listed or deleted: licenses with few records, according to the counters in
their rows, are read in bulk; the others are read one by one, and only in part.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import func, select, text

from keywright.core.crypto import new_token
from keywright.db import rows
from keywright.db.bulk import Lookup, Values, json_text, select_by_arrays
from keywright.db.schema import last_seen
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.licensing.activations import rules, store
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import Activation, Holder, LicenseRecord
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import KEY_HASH, LICENSE, license_of

#: The most records of a license in a list of licenses; their size is limited to about ``_BYTES_IN_LISTS``.
MAX_IN_LISTS = 100
_BYTES_IN_LISTS = rules.MAX_LISTED_BYTES // 10
_SIZE = len(LICENSE)
#: The index of the first column of each record in a row of ``select_records_of``.
_STARTS = (_SIZE, _SIZE + len(store.ACTIVATION))
#: The most devices of a license searched for one unseen for long: each refusal costs that much.
MAX_HOLDERS = 200
#: Later than any moment.
_END = 2**63 - 1

_LICENSES_LAST_SEEN = Lookup(
    select(last_seen.c.license_id, func.max(last_seen.c.seen_at).label("seen_at")).group_by(
        last_seen.c.license_id
    ),
    last_seen.c.license_id,
)

# The oldest records of a license that were given up, up to a moment.
_OLDEST = """
    FROM activations
    WHERE license_id = :license_id AND deactivated_at <= :until ORDER BY deactivated_at, id LIMIT :amount
"""
_NOTE = text(f"INSERT OR IGNORE INTO pruned_activations SELECT license_id, id {_OLDEST}")
_UNSEE = text(
    f"DELETE FROM last_seen WHERE license_id = :license_id AND activation_id IN (SELECT id {_OLDEST})"  # noqa: S608
)
_PRUNE = text(f"DELETE FROM activations WHERE license_id = :license_id AND token IN (SELECT token {_OLDEST})")  # noqa: S608
_COUNT = text("UPDATE licenses SET deactivated_count = deactivated_count - :pruned WHERE id = :license_id")
#: The same statements for many licenses at once.
_PRUNE_AT_ONCE = text("""
WITH surplus AS (
    SELECT oldest.* FROM json_to_recordset(CAST(:rows AS json))
        AS given(license_id BIGINT, until BIGINT, amount BIGINT)
    CROSS JOIN LATERAL (
        SELECT license_id, token, id FROM activations
        WHERE activations.license_id = given.license_id AND deactivated_at <= given.until
        ORDER BY deactivated_at, id LIMIT given.amount
    ) AS oldest
), pruned AS (
    DELETE FROM activations USING surplus
    WHERE activations.license_id = surplus.license_id AND activations.token = surplus.token
    RETURNING activations.license_id
), noted AS (
    INSERT INTO pruned_activations SELECT license_id, id FROM surplus ON CONFLICT DO NOTHING
), unseen AS (
    DELETE FROM last_seen USING surplus
    WHERE last_seen.license_id = surplus.license_id AND last_seen.activation_id = surplus.id
)
UPDATE licenses SET deactivated_count = deactivated_count - counted.amount
FROM (SELECT license_id, count(*) AS amount FROM pruned GROUP BY license_id) AS counted
WHERE licenses.id = counted.license_id
""")


# --- records in answers ---------------------------------------------------------------------------


def find_records(
    tx: ReadTransaction, keys: Collection[str], most: int, *, most_read: int | None = None
) -> dict[str, LicenseRecord | None]:
    """Return the licenses with these keys, by key, each with at most ``most`` of its records (see
    ``rules.limit_listed``); None for a license with more than ``most_read``. A license and its records are
    read at the same moment.
    """
    if tx.is_postgres:
        key_of = tx.key_ring.blind_indexes(keys)
        licenses, records = _by_key(store.records_lookup().find_rows(tx.connection, key_of), key_of)
    else:
        licenses = license_store.find_licenses(tx, keys)
        few_of = [one.id for one in licenses.values() if _has_few(one)]
        records = activation_store.list_activations(tx, few_of)
    found: dict[str, LicenseRecord | None] = {}
    for key, license in licenses.items():
        if not _has_few(license):
            if most_read is not None and license.record_count > most_read:
                found[key] = None
            elif (record := find_some(tx, license, most, rules.MAX_LISTED_BYTES)) is not None:
                found[key] = record
            continue
        few = records.get(license.id, [])
        if len(few) > most:
            few = rules.limit_listed(few, most, rules.MAX_LISTED_BYTES)
        found[key] = LicenseRecord(license, tuple(few))
    return found


def find_named(
    tx: ReadTransaction, places: Collection[tuple[str, str]]
) -> dict[tuple[str, str], LicenseRecord]:
    """Return the licenses by pairs of key and token, each with the token's activation if there is one."""
    if not places:
        return {}
    if tx.is_postgres:
        licenses, records = _find_named(tx, places)
    else:
        licenses = license_store.find_licenses(tx, {key for key, _ in places})
        wanted = {(licenses[key].id, token) for key, token in places if key in licenses}
        records = activation_store.find_activations(tx, wanted)
    by_token = {(one.license_id, one.token): (one,) for one in records}
    return {
        (key, token): LicenseRecord(licenses[key], by_token.get((licenses[key].id, token), ()))
        for key, token in places
        if key in licenses
    }


def find_devices(
    tx: ReadTransaction, named: Collection[tuple[str, str | None, str | None]]
) -> tuple[dict[str, License], dict[int, list[Activation]]]:
    """Return the licenses with these keys, by key; and by license, its records with the fingerprint or the
    token named with the key. A license and its records are read at the same moment.
    """
    if tx.is_postgres:
        return _find_devices(tx, named)
    licenses = license_store.find_licenses(tx, {key for key, _, _ in named})
    devices, tokens = set[tuple[int, str]](), set[tuple[int, str]]()
    for key, fingerprint, token in named:
        license = licenses.get(key)
        if license is not None and fingerprint is not None:
            devices.add((license.id, fingerprint))
        if license is not None and token is not None:
            tokens.add((license.id, token))
    records = activation_store.find_by_fingerprint(tx, devices) if devices else []
    if tokens:
        records += activation_store.find_activations(tx, tokens)
    return licenses, _by_license(records)


def find_some(tx: ReadTransaction, license: License, most: int, most_bytes: int) -> LicenseRecord | None:
    """Return a license with the activations that an answer lists; None if it has been deleted since."""
    active, deactivated = most, most
    if not tx.is_postgres:
        # The counters and records are of the same snapshot: if all active records are found, no others are
        # needed. On PostgreSQL, records may have been added since.
        active = min(most, license.active_count)
        deactivated = most - active
    values = {"where_id": license.id, "most_active": active, "most_deactivated": deactivated}
    found = tx.connection.execute(store.SOME_RECORDS, values).all()
    if not found or found[0][KEY_HASH] not in tx.key_ring.blind_indexes([license.key]):
        return None
    license = license_of(found[0][:_SIZE], license.key)
    records = [store.activation_of(row[_SIZE:]) for row in found if row[_SIZE] is not None]
    return LicenseRecord(license, tuple(rules.limit_listed(records, most, most_bytes)))


def list_records(tx: ReadTransaction, licenses: Sequence[License], most: int) -> list[LicenseRecord]:
    """Return these licenses with the records shown in a list of licenses; without those deleted since."""
    most = min(most, MAX_IN_LISTS)
    records = activation_store.list_activations(tx, [one.id for one in licenses if _has_few(one)])
    found = []
    for license in licenses:
        if _has_few(license):
            listed = rules.limit_listed(records.get(license.id, ()), most, _BYTES_IN_LISTS)
            found.append(LicenseRecord(license, tuple(listed)))
        else:
            record = find_some(tx, license, most, _BYTES_IN_LISTS)
            found += [] if record is None else [record]
    return found


def list_some_active(
    tx: ReadTransaction, licenses: Iterable[License], most: int
) -> dict[int, list[Activation]]:
    """Return up to ``most`` active records of each of these licenses, by license."""
    found: dict[int, list[Activation]] = {}
    few = []
    for license in licenses:
        if _has_few(license):
            few.append(license.id)
            continue
        values = {"where_id": license.id, "most": most}
        some = tx.connection.execute(store.SOME_ACTIVE, values)
        found[license.id] = [store.activation_of(row) for row in some]
    return found | activation_store.list_active(tx, few)


def list_holders(tx: ReadTransaction, license: License, known: Mapping[str, Activation]) -> list[Holder]:
    """Return the devices that hold the places of a license, at most ``MAX_HOLDERS``: a random choice if there
    are more. ``known`` are the records, by token, that this transaction may have changed.
    """
    start = "" if license.active_count <= MAX_HOLDERS else new_token()
    found_rows = list[Any]()
    for first in dict.fromkeys((start, "")):
        values = {"where_id": license.id, "start": first, "most": MAX_HOLDERS - len(found_rows)}
        found_rows += tx.connection.execute(store.HOLDERS, values)
    found = dict[str, Holder]()
    for row in found_rows:
        one = store.activation_of(row[:-1])
        found[one.token] = Holder(one, one.created_at if row[-1] is None else rows.to_datetime(row[-1]))
    for token, one in known.items():
        seen_at = found[token].seen_at if token in found else one.updated_at or one.created_at
        found[token] = Holder(one, seen_at)
    return [one for one in found.values() if one.activation.deactivated_at is None]


def find_last_seen(tx: ReadTransaction, activations: Iterable[Activation]) -> dict[int, datetime]:
    """Return when these were last seen, by ID, where known."""
    wanted = [(one.license_id, one.id) for one in activations]
    return {row[0]: rows.to_datetime(row[1]) for row in store.LAST_SEEN_WITH.find_rows(tx.connection, wanted)}


def find_licenses_last_seen(tx: ReadTransaction, license_ids: Iterable[int]) -> dict[int, datetime]:
    """Return when a device of these licenses was last seen, by license, where known."""
    found = _LICENSES_LAST_SEEN.find_rows(tx.connection, license_ids)
    return {row.license_id: rows.to_datetime(row.seen_at) for row in found}


def _has_few(license: License) -> bool:
    return license.record_count <= store.FEW_RECORDS


def _by_key(
    found: Iterable[Any], key_of: dict[bytes, str]
) -> tuple[dict[str, License], dict[int, list[Activation]]]:
    licenses: dict[str, License] = {}
    records: dict[int, list[Activation]] = {}
    for row in found:
        key = key_of[row[KEY_HASH]]
        if key not in licenses:
            licenses[key] = license_of(row[:_SIZE], key)
        if row[_SIZE] is not None:
            record = store.activation_of(row[_SIZE:])
            records.setdefault(record.license_id, []).append(record)
    for some in records.values():
        some.sort(key=rules.by_age)
    return licenses, records


def _by_license(records: Iterable[Activation]) -> dict[int, list[Activation]]:
    found: dict[int, list[Activation]] = {}
    for one in records:
        found.setdefault(one.license_id, []).append(one)
    return found


def _find_devices(
    tx: ReadTransaction, named: Collection[tuple[str, str | None, str | None]]
) -> tuple[dict[str, License], dict[int, list[Activation]]]:
    asked = ("fingerprint", "token")
    places = [i for i in (0, 1) if any(one[1 + i] is not None for one in named)]
    # An empty text matches no fingerprint and no token.
    wanted = [(key, *(device[i] or "" for i in places)) for key, *device in named]
    licenses, records = _find_records_of(tx, tuple(asked[i] for i in places), wanted)
    return licenses, _by_license(records)


def _find_named(
    tx: ReadTransaction, places: Collection[tuple[str, str]]
) -> tuple[dict[str, License], list[Activation]]:
    # Databases cannot store NUL; without it, the text is no token.
    return _find_records_of(tx, ("token",), [(key, token.replace("\0", "")) for key, token in places])


def _find_records_of(
    tx: ReadTransaction, names: tuple[str, ...], wanted: Sequence[tuple[str, ...]]
) -> tuple[dict[str, License], list[Activation]]:
    """Return the licenses with the keys that are first in each item of ``wanted``, and those of their records
    where one of these columns has the value that follows.
    """
    key_of = tx.key_ring.blind_indexes({key for key, *_ in wanted})
    indexes: dict[str, list[bytes]] = {}
    for index, key in key_of.items():
        indexes.setdefault(key, []).append(index)
    rows_wanted = [(index, *values) for key, *values in wanted for index in indexes[key]]
    licenses: dict[str, License] = {}
    found = []
    for row in select_by_arrays(tx.connection, store.select_records_of(names), rows_wanted):
        key = key_of[row[KEY_HASH]]
        if key not in licenses:
            licenses[key] = license_of(row[:_SIZE], key)
        for start in _STARTS[: len(names)]:
            if row[start] is not None:
                found.append(store.activation_of(row[start : start + len(store.ACTIVATION)]))
    return licenses, found


# --- pruning --------------------------------------------------------------------------------------


def prune(tx: WriteTransaction, licenses: Iterable[License], kept: int) -> None:
    """Delete the oldest records of these licenses that need not be kept any more, and correct the counters in
    the rows; ``kept`` is that of ``RecordLimits``.
    """
    at_once, if_old = [], []
    for license in licenses:
        over_most, over_kept = rules.surplus(license, kept)
        long_ago = rows.to_seconds(license.updated_at - rules.KEPT_FOR)
        at_once += [{"license_id": license.id, "until": _END, "amount": over_most}] * (over_most > 0)
        if_old += [{"license_id": license.id, "until": long_ago, "amount": over_kept}] * (over_kept > 0)
    # In sequence: the second must not count what the first deletes.
    _delete_oldest(tx, at_once)
    _delete_oldest(tx, if_old)


def _delete_oldest(tx: WriteTransaction, surplus: list[Values]) -> None:
    if not surplus:
        return
    if tx.is_postgres:
        tx.connection.execute(_PRUNE_AT_ONCE, {"rows": json_text(surplus)})
        return
    for one in surplus:
        tx.connection.execute(_NOTE, one)
        tx.connection.execute(_UNSEE, one)
        pruned = tx.connection.execute(_PRUNE, one).rowcount
        if pruned:
            tx.connection.execute(_COUNT, {"license_id": one["license_id"], "pruned": pruned})


def describe_device(activation: Activation) -> dict[str, Any]:
    """What an event contains about its device; if given up, also how long it may still run offline."""
    until = None if activation.deactivated_at is None else activation.runs_until
    found = {"name": activation.label, "app_version": activation.app_version, "offline_until": until}
    return {name: one for name, one in found.items() if one}
