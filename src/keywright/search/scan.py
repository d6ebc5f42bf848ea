"""Looking for the licenses that match a search, in the order of a list, from a place in it, until there are
enough or the time is over.
"""

from collections.abc import Mapping
from datetime import datetime
from time import monotonic
from typing import NamedTuple

from keywright.db import ReadTransaction
from keywright.search import scan_store
from keywright.search.filters import BY_EXPIRY, BY_ID, ENDLESS, NEVER, Order, Search, Track, sources_of
from keywright.search.scan_store import Position

#: The most that is counted for a total. When there are so few candidates, all of them can be looked at.
MOST_COUNTED = 10_000
#: How many candidates are looked at in one step.
_SHORTEST_STEP, _LONGEST_STEP = 250, 5_000
#: How many entries of an index are passed by at once.
_MOST_PASSED, _MOST_PASSED_BY_EXPIRY = 300_000, 100_000


class Found(NamedTuple):
    """Places of licenses, and how far was looked; None is to the end."""

    places: list[Position]
    reached: Position | None


class Scan:
    """A search that is being answered."""

    def __init__(self, tx: ReadTransaction, search: Search, now: datetime, budget: float) -> None:
        """``budget`` is in seconds. At least one step is done, and none is begun that would end later."""
        self._end = monotonic() + budget
        self._tx = tx
        self._search = search
        scan_store.steer(tx)
        sources = sources_of(search, now)
        counts = scan_store.count_each(tx, sources, MOST_COUNTED + 1)
        ranked = sorted(range(len(sources)), key=counts.__getitem__)
        #: What is asked for, the rarest first, and how many there are of that.
        self._sources = [sources[place] for place in ranked]
        self._fewest = min(counts, default=MOST_COUNTED + 1)
        #: Those that are found in another order than that of numbers.
        self._elsewhere = [one for one in self._sources if one.order != BY_ID.columns]

    def total(self, by_status: Mapping[int, int] | None) -> tuple[int | None, bool]:
        """How many match, None where it would take long to count; and whether that is only the least.

        ``by_status`` are counts of all licenses.
        """
        sources, fewest = self._sources, self._fewest
        if not sources:
            fewest = scan_store.count_everything(self._tx, MOST_COUNTED + 1)
        if fewest <= MOST_COUNTED:
            return self._count(fewest), False
        if len(sources) > 1:
            return None, False
        if by_status is not None and not sources:
            return sum(by_status.values()), False
        if by_status is not None and self._search.status is not None:
            return by_status.get(self._search.status, 0), False
        return self._count(MOST_COUNTED), True

    def look(self, start: Position | None, limit: int, *, is_backward: bool) -> Found:
        """The first matching licenses after a place; fewer than ``limit`` at the end of the list or of the
        time.
        """
        is_descending = (self._search.order == Order.NEWEST) != is_backward
        if self._are_few():
            return Found(self._gather(start, limit, is_descending=is_descending), None)
        found: list[Position] = []
        for track, after in self._legs(start, is_backward=is_backward):
            reached = self._look_along(track, after, found, limit, is_descending=is_descending)
            if reached is not None or len(found) >= limit:
                return Found(found, reached)
        return Found(found, None)

    def _are_few(self) -> bool:
        """Whether all candidates are looked at: they are few, and their index has not the list's order."""
        if self._fewest > MOST_COUNTED:
            return False
        return self._search.order == Order.EXPIRES or self._sources[0].order != BY_ID.columns

    def _gather(self, start: Position | None, limit: int, *, is_descending: bool) -> list[Position]:
        return scan_store.gather(
            self._tx,
            self._sources[0],
            self._sources,
            self._search.order,
            after=start,
            is_descending=is_descending,
            most=MOST_COUNTED,
            limit=limit,
        )

    def _count(self, rows: int) -> int:
        """How many licenses match, when so many rows of the rarest index are counted."""
        if len(self._sources) > 1:
            return scan_store.count_gathered(self._tx, self._sources[0], self._sources, rows)
        if self._search.term is not None:
            return scan_store.count_distinct(self._tx, self._sources[0], rows)
        return rows

    def _legs(self, start: Position | None, *, is_backward: bool) -> list[tuple[Track, Position | None]]:
        """What is looked along, one after the other; from a place, or from its beginning."""
        if self._search.order != Order.EXPIRES:
            return [(BY_ID, start)]
        tracks = [ENDLESS, BY_EXPIRY] if is_backward else [BY_EXPIRY, ENDLESS]
        if start is not None:
            tracks = tracks[tracks.index(ENDLESS if start[0] == NEVER else BY_EXPIRY) :]
        legs = [(one, None if place else start) for place, one in enumerate(tracks)]
        is_endless_asked = self._search.expiring_within_days is None
        return [one for one in legs if is_endless_asked or one[0] != ENDLESS]

    def _look_along(
        self,
        track: Track,
        after: Position | None,
        found: list[Position],
        limit: int,
        *,
        is_descending: bool,
    ) -> Position | None:
        """Add to ``found``; how far was looked, None to the end."""
        size, place = _SHORTEST_STEP, after
        while True:
            began = monotonic()
            step = scan_store.next_step(
                self._tx, self._sources, track, place, is_descending=is_descending, size=size
            )
            if step is None:
                return None
            some = scan_store.scan(self._tx, step, self._sources, limit=limit - len(found), size=size)
            found += some
            place = step.until
            if place is None or len(found) >= limit or self._is_over(began):
                return place
            if not some:
                place = self._pass_by(track, place, is_descending=is_descending)
                if place is None:
                    return None
            size = _next_size(size, len(some), limit - len(found))

    def _is_over(self, began: float) -> bool:
        """Whether another step, as long as that which began then, would end too late."""
        now = monotonic()
        return now + (now - began) >= self._end

    def _pass_by(self, track: Track, place: Position, *, is_descending: bool) -> Position | None:
        """Go on where there can be something again; None where there can be nothing more."""
        if track == BY_EXPIRY:
            return self._pass_by_expiry(place, is_descending=is_descending)
        for source in list(self._elsewhere):
            there = scan_store.passed_by_id(
                self._tx, source, place, is_descending=is_descending, most=_MOST_PASSED
            )
            if there is None:
                return None
            if there == place:
                # It has something everywhere.
                self._elsewhere = [one for one in self._elsewhere if one is not source]
            place = there
        return place

    def _pass_by_expiry(self, place: Position, *, is_descending: bool) -> Position | None:
        numbers = scan_store.numbers_between(self._tx, self._sources)
        if numbers is None:
            return None
        return scan_store.passed_by_expiry(
            self._tx, numbers, place, is_descending=is_descending, most=_MOST_PASSED_BY_EXPIRY
        )


def _next_size(size: int, found: int, wanted: int) -> int:
    """So many candidates that what is wanted should be among them, as far as one can tell."""
    expected = 5 * wanted * size // (4 * found) if found else 4 * size
    return max(_SHORTEST_STEP, min(expected, _LONGEST_STEP))
