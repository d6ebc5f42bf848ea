"""Delete old events, and surplus events of client calls on one license.

Only projected events are deleted, so that the projection misses none. A statement reads some hundred events,
or those of one license.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa

from keywright.core.command import Command
from keywright.db import rows
from keywright.db.bulk import Lookup
from keywright.db.schema import api_keys, events
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.events.store import DELETED_BEFORE, advance_checkpoint, find_checkpoint, find_newest_moment
from keywright.events.unit_of_work import UnitOfWork
from keywright.identity.model import Permissions
from keywright.licensing.undo.store import delete_old
from keywright.licensing.usage import store as usage_store
from keywright.maintenance.tasks import PurgeDeletedLicenses, PurgeEvents, PurgeUsage
from keywright.search.terms_store import Checkpoints, find_checkpoints

#: The maximum number of events of client calls that a license keeps per day (UTC), and in total.
MAX_PER_DAY, MAX_TOTAL = 1_000, 20_000
#: The names of such events.
OWN = (
    *("license.activated", "license.reactivated", "license.deactivated", "license.device_replaced"),
    *("lease.lost", "usage.threshold"),
)
#: The name, in ``checkpoints``, of the last event that was searched for licenses with too many.
_LOOKED_AT = "events_looked_at"
#: The maximum number of events of one license to delete at once.
_MAX_DELETED = 5_000

_CLIENTS = sa.select(sa.literal("api_key:") + sa.cast(api_keys.c.id, sa.Text)).where(
    api_keys.c.permissions == Permissions.CLIENT
)
_IS_OWN = events.c.name.in_(OWN) & sa.or_(events.c.actor == "program", events.c.actor.in_(_CLIENTS))
_NEXT = (
    sa.select(events.c.id, events.c.occurred_at, events.c.license_id)
    .where(events.c.id > sa.bindparam("after"), events.c.id <= sa.bindparam("until"))
    .order_by(events.c.id)
    .limit(sa.bindparam("most"))
)
_DELETE_OLD = sa.delete(events).where(
    events.c.id <= sa.bindparam("until"), events.c.occurred_at < sa.bindparam("moment")
)
_COUNTED = Lookup(
    sa.select(events.c.license_id, sa.func.count().label("amount")).group_by(events.c.license_id),
    events.c.license_id,
)
_DAY = events.c.occurred_at // sa.literal_column("86400", sa.BigInteger)
_OF_DAYS = (
    sa.select(
        events.c.id,
        sa.func.row_number().over(partition_by=_DAY, order_by=events.c.id.desc()).label("of_day"),
    )
    .where(events.c.license_id == sa.bindparam("where_id"), events.c.id <= sa.bindparam("until"), _IS_OWN)
    .subquery()
)
# Surplus events of a day do not count towards the total.
_IS_OF_DAY = _OF_DAYS.c.of_day <= sa.bindparam("day")
_OF_ALL = sa.select(
    _OF_DAYS.c.id,
    _IS_OF_DAY.label("is_of_day"),
    sa.func.row_number().over(partition_by=_IS_OF_DAY, order_by=_OF_DAYS.c.id.desc()).label("of_all"),
).subquery()
_TOO_MANY = (
    sa.select(_OF_ALL.c.id)
    .where(sa.or_(sa.not_(_OF_ALL.c.is_of_day), _OF_ALL.c.of_all > sa.bindparam("all")))
    .limit(sa.bindparam("most"))
)
_DELETE_TOO_MANY = sa.delete(events).where(events.c.id.in_(_TOO_MANY))


def delete_old_events(tx: WriteTransaction, before: datetime, *, limit: int) -> int:
    """Delete those of the first ``limit`` events that happened before this moment; return how many."""
    first = tx.connection.execute(_NEXT, {"after": 0, "until": _last_projected_id(tx), "most": limit}).all()
    moment = rows.to_seconds(before)
    old = [one.id for one in first if one.occurred_at < moment]
    if not old:
        return 0
    advance_checkpoint(tx, DELETED_BEFORE, moment)
    return tx.connection.execute(_DELETE_OLD, {"until": old[-1], "moment": moment}).rowcount


def find_crowded(tx: WriteTransaction, *, limit: int) -> tuple[int, list[int]]:
    """Read the next events; return their number, and the IDs of their licenses that may have too many."""
    values = {"after": find_checkpoint(tx, _LOOKED_AT), "until": _last_projected_id(tx), "most": limit}
    found = tx.connection.execute(_NEXT, values).all()
    if not found:
        return 0, []
    advance_checkpoint(tx, _LOOKED_AT, found[-1].id)
    named = {one.license_id for one in found if one.license_id}
    counted = _COUNTED.find_rows(tx.connection, sorted(named))
    return len(found), sorted({one.license_id for one in counted if one.amount > MAX_PER_DAY})


def delete_too_many(tx: WriteTransaction, license_id: int) -> int:
    """Delete some thousand of a license's surplus events, the oldest of each day; return how many."""
    values = {"where_id": license_id, "until": _last_projected_id(tx), "day": MAX_PER_DAY, "all": MAX_TOTAL}
    return tx.connection.execute(_DELETE_TOO_MANY, values | {"most": _MAX_DELETED}).rowcount


def are_all_kept(names: Iterable[tuple[str, int]]) -> bool:
    """Whether a license with these event counts by name cannot have had surplus events."""
    return sum(times for name, times in names if name.startswith(OWN)) < MAX_PER_DAY


def _last_projected_id(tx: ReadTransaction) -> int:
    at = find_checkpoints(tx) or Checkpoints()
    return at.events if 0 <= at.past_until <= at.past_events else max(0, at.past_events)


#: How many events a transaction reads: to find old ones, and to find licenses with too many.
_OLD_AT_ONCE, _AT_ONCE = 1_000, 200
#: How many snapshots of deleted licenses a transaction deletes.
_SNAPSHOTS_AT_ONCE = 50


class PurgeResult(msgspec.Struct, frozen=True):
    """A step of deleting events; after the last one, only the ``crowded`` licenses remain to be processed."""

    is_last: bool
    crowded: tuple[int, ...] = ()


def purge_events(work: UnitOfWork, command: PurgeEvents) -> PurgeResult | None:
    """Delete some events that are past retention. Return None and delete nothing if even the newest event is
    past it: nothing has happened for a long time, or the clock has jumped.
    """
    tx = work.tx
    if command.license_id is not None:
        return PurgeResult(is_last=not delete_too_many(tx, command.license_id))
    if command.before is not None:
        newest = find_newest_moment(tx)
        if newest is not None and newest < command.before:
            return None
        if delete_old_events(tx, command.before, limit=_OLD_AT_ONCE):
            return PurgeResult(is_last=False)
    looked_at, crowded = find_crowded(tx, limit=_AT_ONCE)
    return PurgeResult(is_last=looked_at < _AT_ONCE, crowded=tuple(crowded))


def purge_deleted_licenses(work: UnitOfWork, command: PurgeDeletedLicenses) -> int:
    """Delete the snapshots of some deleted licenses; return how many."""
    return delete_old(work.tx, command.before, limit=_SNAPSHOTS_AT_ONCE)


def purge_usage(work: UnitOfWork, command: PurgeUsage) -> int:
    """Delete some usage of old periods; return how many rows."""
    return usage_store.delete_old(work.tx, command.before)


HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {
    PurgeEvents: purge_events,
    PurgeDeletedLicenses: purge_deleted_licenses,
    PurgeUsage: purge_usage,
}
