"""Store the counters that server processes keep in memory."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import bindparam, delete, or_, select, update

from keywright.db import rows
from keywright.db.bulk import bulk_upsert
from keywright.db.schema import api_keys, limit_refusals
from keywright.db.transaction import WriteTransaction

_MAX_DELETED = 1_000

_ADD_REFUSALS = bulk_upsert(limit_refusals, ["license_id"], sums=["refusals"], largest=["last_refused_at"])
# A row that another process is writing is not old: skip it.
_OLD_REFUSALS = (
    select(limit_refusals.c.license_id)
    .where(limit_refusals.c.last_refused_at < bindparam("before"))
    .limit(_MAX_DELETED)
    .with_for_update(skip_locked=True)
)
_DELETE_OLD = delete(limit_refusals).where(limit_refusals.c.license_id.in_(_OLD_REFUSALS))
_UPDATE_LAST_USED = (
    update(api_keys)
    .where(
        api_keys.c.id == bindparam("api_key_id"),
        or_(api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at < bindparam("used_at")),
    )
    .values(last_used_at=bindparam("used_at"))
)


def save_refusals(tx: WriteTransaction, times: Mapping[int, int], now: datetime) -> None:
    """Add refusals at the limit, by license id."""
    last_refused_at = rows.to_seconds(now)
    values = [
        {"license_id": one, "refusals": times[one], "last_refused_at": last_refused_at}
        for one in sorted(times)
    ]
    _ADD_REFUSALS.execute(tx.connection, values)


def delete_old_refusals(tx: WriteTransaction, before: datetime) -> int:
    """Delete some of the licenses whose last refusal was before this moment; returns how many."""
    return tx.connection.execute(_DELETE_OLD, {"before": rows.to_seconds(before)}).rowcount


def save_last_used(tx: WriteTransaction, used_at: Mapping[int, datetime]) -> None:
    """Store when these API keys, by id, were last used, unless a later time is stored."""
    # In a fixed order, so that two processes cannot deadlock.
    for api_key_id in sorted(used_at):
        values = {"api_key_id": api_key_id, "used_at": rows.to_seconds(used_at[api_key_id])}
        tx.connection.execute(_UPDATE_LAST_USED, values)
