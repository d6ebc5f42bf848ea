"""Find the periods of meters that can be closed; list periods."""

from collections.abc import Callable
from typing import Any

from keywright.core.command import Query
from keywright.core.paging import ItemPage
from keywright.licensing.management_queries import require_license
from keywright.licensing.usage import period_store, rules, store
from keywright.licensing.usage.commands import FindDuePeriods, ListPeriods
from keywright.licensing.usage.model import MeterUsage


def find_due_periods(read: Any, query: FindDuePeriods) -> tuple[int, ...]:
    """Some licenses with periods to close."""
    now = read.tx.read_clock() or query.now
    return store.find_due(read.tx, now - rules.CLOSES_AFTER)


def list_periods(read: Any, query: ListPeriods) -> ItemPage[MeterUsage]:
    """A page of periods. Raises ``UnknownLicenseId`` for those of a license that is not there and has
    none.
    """
    page, where = period_store.list_periods(read.tx, query), query.where
    if not page.items and query.after is None and where.license_id is not None:
        require_license(read.tx, where.license_id, where.only_product_id)
    return page


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    FindDuePeriods: find_due_periods,
    ListPeriods: list_periods,
}
