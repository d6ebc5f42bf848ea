"""Read the events: oldest first for the management API, newest first for pages."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import msgspec

from keywright.core.command import Query
from keywright.core.errors import CursorTooOld
from keywright.core.parsing import MAX_ID, is_storable
from keywright.db.rows import to_seconds
from keywright.db.transaction import ReadTransaction
from keywright.events import feed
from keywright.events import store as event_store
from keywright.events.store import find_settled_id
from keywright.search import reports_store, scan_store
from keywright.search import store as browsing
from keywright.search.reports_rules import Counted
from keywright.search.store import EventFilter, EventRecord, find_first_event_id, list_products_of
from keywright.search.terms_store import newest_license

#: The time budget of a page, in seconds; the first and the largest number of events read per step.
BUDGET = 0.08
_FIRST_STEP, _LONGEST_STEP = 200, 2_000
#: The most events checked beyond the settled ones.
_MAX_AHEAD = 2_000
#: The largest difference between the clocks of servers with one database.
_CLOCKS_APART = timedelta(hours=1)
_FIRST_MOMENT = datetime(1, 1, 1, tzinfo=UTC)


def list_feed(read: Any, query: feed.ListFeed) -> feed.Feed:
    """Return a page of the events. Raises ``CursorTooOld``."""
    tx: ReadTransaction = read.tx
    end, now = monotonic() + BUDGET, to_seconds(query.now)
    until_id = find_visible_id(tx, 0 if query.after is None else query.after.id)
    place = min(_begin(tx, query), until_id)
    license_id = query.subject.id if query.subject is not None and query.subject.kind == "license" else None
    found: list[feed.FeedEvent] = []
    size = _FIRST_STEP
    while place < until_id:
        some = event_store.list_feed(tx, after_id=place, until_id=until_id, license_id=license_id, limit=size)
        wanted = _select(tx, query, some)
        found += wanted[: query.limit - len(found)]
        if len(found) == query.limit:
            return feed.Feed(tuple(found), feed.Reached(found[-1].id, now))
        place = some[-1].id if len(some) == size else until_id
        size = min(4 * size, _LONGEST_STEP)
        if monotonic() >= end:
            break
    return feed.Feed(tuple(found), feed.Reached(place, now))


def look_at_feed(read: Any, query: feed.LookAtFeed) -> feed.Look:
    """Return the events since the previous look."""
    tx: ReadTransaction = read.tx
    until_id = find_visible_id(tx, query.after_id or 0)
    if query.after_id is None or query.after_id >= until_id:
        return feed.Look((), max(until_id, query.after_id or 0))
    some = event_store.list_feed(
        tx, after_id=query.after_id, until_id=until_id, license_id=None, limit=_LONGEST_STEP
    )
    products = list_products_of(tx, {one.event.license_id for one in some if one.event.license_id})
    has_more = len(some) == _LONGEST_STEP
    reached_id = some[-1].id if has_more else until_id
    return feed.Look(tuple((one, _product_of(one, products)) for one in some), reached_id, has_more)


def find_visible_id(tx: ReadTransaction, seen_id: int) -> int:
    """Return the ID up to which no event can still be committed: the last of the consecutive IDs after the
    settled one, or after ``seen_id``, up to which all were already seen.
    """
    settled_id = max(find_settled_id(tx), seen_id)
    return feed.find_settled(settled_id, event_store.list_ids(tx, after_id=settled_id, limit=_MAX_AHEAD))


def _begin(tx: ReadTransaction, query: feed.ListFeed) -> int:
    """Return the ID after which the page begins. Raises ``CursorTooOld``."""
    if query.after is None:
        if query.since is None:
            return 0
        since = query.since - min(_CLOCKS_APART, query.since - _FIRST_MOMENT)
        return max(0, find_first_event_id(tx, since) - 1)
    reached = query.after
    kept_since = event_store.find_deletion_moment(tx)
    if reached.seen_at < kept_since:
        following = event_store.list_ids(tx, after_id=reached.id, limit=1)
        if following != [reached.id + 1]:
            raise CursorTooOld(kept_since)
    return reached.id


def _select(
    tx: ReadTransaction, query: feed.ListFeed, some: Sequence[feed.FeedEvent]
) -> list[feed.FeedEvent]:
    """Return those of these events that match the query."""
    wanted = [one for one in some if feed.is_wanted(one.event, query)]
    return select_of_product(tx, wanted, query.only_product_id)


def select_of_product(
    tx: ReadTransaction, wanted: list[feed.FeedEvent], only: int | None
) -> list[feed.FeedEvent]:
    """Return those of these events that are about one product, or about a license or a policy of it; without
    a product, all.
    """
    if only is None:
        return wanted
    ids = {one.event.license_id for one in wanted if one.event.license_id}
    products = list_products_of(tx, ids)
    return [one for one in wanted if _product_of(one, products) == only]


def _product_of(one: feed.FeedEvent, products: dict[int, int | None]) -> int | None:
    """Return the product of an event: its license's, or if that no longer exists, the event's own."""
    license_id, details = one.event.license_id, one.event.details or {}
    if license_id in products:
        return products[license_id]
    product_id = details.get("product_id")
    is_its = one.event.name.startswith(("license.", "policy.", "usage."))
    return product_id if is_its and isinstance(product_id, int) else None


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    feed.ListFeed: list_feed,
    feed.LookAtFeed: look_at_feed,
}


#: The time budget of a page, in seconds, and the most events per step; this many are read regardless of time.
#: The first steps are shorter, because matches are often near.
PAGE_BUDGET = 0.08
_STEP = 5_000
_FIRST_PAGE_STEP = 200
#: The most events, and licenses, of a customer or a product that are found with the index on licenses.
_MAX_GATHERED = 10_000
#: Owners of this many licenses, and of one in this many of all, have many of the newest events.
_MANY_OWNED, _FREQUENT = 1_000, 100
#: The number of events read at once by ID.
_AT_ONCE = 500
#: The largest difference between the clocks of servers with one database.
_PAGES_APART = timedelta(hours=1)
EVERY_EVENT = EventFilter()


class EventPage(msgspec.Struct, frozen=True):
    """Events, newest first, and the ID before which to continue; None if these were the last. An incomplete
    page ran out of time: the missing events follow it.
    """

    events: tuple[EventRecord, ...]
    before_id: int | None
    is_incomplete: bool


def list_events(
    tx: ReadTransaction,
    where: EventFilter = EVERY_EVENT,
    *,
    before_id: int | None = None,
    limit: int,
    budget: float = PAGE_BUDGET,
) -> EventPage:
    """Return the newest matching events before the event with this ID.

    ``budget`` is in seconds; it may be exceeded by one step.
    """
    end = monotonic() + budget
    scan_store.set_planner_options(tx)
    if not _can_be(where):
        return EventPage((), None, is_incomplete=False)
    before_id = None if before_id is None else min(max(before_id, 0), MAX_ID)
    where, before_id = _with_ids(tx, where, before_id)
    if where.counted is not None:
        return _list_figure(tx, where, where.counted, before_id, limit)
    ids = _gather(tx, where, before_id)
    if ids is not None:
        return _page_of(tx, where, ids, limit)
    return _scan(tx, where, before_id, limit, end)


def _list_figure(
    tx: ReadTransaction, where: EventFilter, counted: Counted, before_id: int | None, limit: int
) -> EventPage:
    """Return the matching events of a figure. The page is incomplete if a step finds too few of them."""
    ids = reports_store.list_figure(tx, counted, before_id=before_id, limit=_FIRST_PAGE_STEP)
    found = _page_of(tx, where, ids, limit)
    if found.before_id is not None or len(ids) < _FIRST_PAGE_STEP:
        return found
    return EventPage(found.events, ids[-1], is_incomplete=True)


def _scan(
    tx: ReadTransaction, where: EventFilter, before_id: int | None, limit: int, end: float
) -> EventPage:
    """Scan the events until there are enough or the time is up."""
    found: list[EventRecord] = []
    size, looked = _FIRST_PAGE_STEP, 0
    while True:
        # One more than the limit shows whether more exist.
        wanted = limit + 1 - len(found)
        size = min(size, _STEP)
        some, before_id = browsing.list_events(tx, where, before_id=before_id, size=size, limit=wanted)
        found += some
        size, looked = 5 * size, looked + size
        if before_id is None or len(found) > limit or (looked >= _STEP and monotonic() >= end):
            break
    if len(found) > limit:
        before_id = found[limit - 1].id
    return EventPage(tuple(found[:limit]), before_id, before_id is not None and len(found) < limit)


def _gather(tx: ReadTransaction, where: EventFilter, before_id: int | None) -> list[int] | None:
    """Return the IDs of the events of a customer or a product, if there are few and the index on licenses
    finds them sooner than a scan of all events.
    """
    if where.license_id is not None or (where.customer_id is None and where.product_id is None):
        return None
    if where.from_id is not None and before_id is not None and before_id - where.from_id <= _MAX_GATHERED:
        return None
    owned = browsing.count_owned(tx, where, most=_MAX_GATHERED + 1)
    if owned > _MAX_GATHERED or _is_frequent(tx, where, owned):
        return None
    return browsing.gather_event_ids(tx, where, before_id=before_id, most=_MAX_GATHERED)


def _is_frequent(tx: ReadTransaction, where: EventFilter, owned: int) -> bool:
    """Whether a scan of all events soon fills a page with the newest."""
    if owned < _MANY_OWNED or (where.name, where.actor, where.from_id) != (None, None, None):
        return False
    return owned * _FREQUENT >= newest_license(tx)


def _page_of(tx: ReadTransaction, where: EventFilter, ids: list[int], limit: int) -> EventPage:
    """Return the first matching events among those with these IDs."""
    found: list[EventRecord] = []
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        found += browsing.list_events_by_id(tx, some, where, limit=limit + 1 - len(found))
        if len(found) > limit:
            return EventPage(tuple(found[:limit]), found[limit - 1].id, is_incomplete=False)
    return EventPage(tuple(found), None, is_incomplete=False)


def _can_be(where: EventFilter) -> bool:
    numbers = (where.license_id, where.customer_id, where.product_id)
    return (
        is_storable(where.name or "")
        and is_storable(where.actor or "")
        and all(0 <= (number or 0) <= MAX_ID for number in numbers)
    )


def _with_ids(
    tx: ReadTransaction, where: EventFilter, before_id: int | None
) -> tuple[EventFilter, int | None]:
    """Return the filter with the first ID that its moments allow, and the ID that follows the last one."""
    if where.since is not None:
        first = browsing.find_first_event_id(tx, where.since - _PAGES_APART)
        where = msgspec.structs.replace(where, from_id=first)
    if where.until is not None:
        last = browsing.find_first_event_id(tx, where.until + _PAGES_APART)
        before_id = last if before_id is None else min(before_id, last)
    return where, before_id
