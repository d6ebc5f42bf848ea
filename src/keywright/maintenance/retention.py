"""The limits on the age of events, and on the number of one license's."""

from collections.abc import Callable
from typing import Any

import msgspec

from keywright.core.command import Command
from keywright.events.store import find_newest_moment
from keywright.events.unit_of_work import UnitOfWork
from keywright.licensing.undo.store import delete_old
from keywright.licensing.usage import store as usage_store
from keywright.maintenance import old_events
from keywright.maintenance.commands import PurgeDeletedLicenses, PurgeEvents, PurgeUsage

#: How many events are looked at in one transaction: to find old ones, and licenses that have too many.
_OLD_AT_ONCE, _AT_ONCE = 1_000, 200
#: How many deleted licenses are forgotten in one transaction.
_SNAPSHOTS_AT_ONCE = 50


class PurgeResult(msgspec.Struct, frozen=True):
    """A step of deleting events; after the last one, only the ``crowded`` licenses are left to do."""

    is_last: bool
    crowded: tuple[int, ...] = ()


def purge_events(work: UnitOfWork, command: PurgeEvents) -> PurgeResult | None:
    """Delete some of the events that are not kept any more. None, and all are left, when even the newest
    would have to go: nothing has happened for long, or the clock has jumped.
    """
    tx = work.tx
    if command.license_id is not None:
        return PurgeResult(is_last=not old_events.delete_too_many(tx, command.license_id))
    if command.before is not None:
        newest = find_newest_moment(tx)
        if newest is not None and newest < command.before:
            return None
        if old_events.delete_old(tx, command.before, limit=_OLD_AT_ONCE):
            return PurgeResult(is_last=False)
    looked_at, crowded = old_events.find_crowded(tx, limit=_AT_ONCE)
    return PurgeResult(is_last=looked_at < _AT_ONCE, crowded=tuple(crowded))


def purge_deleted_licenses(work: UnitOfWork, command: PurgeDeletedLicenses) -> int:
    """Delete some of what is kept of deleted licenses; returns of how many."""
    return delete_old(work.tx, command.before, limit=_SNAPSHOTS_AT_ONCE)


def purge_usage(work: UnitOfWork, command: PurgeUsage) -> int:
    """Delete some usage of old periods; returns of how many."""
    return usage_store.delete_old(work.tx, command.before)


HANDLERS: dict[type[Command], Callable[[UnitOfWork, Any], Any]] = {
    PurgeEvents: purge_events,
    PurgeDeletedLicenses: purge_deleted_licenses,
    PurgeUsage: purge_usage,
}
