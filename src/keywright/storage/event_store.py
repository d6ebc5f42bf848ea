"""SQL of events."""

from collections.abc import Sequence

from keywright.model import (
    Event,
)
from keywright.storage import queries, rows
from keywright.storage.many import is_postgres
from keywright.storage.transactions import Reading, Writing


def list_events(tx: Reading, license_id: int, *, limit: int) -> list[Event]:
    """The latest ``limit`` events of a license, latest first."""
    query = queries.latest_events(license_id, limit)
    return [rows.event_of(row) for row in tx.connection.execute(query)]


def save_events(tx: Writing, happened: Sequence[Event]) -> None:
    """Add to the record of what happened."""
    if is_postgres(tx.connection) and any(not one.license_id for one in happened):
        # The transaction has a number before its events have; those of a license were written after it.
        tx.connection.execute(queries.BEGIN_TO_WRITE)
    queries.INSERT_EVENTS.execute(tx.connection, [rows.event_values(one) for one in happened])
