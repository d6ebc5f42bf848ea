"""How often what happened on each day, in all or to the licenses of a product."""

from collections.abc import Collection
from datetime import date, timedelta

from keywright.db import ReadTransaction
from keywright.search.store import list_daily_counts, list_daily_product_counts

_EPOCH = date(1970, 1, 1)


def list_days(
    tx: ReadTransaction, names: Collection[str], *, last: date, days: int, product_id: int | None = None
) -> dict[str, tuple[int, ...]]:
    """The amounts on so many days (UTC), the last of which is ``last``, by name."""
    end = (last - _EPOCH) // timedelta(days=1) + 1
    if product_id is None:
        counts = list_daily_counts(tx, names, end - days)
    else:
        counts = list_daily_product_counts(tx, product_id, names, end - days)
    return {name: tuple(counts.get((name, day), 0) for day in range(end - days, end)) for name in names}
