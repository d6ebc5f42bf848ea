"""Statements of the daily counts of events, of all licenses and by product."""

from collections.abc import Mapping

from sqlalchemy import BigInteger, bindparam, func, literal_column, select

from keywright.db.bulk import bulk_upsert
from keywright.db.schema import daily_counts, daily_product_counts, events, licenses
from keywright.db.transaction import ReadTransaction, WriteTransaction

#: The name, in the counts of days, of calls through a proxy that is not trusted.
FORWARDED_BLINDLY = "call.forwarded_blindly"
_DAY = 86_400

_DAY_OF_EVENT = events.c.occurred_at // literal_column(str(_DAY), BigInteger)
_COUNTS_PER_DAY = (
    select(_DAY_OF_EVENT, events.c.name, func.count())
    .where(events.c.id > bindparam("after"), events.c.id <= bindparam("until"))
    .group_by(_DAY_OF_EVENT, events.c.name)
)
_COUNTS_OF_PRODUCTS = (
    select(licenses.c.product_id, _DAY_OF_EVENT, events.c.name, func.count())
    .join(licenses, licenses.c.id == events.c.license_id)
    .where(
        events.c.id > bindparam("after"),
        events.c.id <= bindparam("until"),
        licenses.c.product_id.is_not(None),
    )
    .group_by(licenses.c.product_id, _DAY_OF_EVENT, events.c.name)
)
_ADD_COUNTS = bulk_upsert(daily_counts, ["day", "name"], sums=["amount"])
_ADD_PRODUCT_COUNTS = bulk_upsert(daily_product_counts, ["product_id", "day", "name"], sums=["amount"])


def count_per_day(tx: ReadTransaction, *, after_id: int, until_id: int) -> dict[tuple[int, str], int]:
    """The number of these events by day and name."""
    found = tx.connection.execute(_COUNTS_PER_DAY, {"after": after_id, "until": until_id})
    return {(day, name): amount for day, name, amount in found}


def count_by_product(tx: ReadTransaction, *, after_id: int, until_id: int) -> dict[tuple[int, int, str], int]:
    """The number of these events by the product that the license has now, day and name."""
    found = tx.connection.execute(_COUNTS_OF_PRODUCTS, {"after": after_id, "until": until_id})
    return {(product_id, day, name): amount for product_id, day, name, amount in found}


def save_product_counts(tx: WriteTransaction, amounts: Mapping[tuple[int, int, str], int]) -> None:
    """Add to the daily counts by product, day and name."""
    values = [
        {"product_id": product_id, "day": day, "name": name, "amount": amount}
        for (product_id, day, name), amount in sorted(amounts.items())
    ]
    _ADD_PRODUCT_COUNTS.execute(tx.connection, values)


def day_of(seconds: int) -> int:
    """The number of the day, as ``daily_counts`` has it."""
    return seconds // _DAY


def save_counts(tx: WriteTransaction, amounts: Mapping[tuple[int, str], int]) -> None:
    """Add to the daily counts, by day and name."""
    values = [{"day": day, "name": name, "amount": amount} for (day, name), amount in sorted(amounts.items())]
    _ADD_COUNTS.execute(tx.connection, values)
