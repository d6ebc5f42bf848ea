"""What server processes have counted in memory, kept."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import bindparam, delete, or_, select, update

from keywright.db import rows
from keywright.db.bulk import upserting
from keywright.db.schema import api_keys, limit_refusals
from keywright.db.transaction import WriteTransaction

_MOST_FORGOTTEN = 1_000

_REFUSE = upserting(limit_refusals, ["license_id"], sums=["refusals"], largest=["last_refused_at"])
# What another process is writing to is not old, whatever it looks like: nobody waits for it.
_OLD = (
    select(limit_refusals.c.license_id)
    .where(limit_refusals.c.last_refused_at < bindparam("before"))
    .limit(_MOST_FORGOTTEN)
    .with_for_update(skip_locked=True)
)
_FORGET = delete(limit_refusals).where(limit_refusals.c.license_id.in_(_OLD))
_USE = (
    update(api_keys)
    .where(
        api_keys.c.id == bindparam("api_key_id"),
        or_(api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at < bindparam("used_at")),
    )
    .values(last_used_at=bindparam("used_at"))
)


def save_refusals(tx: WriteTransaction, times: Mapping[int, int], now: datetime) -> None:
    """These licenses, by id, had no free place for somebody so many times more."""
    last_refused_at = rows.seconds(now)
    values = [
        {"license_id": one, "refusals": times[one], "last_refused_at": last_refused_at}
        for one in sorted(times)
    ]
    _REFUSE.execute(tx.connection, values)


def forget_refusals(tx: WriteTransaction, before: datetime) -> None:
    """Forget licenses that had none before this moment for the last time."""
    tx.connection.execute(_FORGET, {"before": rows.seconds(before)})


def save_used(tx: WriteTransaction, used_at: Mapping[int, datetime]) -> None:
    """These API keys, by id, were used, if they were not used later."""
    # One by one in order, so that two who do this cannot wait for each other.
    for api_key_id in sorted(used_at):
        values = {"api_key_id": api_key_id, "used_at": rows.seconds(used_at[api_key_id])}
        tx.connection.execute(_USE, values)
