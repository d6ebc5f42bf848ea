"""SQL of licenses."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Select

from keywright.errors import StoreConflict
from keywright.model import (
    License,
    LicenseFilter,
)
from keywright.storage import queries, rows
from keywright.storage.many import Lookup, Values, is_postgres
from keywright.storage.transactions import Reading, Writing, rows_with


def find_licenses(tx: Reading, keys: Iterable[str]) -> dict[str, License]:
    """The licenses that have these keys, by key."""
    return _licenses_by_key(tx, keys, queries.LICENSES_WITH)


def list_licenses(tx: Reading, where: LicenseFilter, *, after_id: int, limit: int) -> list[License]:
    """At most ``limit`` matching licenses with larger numbers than ``after_id``, oldest first."""
    query = queries.listed(where)
    return _unsealed(tx, query.where(query.selected_columns.id > after_id).limit(limit))


def list_license_page(
    tx: Reading, where: LicenseFilter, *, skip: int, limit: int, after_id: int = 0
) -> list[License]:
    """At most ``limit`` matching licenses after the first ``skip`` of those with larger numbers than
    ``after_id``, oldest first.
    """
    return _unsealed(tx, queries.page(where, after_id=after_id, skip=skip).limit(limit))


def count_licenses(tx: Reading, where: LicenseFilter, *, most: int | None = None) -> int:
    """The number of matching licenses; no more than ``most`` are counted."""
    return int(tx.connection.execute(queries.counted(where, most)).scalar_one())


def _licenses_by_key(tx: Reading, keys: Iterable[str], query: Lookup) -> dict[str, License]:
    key_of = tx.key_ring.fingerprints(keys)
    found = {}
    for row in rows_with(tx, query, key_of):
        key = key_of[row[0]]
        found[key] = rows.license_of(row, key)
    return found


def _unsealed(tx: Reading, query: Select[Any]) -> list[License]:
    unseal = tx.key_ring.unseal_key
    return [rows.license_of(row[:-1], unseal(row.sealed_key, row.id)) for row in tx.connection.execute(query)]


def lock_licenses(tx: Writing, keys: Iterable[str]) -> dict[str, License]:
    """The licenses that have these keys, by key, locked in id order until the end."""
    return _licenses_by_key(tx, keys, queries.LICENSES_LOCKED)


def find_holders(tx: Writing, keys: Iterable[str]) -> dict[str, str]:
    """Which of these licenses another transaction holds that waits for no lock itself: the numbers of
    those transactions, by key. Nothing is locked, and nothing waited for.
    """
    if not is_postgres(tx.connection):
        return {}
    key_of = tx.key_ring.fingerprints(keys)
    return {key_of[row[0]]: row[1] for row in rows_with(tx, queries.HOLDERS, key_of)}


def save_new_licenses(tx: Writing, new: Sequence[License]) -> None:
    """Insert; the database rejects a key that is taken."""
    values = [_license_values(tx, one, None) | {"id": one.id} for one in new]
    queries.INSERT_LICENSES.execute(tx.connection, values)
    _refuse_other_fingerprints(tx, new)


def save_licenses(tx: Writing, changed: Sequence[License], before: Mapping[int, License]) -> None:
    """Update everything, the key too; the database rejects a key that is taken, and a counter that rose
    above the limit it had ``before`` (by id).
    """
    values = [_license_values(tx, one, before[one.id]) | {"at_id": one.id} for one in changed]
    queries.UPDATE_LICENSES.execute(tx.connection, values)
    _refuse_other_fingerprints(tx, changed)


def save_places_taken(tx: Writing, changed: Sequence[License]) -> None:
    """Update what taking a place changes; the table's CHECK judges the new counter."""
    queries.UPDATE_COUNTERS.execute(tx.connection, [rows.counter_values(one) for one in changed])


def save_first_places_taken(tx: Writing, changed: Sequence[License]) -> None:
    """The same where the license's time begins with it: the expiry, too."""
    values = [
        rows.counter_values(one) | rows.history_values(one) | rows.expiry_values(one) for one in changed
    ]
    queries.UPDATE_COUNTERS_AND_EXPIRY.execute(tx.connection, values)


def save_places_taken_back(tx: Writing, changed: Sequence[License]) -> None:
    """The same where some of the places were given up before."""
    values = [rows.counter_values(one) | rows.history_values(one) for one in changed]
    queries.UPDATE_COUNTERS_AND_RECORDS.execute(tx.connection, values)


def save_places_given_up(tx: Writing, changed: Sequence[License], before: Mapping[int, License]) -> None:
    """Update what giving up places changes, since ``before`` (by id)."""
    values = [
        rows.counter_values(one) | rows.history_values(one) | {"places": rows.places(one, before[one.id])}
        for one in changed
    ]
    queries.UPDATE_COUNTERS_AND_PLACES.execute(tx.connection, values)


def _refuse_other_fingerprints(tx: Writing, written: Sequence[License]) -> None:
    """Raise ``StoreConflict`` for a key that another license has under the other secret. The table's
    constraint holds for each secret by itself; nothing is written with the other one any more, so what
    is not found now cannot come.
    """
    if len(tx.key_ring.rings) == 1 or not written:
        return
    own = {tx.sealing.fingerprint(one.key) for one in written}
    others = tx.key_ring.fingerprints([one.key for one in written]).keys() - own
    if rows_with(tx, queries.LICENSES_WITH, others):
        raise StoreConflict("a license key is taken, and still sealed with the other secret")


def _license_values(tx: Writing, license: License, before: License | None) -> Values:
    return rows.license_values(license) | {
        "places": rows.places(license, before),
        "fingerprint": tx.sealing.fingerprint(license.key),
        "sealed_key": tx.sealing.seal_key(license.key, license.id),
    }
