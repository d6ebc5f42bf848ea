"""Pages of events, newest first."""

from datetime import UTC, date, datetime, timedelta
from time import monotonic

import msgspec

from keywright.core.parsing import MAX_ID, is_storable
from keywright.db import ReadTransaction
from keywright.search import scan_store
from keywright.search import store as browsing
from keywright.search.store import EventFilter, EventRecord

#: The time budget, in seconds; and the most events in a step, which are read in any case. The first steps are
#: shorter, because matches are often near.
BUDGET = 0.08
_STEP = 5_000
_FIRST_STEP = 200
_DAY = timedelta(days=1)
#: No event is before or after these days. The days next to them are valid dates, too.
_FIRST_DAY, _LAST_DAY = date(1970, 1, 1), date(9999, 12, 30)
#: The largest difference between the clocks of servers with one database.
_CLOCKS_APART = timedelta(hours=1)


class EventPage(msgspec.Struct, frozen=True):
    """Events, newest first, and the id before which to continue; None when these were the last. An incomplete
    page ran out of time: the missing events come after it.
    """

    events: tuple[EventRecord, ...]
    before_id: int | None
    is_incomplete: bool


def list_events(
    tx: ReadTransaction,
    *,
    license_id: int | None = None,
    name: str | None = None,
    actor: str | None = None,
    day: date | None = None,
    without: str | None = None,
    before_id: int | None = None,
    limit: int,
    budget: float = BUDGET,
) -> EventPage:
    """The newest events of a license, a name, an actor or a day (UTC), before the event with this id. A name
    that ends with a dot, or an actor that ends with a colon, is a prefix. ``without`` is a prefix of names to
    leave out.

    ``budget`` is in seconds; it may be exceeded by one step.
    """
    end = monotonic() + budget
    scan_store.set_planner_options(tx)
    where = EventFilter(license_id, name, actor, without=without)
    if not _can_be(where):
        return EventPage((), None, is_incomplete=False)
    before_id = None if before_id is None else min(max(before_id, 0), MAX_ID)
    if day is not None:
        where, last = _of_day(tx, where, min(max(day, _FIRST_DAY), _LAST_DAY))
        before_id = last if before_id is None else min(before_id, last)
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


def _can_be(where: EventFilter) -> bool:
    return (
        is_storable(where.name or "")
        and is_storable(where.actor or "")
        and 0 <= (where.license_id or 0) <= MAX_ID
    )


def _of_day(tx: ReadTransaction, where: EventFilter, day: date) -> tuple[EventFilter, int]:
    """The filter for this day, and the id before which the day's events are."""
    since = datetime(day.year, day.month, day.day, tzinfo=UTC)
    until = since + _DAY
    first = browsing.find_first_event_id(tx, since - _CLOCKS_APART)
    last = browsing.find_first_event_id(tx, until + _CLOCKS_APART)
    return msgspec.structs.replace(where, since=since, until=until, from_id=first), last
