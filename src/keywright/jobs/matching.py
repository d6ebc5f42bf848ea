"""Check that licenses still match a search: a job searches ahead, and licenses change meanwhile."""

from collections.abc import Collection, Set
from datetime import datetime

from keywright.db import ReadTransaction
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.rules import expiry_after
from keywright.search.filters import Search
from keywright.search.terms_store import list_states

#: The field of a license that must equal each field of a search.
_NUMBERS = {
    "license_id": "id",
    "status": "status",
    "product_id": "product_id",
    "order_id": "order_id",
    "customer_id": "customer_id",
    "policy_id": "policy_id",
}


def find_unmatched(
    tx: ReadTransaction, search: Search, licenses: Collection[License], now: datetime
) -> set[int]:
    """The ids of those licenses, found earlier, that no longer match the search. ``now`` is the moment from
    which an expiry is counted.

    This compares the fields as given, and whether there is any record of an activation. The terms of a search
    (a token, a label, an address) are ignored: a license has them for as long as it has its activations, and
    one that was deleted in the last seconds is no reason to leave the license out.
    """
    used = _find_used(tx, licenses) if search.is_unused else frozenset[int]()
    return {one.id for one in licenses if one.id in used or not _matches(search, one, now)}


def _find_used(tx: ReadTransaction, licenses: Collection[License]) -> Set[int]:
    """Those that were ever activated; the counter includes activations that are not written yet."""
    states = list_states(tx, [one.id for one in licenses])
    recorded = {number for number, state in states.items() if state.is_used}
    return recorded | {one.id for one in licenses if one.times_activated}


def _matches(search: Search, license: License, now: datetime) -> bool:
    for asked, name in _NUMBERS.items():
        number = getattr(search, asked)
        if number is not None and getattr(license, name) != number:
            return False
    limit, expires_at, days = license.times_activated_max, license.expires_at, search.expiring_within_days
    if search.is_full and (limit is None or license.times_activated < limit):
        return False
    return days is None or (expires_at is not None and now < expires_at <= expiry_after(now, days))
