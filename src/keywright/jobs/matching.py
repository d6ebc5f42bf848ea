"""Whether licenses are still what a search asks for. Searches are answered some steps ahead, and licenses go
on living meanwhile.
"""

from collections.abc import Collection, Set
from datetime import datetime

from keywright.db import ReadTransaction
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import expiry_after
from keywright.search.filters import Search
from keywright.search.terms_store import list_states

#: Of these, a license has the number that is asked for: the field of a license by that of a search.
_NUMBERS = {
    "license_id": "id",
    "status": "status",
    "product_id": "product_id",
    "order_id": "order_id",
    "customer_id": "customer_id",
}


def not_any_more(
    tx: ReadTransaction, search: Search, licenses: Collection[License], now: datetime
) -> set[int]:
    """The numbers of those licenses, which were found before, that the search would not find now. ``now`` is
    the moment from which an expiry is counted.

    They are judged as they are given, and by whether there is any record of an activation. The terms of a
    search (a token, a label, an address) are not looked at: a license has them for as long as it has its
    activations, and one that went in the last seconds is no reason to leave it out.
    """
    used = _used(tx, licenses) if search.is_unused else frozenset[int]()
    return {one.id for one in licenses if one.id in used or not _fits(search, one, now)}


def _used(tx: ReadTransaction, licenses: Collection[License]) -> Set[int]:
    """Those that were ever activated; the counter knows of activations that are not written yet."""
    states = list_states(tx, [one.id for one in licenses])
    recorded = {number for number, state in states.items() if state.is_used}
    return recorded | {one.id for one in licenses if one.times_activated}


def _fits(search: Search, license: License, now: datetime) -> bool:
    for asked, name in _NUMBERS.items():
        number = getattr(search, asked)
        if number is not None and getattr(license, name) != number:
            return False
    if search.is_full and not _is_full(license):
        return False
    return search.expiring_within_days is None or _expires(license, now, search.expiring_within_days)


def _is_full(license: License) -> bool:
    limit = license.times_activated_max
    return limit is not None and license.times_activated >= limit


def _expires(license: License, now: datetime, days: int) -> bool:
    return license.expires_at is not None and now < license.expires_at <= expiry_after(now, days)
