"""Check that licenses still match a search: a job searches ahead, and licenses change meanwhile."""

from collections.abc import Collection, Set
from datetime import datetime

from keywright.db import ReadTransaction
from keywright.db.rows import to_seconds
from keywright.licensing.licenses.model import License, order_of
from keywright.licensing.licenses.rules import expiry_after
from keywright.search.filters import Search, sources_of
from keywright.search.scan_store import find_among
from keywright.search.terms_store import list_states

#: The field of a license that must equal each field of a search.
_FIELDS = {
    "license_id": "id",
    "status": "status",
    "product_id": "product_id",
    "order_id": "order_id",
    "customer_id": "customer_id",
    "policy_id": "policy_id",
    "made_by": "created_by",
    "external_id": "external_id",
}
#: The fields of a search that are no condition, or that are ignored (see ``find_unmatched``).
NOT_COMPARED = frozenset({"order", "term", "is_prefix"})


def find_unmatched(
    tx: ReadTransaction, search: Search, licenses: Collection[License], now: datetime
) -> set[int]:
    """The ids of those licenses, found earlier, that no longer match the search. ``now`` is the moment from
    which an expiry is counted.

    This compares the fields as given, and whether there is any record of an activation. What other tables say
    (tags, when a license was seen, what a job has changed, which user made it) is read again. The terms of a
    search (a token, a label, an address) are ignored: a license has them for as long as it has its
    activations, and one that was deleted in the last seconds is no reason to leave the license out.
    """
    used = _find_used(tx, licenses) if search.is_unused else frozenset[int]()
    recorded = _find_recorded(tx, search, licenses, now)
    return {
        one.id
        for one in licenses
        if one.id in used or one.id not in recorded or not _matches(search, one, now)
    }


def _find_recorded(
    tx: ReadTransaction, search: Search, licenses: Collection[License], now: datetime
) -> Set[int]:
    """Those for which other tables have what the search asks for. What they say is never waiting in memory to
    be written.
    """
    numbers = {one.id for one in licenses}
    asked = Search(
        tag=search.tag,
        unseen_for_days=search.unseen_for_days,
        job_id=search.job_id,
        made_by_user=search.made_by_user,
    )
    return numbers if asked == Search() else find_among(tx, numbers, sources_of(asked, now))


def _find_used(tx: ReadTransaction, licenses: Collection[License]) -> Set[int]:
    """Those that were ever activated; the counter includes activations that are not written yet."""
    states = list_states(tx, [one.id for one in licenses])
    recorded = {number for number, state in states.items() if state.is_used}
    return recorded | {one.id for one in licenses if one.times_activated}


def _matches(search: Search, license: License, now: datetime) -> bool:
    for asked, name in _FIELDS.items():
        value = getattr(search, asked)
        if value is not None and getattr(license, name) != value:
            return False
    limit = license.times_activated_max
    if search.is_full and (limit is None or license.times_activated < limit):
        return False
    return _has_order_ref(search, license) and _matches_times(search, license, now)


def _has_order_ref(search: Search, license: License) -> bool:
    order = order_of(license)
    return search.order_ref is None or (order.number is None and order.id == search.order_ref)


def _matches_times(search: Search, license: License, now: datetime) -> bool:
    expires_at, days = license.expires_at, search.expiring_within_days
    if days is not None and (expires_at is None or not now < expires_at <= expiry_after(now, days)):
        return False
    if search.is_expired and (expires_at is None or expires_at > now):
        return False
    spans = (expires_at, search.expires), (license.created_at, search.created)
    return all(_is_between(*one) for one in (*spans, (license.updated_at, search.updated)))


def _is_between(time: datetime | None, span: tuple[datetime | None, datetime | None] | None) -> bool:
    """Whether a time, in whole seconds, is between two moments; no time is, where there is no bound."""
    first, last = (None if one is None else to_seconds(one) for one in span or (None, None))
    if time is None:
        return first is None and last is None
    seconds = to_seconds(time)
    return (first is None or seconds > first) and (last is None or seconds < last)
