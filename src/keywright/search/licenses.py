"""Lists of licenses for the management API, within a time budget."""

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

import msgspec

from keywright.core.command import Cost, Query
from keywright.core.errors import InvalidParameters
from keywright.db import ReadTransaction
from keywright.licensing.licenses.store import find_by_key_end, find_licenses_by_id
from keywright.licensing.management import ManagedLicense
from keywright.licensing.views_store import list_managed
from keywright.provisioning.store import CUSTOMERS
from keywright.provisioning.trials_store import find_by_email
from keywright.search.filters import Search
from keywright.search.matches import find_whole_keys
from keywright.search.query_parser import interpret
from keywright.search.scan import MAX_COUNTED, Scan
from keywright.search.scan_store import Position
from keywright.search.terms_store import device_term, token_term

#: The time for the scan of a page, and for counting what would take long, in seconds.
BUDGET, _COUNTING_BUDGET = 0.06, 0.05


class ListManaged(Query, frozen=True, kw_only=True):
    """The next ``limit`` licenses that match after a position, in the search's order or, with
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
    """The next ``limit`` licenses that one of these finds, those with the highest numbers first, after a
    position: a key, in any case and without dashes, also one that was replaced; the end of a key; the token
    or fingerprint of a device; the customer's e-mail address; a text as the pages' search field takes it.
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
    """Licenses, and the position after which to continue; None when these were the last.

    There may be fewer than asked for when the time was up. ``total`` is None where it was not asked for;
    with ``total_is_least``, it is a lower bound.
    """

    licenses: tuple[ManagedLicense, ...]
    after: Position | None
    total: int | None = None
    total_is_least: bool = False


def list_licenses(read: Any, query: ListManaged) -> ManagedPage:
    """A page of licenses."""
    scan = Scan(read.tx, query.search, query.now, BUDGET)
    found, reached = scan.find(query.after, query.limit + 1, is_backward=query.is_backward)
    shown = found[: query.limit]
    if len(found) > query.limit:
        reached = shown[-1]
    licenses = list(find_licenses_by_id(read.tx, [number for _, number in shown]).values())
    total, is_least = _count(read, query, scan) if query.is_counted else (None, False)
    return ManagedPage(tuple(list_managed(read.tx, licenses, query.now)), reached, total, is_least)


def search_licenses(read: Any, query: SearchManaged) -> ManagedPage:
    """A page of what is found. Raises ``InvalidParameters`` for the end of very many keys."""
    found = _find_by_key(read.tx, query)
    if found is not None:
        return _page_of(read.tx, query, found)
    page = _search(read, query)
    if query.email is None:
        return page
    # Of a trial, nobody has proved the address: no customer has it.
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
    """The first licenses of two pages in the order of their numbers, up to where both are known."""
    floor = max((page.after[1] for page in (one, other) if page.after is not None), default=0)
    every = {found.license.id: found for page in (one, other) for found in page.licenses}
    known = [number for number in sorted(every, reverse=True) if number >= floor]
    reached = known[limit - 1] if len(known) > limit else floor
    return ManagedPage(tuple(every[number] for number in known[:limit]), (0, reached) if reached else None)


def _find_by_key(tx: ReadTransaction, query: SearchManaged) -> Collection[int] | None:
    """The ids of the licenses with this key, or the end of it; None where none was asked for."""
    if query.key is not None:
        return {one.id for one in find_whole_keys(tx, query.key)}
    if query.key_end is None:
        return None
    found = find_by_key_end(tx, query.key_end)
    if found is None:
        raise InvalidParameters({"key_end": "is the end of too many keys; search for a whole key"})
    return {one.id for one in found}


def _page_of(tx: ReadTransaction, query: SearchManaged, ids: Collection[int]) -> ManagedPage:
    """The page of these licenses."""
    last = None if query.after is None else query.after[1]
    found = [one for one in sorted(ids, reverse=True) if last is None or one < last]
    licenses = find_licenses_by_id(tx, found).values()
    only = query.only_product_id
    seen = [one for one in licenses if only is None or one.product_id == only]
    shown = seen[: query.limit]
    after = (0, shown[-1].id) if len(seen) > query.limit else None
    return ManagedPage(tuple(list_managed(tx, shown, query.now)), after)


def _interpret(tx: ReadTransaction, query: SearchManaged) -> Search | None:
    """The search for what was asked for; None where nothing can match."""
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
    """The number of matches, up to ``MAX_COUNTED``; and whether it is a lower bound."""
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
