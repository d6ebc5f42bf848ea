"""Statements of the daily counts of events, of all licenses and by product."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import BigInteger, bindparam, func, literal_column, select

from keywright.db.bulk import bulk_upsert
from keywright.db.schema import daily_counts, daily_product_counts, events, licenses
from keywright.db.transaction import ReadTransaction, WriteTransaction

#: The event of a license that was imported or changed by an import; the name of the latter in the counts.
#: The name, in the counts of days, of calls through a proxy that is not trusted.
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
_ADD_PRODUCT_COUNTS = bulk_upsert(daily_product_counts, ["product_id", "day", "name"], sums=["amount"])


def count_per_day(tx: ReadTransaction, *, after_id: int, until_id: int) -> dict[tuple[int, str], int]:
    """The number of these events by day and name."""
    span = {"after": after_id, "until": until_id}
    found = {(day, name): amount for day, name, amount in tx.connection.execute(_COUNTS_PER_DAY, span)}
    return found | Counter(count_as(event) for event in tx.connection.execute(_IMPORTS, span))


def count_by_product(tx: ReadTransaction, *, after_id: int, until_id: int) -> dict[tuple[int, int, str], int]:
    """The number of these events by the product that the license has now, day and name."""
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
    """The day and the name under which an event is counted: a license that was imported is new on the day on
    which it was made, and one that an import has changed is not new.
    """
    day = day_of(event.occurred_at)
    if event.name != IMPORTED:
        return day, event.name
    made_at = msgspec.json.decode(event.details or "{}").get("created_at")
    return (day, REIMPORTED) if made_at is None else (min(day, day_of(made_at)), IMPORTED)


def day_of(seconds: int) -> int:
    """The number of the day, as ``daily_counts`` has it."""
    return seconds // _DAY


def save_counts(tx: WriteTransaction, amounts: Mapping[tuple[int, str], int]) -> None:
    """Add to the daily counts, by day and name."""
    values = [{"day": day, "name": name, "amount": amount} for (day, name), amount in sorted(amounts.items())]
    _ADD_COUNTS.execute(tx.connection, values)
