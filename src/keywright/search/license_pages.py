"""Pages of licenses that match a search, and lists for the management API, within a time budget."""

import base64
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec

from keywright.core.command import Cost, Query
from keywright.core.errors import InvalidParameters
from keywright.core.parsing import MAX_ID
from keywright.db.transaction import ReadTransaction
from keywright.licensing.activations import records, rules
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import find_by_key_end, find_licenses_by_id
from keywright.licensing.management import ManagedLicense
from keywright.licensing.views_store import list_managed
from keywright.provisioning.store import CUSTOMERS
from keywright.provisioning.trials_store import find_by_email
from keywright.search.filters import NEVER, Order, Search
from keywright.search.matches import find_whole_keys
from keywright.search.query_parser import interpret
from keywright.search.scan import MAX_COUNTED, Scan
from keywright.search.scan_store import Position
from keywright.search.terms_store import device_term, token_term

#: The activations of a license on a page: each may have large metadata.
_PAGE_SIZE = 50
#: The most activations of each kind, active or deactivated, that are read.
_MAX_READ = 1_000


class LicenseDetails(msgspec.Struct, frozen=True):
    """A license, a page of its latest activations (active ones first), and the number of all and of active
    ones. ``previous`` and ``next`` are the offsets of the adjacent pages.
    """

    license: License
    activations: tuple[Activation, ...]
    total: int
    active: int
    previous: int | None = None
    next: int | None = None


def get_license(tx: ReadTransaction, license_id: int, first: int = 0) -> LicenseDetails | None:
    """The license with this ID, with a page of its activations from an offset on; None if it is unknown."""
    if not 0 <= license_id <= MAX_ID:
        return None
    found = find_licenses_by_id(tx, [license_id]).get(license_id)
    record = None if found is None else records.find_some(tx, found, _MAX_READ, rules.MAX_LISTED_BYTES)
    if record is None:
        return None
    license = record.license
    latest = sorted(record.activations, key=rules.by_age, reverse=True)
    ordered = sorted(latest, key=lambda one: one.deactivated_at is not None)
    total = license.record_count
    return LicenseDetails(
        license,
        tuple(ordered[first : first + _PAGE_SIZE]),
        total,
        license.active_count,
        previous=max(0, first - _PAGE_SIZE) if first else None,
        next=first + _PAGE_SIZE if first + _PAGE_SIZE < len(ordered) else None,
    )


#: The time budget for the scan of a page, in seconds.
BUDGET = 0.08


class Page(msgspec.Struct, frozen=True):
    """A page of a list, and the cursors of the next and the previous page.

    ``total`` is the number of matches, None if counting would take long; with ``total_is_least``, it is a
    lower bound. An incomplete page ran out of time: the missing licenses follow its ``next`` (or
    ``previous``).
    """

    licenses: tuple[License, ...]
    next: str | None
    previous: str | None
    total: int | None
    total_is_least: bool
    is_incomplete: bool
    #: Whether the licenses are ordered by ID although the order of creation was requested.
    is_by_id: bool = False


class MatchingIds(msgspec.Struct, frozen=True):
    """IDs of licenses, and the ID after which to continue; None if these were the last."""

    ids: tuple[int, ...]
    after_id: int | None


def find_page(
    tx: ReadTransaction,
    search: Search,
    *,
    cursor: str | None,
    limit: int,
    now: datetime,
    budget: float = BUDGET,
    by_status: Mapping[int, int] | None = None,
) -> Page:
    """Return the page at a cursor; the first one if the cursor is missing, invalid or of another order.

    ``budget`` is in seconds, for the scan; counting and reading take some more. ``by_status``, if known,
    provides totals that would take long to count. Raises ``InvalidParameters`` if more than 10,000 licenses
    would have to be sorted.
    """
    scan = Scan(tx, search, now, budget)
    order = scan.go_by_time()
    is_backward, start = _read_cursor(cursor, order)
    found, reached = scan.find(start, limit + 1, is_backward=is_backward)
    if is_backward and not found and reached is None:
        # The licenses before the cursor have been deleted.
        is_backward, start = False, None
        found, reached = scan.find(start, limit + 1, is_backward=False)
    shown = found[:limit]
    if len(found) > limit:
        reached = shown[-1]
    beyond = None if reached is None else _write_cursor(order, reached, is_backward=is_backward)
    behind = None
    if start is not None:
        place = shown[0] if shown else _just_before(start, order, is_backward=is_backward)
        behind = _write_cursor(order, place, is_backward=not is_backward)
    in_order = shown[::-1] if is_backward else shown
    total, is_least = scan.total(by_status)
    return Page(
        licenses=tuple(find_licenses_by_id(tx, [number for _, number in in_order]).values()),
        next=behind if is_backward else beyond,
        previous=beyond if is_backward else behind,
        total=total,
        total_is_least=is_least,
        is_incomplete=reached is not None and len(shown) < limit,
        is_by_id=order in (Order.NEWEST, Order.OLDEST),
    )


