"""Pages of events, newest first."""

from datetime import timedelta
from time import monotonic

import msgspec

from keywright.core.parsing import MAX_ID, is_storable
from keywright.db import ReadTransaction
from keywright.search import scan_store
from keywright.search import store as browsing
from keywright.search.store import EventFilter, EventRecord
from keywright.search.terms_store import newest_license

#: The time budget, in seconds; and the most events in a step, which are read in any case. The first steps are
#: shorter, because matches are often near.
BUDGET = 0.08
_STEP = 5_000
_FIRST_STEP = 200
#: The most events, and licenses, of a customer or a product that are looked up in the index on licenses.
_MAX_GATHERED = 10_000
#: An owner of so many licenses, and of one in so many of all, has many of the newest events.
_MANY_OWNED, _FREQUENT = 1_000, 100
#: The number of events that are read by their ids at once.
_AT_ONCE = 500
#: The largest difference between the clocks of servers with one database.
_CLOCKS_APART = timedelta(hours=1)
EVERY_EVENT = EventFilter()


class EventPage(msgspec.Struct, frozen=True):
    """Events, newest first, and the id before which to continue; None when these were the last. An incomplete
    page ran out of time: the missing events come after it.
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
    budget: float = BUDGET,
) -> EventPage:
    """The newest matching events before the event with this id.

    ``budget`` is in seconds; it may be exceeded by one step.
    """
    end = monotonic() + budget
    scan_store.set_planner_options(tx)
    if not _can_be(where):
        return EventPage((), None, is_incomplete=False)
    before_id = None if before_id is None else min(max(before_id, 0), MAX_ID)
    where, before_id = _with_ids(tx, where, before_id)
    ids = _gather(tx, where, before_id)
    if ids is not None:
        return _page_of(tx, where, ids, limit)
    return _scan(tx, where, before_id, limit, end)


def _scan(
    tx: ReadTransaction, where: EventFilter, before_id: int | None, limit: int, end: float
) -> EventPage:
    """Look at one event after the other, until there are enough or the time is up."""
    found: list[EventRecord] = []
    size, looked = _FIRST_STEP, 0
    while True:
        # One more than the limit shows whether there are more.
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
    """The ids of the events of a customer or a product, if these are few and the index on licenses finds them
    sooner than a look at every event does.
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
    """Whether a look at every event finds a page of the newest soon."""
    if owned < _MANY_OWNED or (where.name, where.actor, where.from_id) != (None, None, None):
        return False
    return owned * _FREQUENT >= newest_license(tx)


def _page_of(tx: ReadTransaction, where: EventFilter, ids: list[int], limit: int) -> EventPage:
    """The first matching events among those with these ids."""
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
    """The filter with the first id that its moments allow, and the id before which the last one is."""
    if where.since is not None:
        first = browsing.find_first_event_id(tx, where.since - _CLOCKS_APART)
        where = msgspec.structs.replace(where, from_id=first)
    if where.until is not None:
        last = browsing.find_first_event_id(tx, where.until + _CLOCKS_APART)
        before_id = last if before_id is None else min(before_id, last)
    return where, before_id
