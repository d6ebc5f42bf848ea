"""Store daily counts of events, and the counters that server processes keep in memory."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import BigInteger, bindparam, delete, func, literal_column, or_, select, update

from keywright.db import rows
from keywright.db.bulk import bulk_upsert
from keywright.db.schema import (
    api_keys,
    daily_counts,
    daily_product_counts,
    events,
    licenses,
    limit_refusals,
    release_counts,
)
from keywright.db.transaction import ReadTransaction, WriteTransaction

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
    """Add refusals at the limit, by license ID."""
    last_refused_at = rows.to_seconds(now)
    values = [
        {"license_id": one, "refusals": times[one], "last_refused_at": last_refused_at}
        for one in sorted(times)
    ]
    _ADD_REFUSALS.execute(tx.connection, values)


def delete_old_refusals(tx: WriteTransaction, before: datetime) -> int:
    """Delete some of the rows whose last refusal was before this moment; returns how many."""
    return tx.connection.execute(_DELETE_OLD, {"before": rows.to_seconds(before)}).rowcount


def save_last_used(tx: WriteTransaction, used_at: Mapping[int, datetime]) -> None:
    """Store when these API keys, by ID, were last used, unless a later time is stored."""
    # In a fixed order, so that two processes cannot deadlock.
    for api_key_id in sorted(used_at):
        values = {"api_key_id": api_key_id, "used_at": rows.to_seconds(used_at[api_key_id])}
        tx.connection.execute(_UPDATE_LAST_USED, values)


#: The event of a license that was imported or changed by an import; the name of the latter in the daily
#: counts; and the name there of calls through an untrusted proxy.
IMPORTED, REIMPORTED = "license.imported", "license.reimported"
FORWARDED_BLINDLY = "call.forwarded_blindly"
_DAY = 86_400

_DAY_OF_EVENT = events.c.occurred_at // literal_column(str(_DAY), BigInteger)
_COUNTS_PER_DAY = (
    select(_DAY_OF_EVENT, events.c.name, func.count())
    .where(events.c.id > bindparam("after"), events.c.id <= bindparam("until"), events.c.name != IMPORTED)
    .group_by(_DAY_OF_EVENT, events.c.name)
)
_COUNTS_OF_PRODUCTS = (
    select(licenses.c.product_id, _DAY_OF_EVENT, events.c.name, func.count())
    .join(licenses, licenses.c.id == events.c.license_id)
    .where(
        events.c.id > bindparam("after"),
        events.c.id <= bindparam("until"),
        events.c.name != IMPORTED,
        licenses.c.product_id.is_not(None),
    )
    .group_by(licenses.c.product_id, _DAY_OF_EVENT, events.c.name)
)
_IMPORTS = (
    select(events.c.occurred_at, events.c.name, events.c.details, licenses.c.product_id)
    .join_from(events, licenses, licenses.c.id == events.c.license_id, isouter=True)
    .where(events.c.id > bindparam("after"), events.c.id <= bindparam("until"), events.c.name == IMPORTED)
)
_ADD_COUNTS = bulk_upsert(daily_counts, ["day", "name"], sums=["amount"])
_ADD_RELEASE_COUNTS = bulk_upsert(
    release_counts, ["release_id", "day"], sums=["checks", "offers", "downloads"]
)
_ADD_PRODUCT_COUNTS = bulk_upsert(daily_product_counts, ["product_id", "day", "name"], sums=["amount"])


def count_per_day(tx: ReadTransaction, *, after_id: int, until_id: int) -> dict[tuple[int, str], int]:
    """Count these events by day and name."""
    span = {"after": after_id, "until": until_id}
    found = {(day, name): amount for day, name, amount in tx.connection.execute(_COUNTS_PER_DAY, span)}
    return found | Counter(count_as(event) for event in tx.connection.execute(_IMPORTS, span))


def count_by_product(tx: ReadTransaction, *, after_id: int, until_id: int) -> dict[tuple[int, int, str], int]:
    """Count these events by the license's current product, day and name."""
    span = {"after": after_id, "until": until_id}
    rows = tx.connection.execute(_COUNTS_OF_PRODUCTS, span)
    found = {(product_id, day, name): amount for product_id, day, name, amount in rows}
    imports = [one for one in tx.connection.execute(_IMPORTS, span) if one.product_id is not None]
    return found | Counter((one.product_id, *count_as(one)) for one in imports)


def save_product_counts(tx: WriteTransaction, amounts: Mapping[tuple[int, int, str], int]) -> None:
    """Add to the daily counts by product, day and name."""
    values = [
        {"product_id": product_id, "day": day, "name": name, "amount": amount}
        for (product_id, day, name), amount in sorted(amounts.items())
    ]
    _ADD_PRODUCT_COUNTS.execute(tx.connection, values)


def count_as(event: Any) -> tuple[int, str]:
    """Return the day and the name under which an event is counted: an imported license is new on the day it
    was made, and one that an import changed is not new.
    """
    day = day_of(event.occurred_at)
    if event.name != IMPORTED:
        return day, event.name
    made_at = msgspec.json.decode(event.details or "{}").get("created_at")
    return (day, REIMPORTED) if made_at is None else (min(day, day_of(made_at)), IMPORTED)


def day_of(seconds: int) -> int:
    """Return the number of the day, as in ``daily_counts``."""
    return seconds // _DAY


def save_counts(tx: WriteTransaction, amounts: Mapping[tuple[int, str], int]) -> None:
    """Add to the daily counts, by day and name."""
    values = [{"day": day, "name": name, "amount": amount} for (day, name), amount in sorted(amounts.items())]
    _ADD_COUNTS.execute(tx.connection, values)


def save_release_counts(tx: WriteTransaction, day: int, amounts: Mapping[tuple[int, str], int]) -> None:
    """Add to the daily counts of releases: "checks", "offers" and "downloads", by release."""
    none = {"checks": 0, "offers": 0, "downloads": 0}
    values: dict[int, dict[str, int]] = {}
    for (release_id, what), amount in sorted(amounts.items()):
        values.setdefault(release_id, {"release_id": release_id, "day": day, **none})[what] = amount
    _ADD_RELEASE_COUNTS.execute(tx.connection, list(values.values()))