def find_matching_ids(
    tx: ReadTransaction, search: Search, *, after_id: int, limit: int, now: datetime, budget: float = BUDGET
) -> MatchingIds:
    """Return up to ``limit`` IDs of matching licenses after this one, in ascending order; fewer, perhaps
    none, when the time is up. For processing all matches, whatever the search's own order.
    """
    scan = Scan(tx, msgspec.structs.replace(search, order=Order.OLDEST), now, budget)
    start = (0, min(max(after_id, 0), MAX_ID))
    found, reached = scan.find(start, limit, is_backward=False)
    if len(found) == limit:
        reached = found[-1]
    return MatchingIds(tuple(number for _, number in found), None if reached is None else reached[1])


def _write_cursor(order: str, place: Position, *, is_backward: bool) -> str:
    packed = msgspec.msgpack.encode((str(order), is_backward, *place))
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _read_cursor(cursor: str | None, order: str) -> tuple[bool, Position | None]:
    """Whether the cursor goes backward, and its position; forward from the start if it is invalid."""
    try:
        packed = base64.urlsafe_b64decode(f"{cursor or ''}===")
        made_for, is_backward, value, number = msgspec.msgpack.decode(packed, type=tuple[str, bool, int, int])
    except ValueError:
        return False, None
    if made_for != order or not 0 <= value <= NEVER or not -1 <= number <= MAX_ID:
        return False, None
    return is_backward, (value, number)


def _just_before(place: Position, order: str, *, is_backward: bool) -> Position:
    """Return the position from which this one comes first in the other direction."""
    value, number = place
    is_descending = Order(order).is_descending != is_backward
    return value, number - 1 if is_descending else number + 1


#: The time budgets for scanning a page, and for counting that would take long, in seconds.
LIST_BUDGET, _COUNTING_BUDGET = 0.06, 0.05


class ListManaged(Query, frozen=True, kw_only=True):
    """Return the next ``limit`` matching licenses after a position, in the search's order or, with
    ``is_backward``, in the opposite one.
    """

    cost = Cost.LIST

    search: Search
    now: datetime
    limit: int
    after: Position | None = None
    is_backward: bool = False
    is_counted: bool = False


class SearchManaged(Query, frozen=True, kw_only=True):
    """Return the next ``limit`` licenses that match one of these, highest ID first, after a position: a key,
    in any case and without dashes, or a former key; the end of a key; the token or fingerprint of a device;
    the customer's e-mail address; a text as in the pages' search field.
    """

    cost = Cost.LIST

    now: datetime
    limit: int
    after: Position | None = None
    key: str | None = None
    key_end: str | None = None
    token: str | None = None
    fingerprint: str | None = None
    email: str | None = None
    text: str | None = None
    only_product_id: int | None = None


class ManagedPage(msgspec.Struct, frozen=True):
    """Licenses, and the position after which to continue; None if these were the last.

    There may be fewer than requested if the time was up. ``total`` is None if it was not requested; with
    ``total_is_least``, it is a lower bound.
    """

    licenses: tuple[ManagedLicense, ...]
    after: Position | None
    total: int | None = None
    total_is_least: bool = False


