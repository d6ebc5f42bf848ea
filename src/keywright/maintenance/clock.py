"""Check whether the system clock is plausible: compare it with the last plausible time, and on PostgreSQL
with the database's clock.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import func, select, text

from keywright.core.command import Command, Query
from keywright.core.parsing import write_time
from keywright.db.rows import to_datetime, to_seconds
from keywright.db.schema import idempotency_records, shop_events
from keywright.db.transaction import ReadTransaction
from keywright.events.store import find_checkpoint, find_newest_moment
from keywright.events.unit_of_work import UnitOfWork
from keywright.maintenance.tasks import BelieveClock, FindBelieved

#: How far the clock may be ahead of the last plausible time (no server was running), and how far behind it
#: (the clock was set back).
MOST_AHEAD, MOST_BEHIND = timedelta(days=3), timedelta(minutes=30)
#: A larger difference between the clocks of a server and the database causes a warning.
CLOCKS_APART = timedelta(seconds=10)
_NAME = "clock_believed_at"


def is_plausible(now: datetime, believed: datetime) -> bool:
    """Whether ``now`` is plausible after the last plausible time."""
    return -MOST_BEHIND <= now - believed <= MOST_AHEAD


def find_believed(tx: ReadTransaction) -> datetime | None:
    """The last plausible time; if none is stored, that of the newest event, shop event or idempotency record.
    None if there are none.
    """
    if seconds := find_checkpoint(tx, _NAME):
        return to_datetime(seconds)
    newest = [
        tx.connection.execute(select(func.max(column))).scalar()
        for column in (shop_events.c.received_at, idempotency_records.c.created_at)
    ]
    found = [find_newest_moment(tx), *(None if one is None else to_datetime(one) for one in newest)]
    return max((one for one in found if one is not None), default=None)


def find_doubt(tx: ReadTransaction, now: datetime) -> datetime | None:
    """The last plausible time if ``now`` is not plausible after it, else None."""
    believed = find_believed(tx)
    return None if believed is None or is_plausible(now, believed) else believed


def measure_difference(tx: ReadTransaction) -> timedelta | None:
    """How far the database's clock is ahead of this process's clock; None for SQLite, which has no clock."""
    began, theirs = datetime.now(UTC), tx.read_clock()
    return None if theirs is None else theirs - began - (datetime.now(UTC) - began) / 2


def list_clock_warnings(tx: ReadTransaction, now: datetime) -> Iterator[str]:
    """Warn about a clock that is not plausible, or differs from the database's."""
    if (believed := find_doubt(tx, now)) is not None:
        yield (
            f"the clock says {write_time(now)} UTC, and the last moment known to be right was "
            f"{write_time(believed)} UTC: servers delete and send nothing for up to 48 hours. Set the "
            "clock; if it is right, run `keywright doctor --confirm-clock`."
        )
    difference = measure_difference(tx)
    if difference is not None and abs(difference) > CLOCKS_APART:
        yield (
            f"the database's clock differs from this machine's by {abs(difference).total_seconds():,.0f} s. "
            "Synchronize both with the same time servers (NTP)."
        )


def believing(now: datetime) -> str:
    """The SQL statement that saves ``now`` as the last plausible time."""
    return (
        f"INSERT INTO checkpoints (name, last_id) VALUES ('{_NAME}', {to_seconds(now)}) "  # noqa: S608
        "ON CONFLICT (name) DO UPDATE SET last_id = excluded.last_id"
    )


def believe(work: UnitOfWork, command: BelieveClock) -> None:
    """Save the current time as plausible."""
    work.tx.connection.execute(text(believing(command.context.now)))
    if command.is_confirmed:
        work.record_event("clock.confirmed", command)


HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {BelieveClock: believe}
QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    FindBelieved: lambda read, _: find_believed(read.tx)
}
