"""SQL of activations."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from keywright import rules
from keywright.model import (
    Activation,
)
from keywright.storage import queries, rows
from keywright.storage.many import Lookup
from keywright.storage.transactions import Reading, Writing, rows_with


def list_activations(tx: Reading, license_ids: Iterable[int]) -> dict[int, list[Activation]]:
    """Every record of these licenses, by license, oldest first."""
    return _by_license(tx, queries.ACTIVATIONS_OF, license_ids)


def list_active(tx: Reading, license_ids: Iterable[int]) -> dict[int, list[Activation]]:
    """Every active record of these licenses, by license, oldest first."""
    return _by_license(tx, queries.ACTIVE_OF, license_ids)


def find_activations(tx: Reading, tokens: Iterable[tuple[int, str]]) -> list[Activation]:
    """The records with these tokens, each only within its license."""
    # No database needs to be asked for a text that none can hold.
    possible = [pair for pair in tokens if "\0" not in pair[1]]
    found = {
        (row.license_id, row.token): rows.activation_of(row)
        for row in queries.ACTIVATIONS_WITH.rows(tx.connection, possible)
    }
    return list(found.values())


def _by_license(tx: Reading, query: Lookup, license_ids: Iterable[int]) -> dict[int, list[Activation]]:
    found: dict[int, list[Activation]] = {}
    for row in rows_with(tx, query, license_ids):
        found.setdefault(row[2], []).append(rows.activation_of(row))
    for records in found.values():
        records.sort(key=rules.by_age)
    return found


def recount(tx: Writing, license_id: int) -> dict[str, list[int]] | None:
    """Set a license's counters to the numbers of its active activations and of those that were given up;
    returns what the wrong ones were and are, by name, None when there is no such license any more.
    """
    row = tx.connection.execute(queries.COUNTERS_LOCKED, {"at_id": license_id}).first()
    if row is None:
        return None
    active, ended = tx.connection.execute(queries.RECORDS_COUNTED, {"at_id": license_id}).one()
    limit = row.times_activated_max
    room = None if limit is None else max(limit, active)
    values = {"at_id": license_id, "taken": active, "ended": ended, "room": room}
    tx.connection.execute(queries.RECOUNT, values)
    pairs = {
        "times_activated": [row.times_activated, active],
        "deactivated_records": [row.deactivated_records, ended],
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def delete_licenses(tx: Writing, license_ids: Collection[int]) -> None:
    """Delete these licenses and their activations; their events stay."""
    queries.DELETE_ACTIVATIONS.execute(tx.connection, [{"at_license_id": number} for number in license_ids])
    queries.DELETE_LICENSES.execute(tx.connection, [{"at_id": number} for number in license_ids])


def save_new_activations(tx: Writing, new: Sequence[Activation]) -> None:
    """Insert."""
    values = [rows.activation_values(one) for one in new]
    queries.INSERT_ACTIVATIONS.execute(tx.connection, values)


def save_activations(tx: Writing, changed: Sequence[Activation]) -> None:
    """Update what reactivating and deactivating change."""
    values = [rows.activation_changes(one) for one in changed]
    queries.UPDATE_ACTIVATIONS.execute(tx.connection, values)


def deactivate_all(tx: Writing, license_id: int, now: datetime) -> None:
    """Give up every place of a license, in one statement however many there are."""
    values = {"at_id": license_id, "moment": rows.seconds(now)}
    tx.connection.execute(queries.DEACTIVATE_ACTIVATIONS, values)
