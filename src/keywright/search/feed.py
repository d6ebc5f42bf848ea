"""Read the events for the management API: in the order of their ids, none left out and none twice, whichever
server commits them when.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

from keywright.core.command import Query
from keywright.core.errors import CursorTooOld
from keywright.db import ReadTransaction
from keywright.db.rows import to_seconds
from keywright.events import store as event_store
from keywright.events.feed import (
    Feed,
    FeedEvent,
    ListFeed,
    Look,
    LookAtFeed,
    Reached,
    find_settled,
    is_wanted,
)
from keywright.events.store import find_settled_id
from keywright.search.store import find_first_event_id, list_products_of

#: The time for a page, in seconds; and the numbers of events that are looked at in a step.
BUDGET = 0.08
_FIRST_STEP, _LONGEST_STEP = 200, 2_000
#: The most events that are looked at beyond those which are settled.
_MAX_AHEAD = 2_000
#: The largest difference between the clocks of servers with one database.
_CLOCKS_APART = timedelta(hours=1)
_FIRST_MOMENT = datetime(1, 1, 1, tzinfo=UTC)


def list_feed(read: Any, query: ListFeed) -> Feed:
    """A page of the events. Raises ``CursorTooOld``."""
    tx: ReadTransaction = read.tx
    end, now = monotonic() + BUDGET, to_seconds(query.now)
    until_id = find_visible_id(tx, 0 if query.after is None else query.after.id)
    place = min(_begin(tx, query), until_id)
    license_id = query.subject.id if query.subject is not None and query.subject.kind == "license" else None
    found: list[FeedEvent] = []
    size = _FIRST_STEP
    while place < until_id:
        some = event_store.list_feed(tx, after_id=place, until_id=until_id, license_id=license_id, limit=size)
        wanted = _select(tx, query, some)
        found += wanted[: query.limit - len(found)]
        if len(found) == query.limit:
            return Feed(tuple(found), Reached(found[-1].id, now))
        place = some[-1].id if len(some) == size else until_id
        size = min(4 * size, _LONGEST_STEP)
        if monotonic() >= end:
            break
    return Feed(tuple(found), Reached(place, now))


def look_at_feed(read: Any, query: LookAtFeed) -> Look:
    """What came since the look before."""
    tx: ReadTransaction = read.tx
    until_id = find_visible_id(tx, query.after_id or 0)
    if query.after_id is None or query.after_id >= until_id:
        return Look((), max(until_id, query.after_id or 0))
    some = event_store.list_feed(
        tx, after_id=query.after_id, until_id=until_id, license_id=None, limit=_LONGEST_STEP
    )
    products = list_products_of(tx, {one.event.license_id for one in some if one.event.license_id})
    has_more = len(some) == _LONGEST_STEP
    reached_id = some[-1].id if has_more else until_id
    return Look(tuple((one, _product_of(one, products)) for one in some), reached_id, has_more)


def find_visible_id(tx: ReadTransaction, seen_id: int) -> int:
    """The id up to which no event can still be committed: the one that is known, or more where no id is
    missing after it or after ``seen_id``, up to which all were seen before.
    """
    settled_id = max(find_settled_id(tx), seen_id)
    return find_settled(settled_id, event_store.list_ids(tx, after_id=settled_id, limit=_MAX_AHEAD))


def _begin(tx: ReadTransaction, query: ListFeed) -> int:
    """The id after which the page begins."""
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


def _select(tx: ReadTransaction, query: ListFeed, some: Sequence[FeedEvent]) -> list[FeedEvent]:
    """Those of these events that the query asks for."""
    wanted = [one for one in some if is_wanted(one.event, query)]
    return select_of_product(tx, wanted, query.only_product_id)


def select_of_product(tx: ReadTransaction, wanted: list[FeedEvent], only: int | None) -> list[FeedEvent]:
    """Those of these events that are about one product, or are about a license or a policy of it; all of
    them without one.
    """
    if only is None:
        return wanted
    ids = {one.event.license_id for one in wanted if one.event.license_id}
    products = list_products_of(tx, ids)
    return [one for one in wanted if _product_of(one, products) == only]


def _product_of(one: FeedEvent, products: dict[int, int | None]) -> int | None:
    """The product of an event: its license's; of a license that is gone, what the event says."""
    license_id, details = one.event.license_id, one.event.details or {}
    if license_id in products:
        return products[license_id]
    product_id = details.get("product_id")
    is_its = one.event.name.startswith(("license.", "policy.", "usage."))
    return product_id if is_its and isinstance(product_id, int) else None


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    ListFeed: list_feed,
    LookAtFeed: look_at_feed,
}