def list_licenses(read: Any, query: ListManaged) -> ManagedPage:
    """Return a page of licenses."""
    scan = Scan(read.tx, query.search, query.now, LIST_BUDGET)
    found, reached = scan.find(query.after, query.limit + 1, is_backward=query.is_backward)
    shown = found[: query.limit]
    if len(found) > query.limit:
        reached = shown[-1]
    licenses = list(find_licenses_by_id(read.tx, [number for _, number in shown]).values())
    total, is_least = _count(read, query, scan) if query.is_counted else (None, False)
    return ManagedPage(tuple(list_managed(read.tx, licenses, query.now)), reached, total, is_least)


def search_licenses(read: Any, query: SearchManaged) -> ManagedPage:
    """Return a page of the licenses found. Raises ``InvalidParameters`` for the end of too many keys."""
    found = _find_by_key(read.tx, query)
    if found is not None:
        return _page_of(read.tx, query, found)
    page = _search(read, query)
    if query.email is None:
        return page
    # The address of a trial is not verified, so it belongs to no customer.
    return _merge(page, _page_of(read.tx, query, find_by_email(read.tx, query.email)), query.limit)


def _search(read: Any, query: SearchManaged) -> ManagedPage:
    search = _interpret(read.tx, query)
    only = query.only_product_id
    if search is None or only not in (None, search.product_id or only):
        return ManagedPage((), None)
    search = msgspec.structs.replace(search, product_id=only or search.product_id)
    page = ListManaged(search=search, now=query.now, limit=query.limit, after=query.after)
    return list_licenses(read, page)


def _merge(one: ManagedPage, other: ManagedPage, limit: int) -> ManagedPage:
    """Return the first licenses of two pages by ID, up to where both are known."""
    floor = max((page.after[1] for page in (one, other) if page.after is not None), default=0)
    every = {found.license.id: found for page in (one, other) for found in page.licenses}
    known = [number for number in sorted(every, reverse=True) if number >= floor]
    reached = known[limit - 1] if len(known) > limit else floor
    return ManagedPage(tuple(every[number] for number in known[:limit]), (0, reached) if reached else None)


def _find_by_key(tx: ReadTransaction, query: SearchManaged) -> Collection[int] | None:
    """Return the IDs of the licenses with this key, or this end of a key; None if neither was given."""
    if query.key is not None:
        return {one.id for one in find_whole_keys(tx, query.key)}
    if query.key_end is None:
        return None
    found = find_by_key_end(tx, query.key_end)
    if found is None:
        raise InvalidParameters({"key_end": "matches the end of too many keys; search for a whole key"})
    return {one.id for one in found}


def _page_of(tx: ReadTransaction, query: SearchManaged, ids: Collection[int]) -> ManagedPage:
    """Return the page of these licenses."""
    last = None if query.after is None else query.after[1]
    found = [one for one in sorted(ids, reverse=True) if last is None or one < last]
    licenses = find_licenses_by_id(tx, found).values()
    only = query.only_product_id
    seen = [one for one in licenses if only is None or one.product_id == only]
    shown = seen[: query.limit]
    after = (0, shown[-1].id) if len(seen) > query.limit else None
    return ManagedPage(tuple(list_managed(tx, shown, query.now)), after)


def _interpret(tx: ReadTransaction, query: SearchManaged) -> Search | None:
    """Return the search for this query; None if nothing can match."""
    if query.token is not None:
        return Search(term=token_term(query.token.lower()))
    if query.fingerprint is not None:
        return Search(term=device_term(query.fingerprint))
    if query.email is not None:
        customer = CUSTOMERS.find_by(tx, "email", query.email)
        return None if customer is None else Search(customer_id=customer.id)
    meanings = interpret(tx, query.text or "")
    return meanings[0].search if meanings else None


def _count(read: Any, query: ListManaged, scan: Scan) -> tuple[int, bool]:
    """Return the number of matches, up to ``MAX_COUNTED``, and whether it is a lower bound."""
    total, is_least = scan.total(None)
    if total is not None:
        return total, is_least
    counting = Scan(read.tx, query.search, query.now, _COUNTING_BUDGET)
    found, reached = counting.find(None, MAX_COUNTED + 1, is_backward=query.is_backward)
    return min(len(found), MAX_COUNTED), reached is not None or len(found) > MAX_COUNTED


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    ListManaged: list_licenses,
    SearchManaged: search_licenses,
}
