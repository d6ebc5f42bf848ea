"""Find licenses that match a search, from a position on, until there are enough or the time is up."""

from collections.abc import Mapping
from datetime import datetime
from time import monotonic
from typing import NamedTuple

import msgspec

from keywright.core.errors import InvalidParameters
from keywright.db import ReadTransaction
from keywright.search import filters, scan_store
from keywright.search.scan_store import Position

#: The most licenses that are counted for a total; with no more candidates than this, all of them are read.
MAX_COUNTED = 10_000
#: The smallest and the largest number of candidates in a step.
_SHORTEST_STEP, _LONGEST_STEP = 250, 5_000
#: The number of entries read at once from an index in another order.
_MAX_SKIPPED = 300_000


_BY_TIME = {filters.Order.NEWEST: filters.Order.LATEST, filters.Order.OLDEST: filters.Order.CREATED}


class Found(NamedTuple):
    """Positions of licenses, and the position that was reached; None at the end of the list."""

    places: list[Position]
    reached: Position | None


class Scan:
    """The execution of a search within a time budget."""

    def __init__(self, tx: ReadTransaction, search: filters.Search, now: datetime, budget: float) -> None:
        """``budget`` is in seconds: the first step always runs, no other that would exceed it."""
        self._end = monotonic() + budget
        self._tx = tx
        self._search = search
        scan_store.set_planner_options(tx)
        sources = filters.sources_of(search, now)
        if search.order in filters.SORTED and not sources:
            sources = [filters.EVERYTHING]
        counts = scan_store.count_each(tx, sources, MAX_COUNTED + 1)
        ranked = sorted(range(len(sources)), key=counts.__getitem__)
        #: The sources, with the smallest first, and the number of its rows.
        self._sources = [sources[place] for place in ranked]
        self._fewest = min(counts, default=MAX_COUNTED + 1)
        #: The sources whose index is not ordered by ID.
        self._elsewhere = [one for one in self._sources if one.order != filters.BY_ID.columns]

    def go_by_time(self) -> filters.Order:
        """List by creation instead of by ID, unless more than ``MAX_COUNTED`` licenses would have to be
        sorted: the IDs of imported licenses are new. Returns the order.
        """
        if not self._sources or self._fewest <= MAX_COUNTED:
            order = _BY_TIME.get(self._search.order, self._search.order)
            self._search = msgspec.structs.replace(self._search, order=order)
        return self._search.order

    def total(self, by_status: Mapping[int, int] | None) -> tuple[int | None, bool]:
        """Return the number of matches, None if counting would take long; and whether it is a lower bound.

        ``by_status`` has the counts of all licenses.
        """
        sources, fewest = self._sources, self._fewest
        if not sources:
            (fewest,) = scan_store.count_each(self._tx, [filters.EVERYTHING], MAX_COUNTED + 1)
        if fewest <= MAX_COUNTED:
            return self._count(fewest), False
        if len(sources) > 1:
            return None, False
        if by_status is not None and not sources:
            return sum(by_status.values()), False
        if by_status is not None and self._search.status is not None:
            return by_status.get(self._search.status, 0), False
        return self._count(MAX_COUNTED), True

    def find(self, start: Position | None, limit: int, *, is_backward: bool) -> Found:
        """Return the first matching licenses after a position; fewer at the end of the list or if the time is
        up. Raises ``InvalidParameters`` if too many would have to be sorted.
        """
        if self._search.order in filters.SORTED:
            return Found(self._find_sorted(start, limit, is_backward=is_backward), None)
        is_descending = self._search.order.is_descending != is_backward
        if self._fewest <= MAX_COUNTED:
            some = scan_store.gather(
                self._tx,
                self._sources,
                self._search.order,
                after=start,
                is_descending=is_descending,
                most=MAX_COUNTED,
                limit=limit,
            )
            return Found(some, None)
        found: list[Position] = []
        for track, after in self._list_tracks(start, is_backward=is_backward):
            reached = self._find_along(track, after, found, limit, is_descending=is_descending)
            if reached is not None or len(found) >= limit:
                return Found(found, reached)
        return Found(found, None)

    def _find_sorted(self, start: Position | None, limit: int, *, is_backward: bool) -> list[Position]:
        if self._fewest > MAX_COUNTED:
            reason = (
                f"is too long to be sorted like this; narrow the search to at most {MAX_COUNTED:,} licenses"
            )
            raise InvalidParameters({"sort": reason})
        return scan_store.gather_sorted(
            self._tx,
            self._sources,
            self._search.order,
            after=start,
            is_backward=is_backward,
            most=MAX_COUNTED,
            limit=limit,
        )

    def _count(self, rows: int) -> int:
        """Count the matches among this many rows of the smallest index."""
        if len(self._sources) > 1:
            return scan_store.count_gathered(self._tx, self._sources, rows)
        if self._search.term is not None:
            return scan_store.count_distinct(self._tx, self._sources[0], rows)
        return rows

    def _list_tracks(
        self, start: Position | None, *, is_backward: bool
    ) -> list[tuple[filters.Track, Position | None]]:
        """Return the tracks to scan in turn, each with the position to start after, or None."""
        if self._search.order in (filters.Order.CREATED, filters.Order.LATEST):
            return [(filters.BY_CREATION, start)]
        if self._search.order is filters.Order.UPDATED:
            return [(filters.BY_UPDATE, start)]
        if self._search.order != filters.Order.EXPIRES:
            return [(filters.BY_ID, start)]
        tracks = [filters.ENDLESS, filters.BY_EXPIRY] if is_backward else [filters.BY_EXPIRY, filters.ENDLESS]
        if start is not None:
            tracks = tracks[
                tracks.index(filters.ENDLESS if start[0] == filters.NEVER else filters.BY_EXPIRY) :
            ]
        starts = [(track, None if i else start) for i, track in enumerate(tracks)]
        includes_endless = self._search.expiring_within_days is None and self._search.expires is None
        return [one for one in starts if includes_endless or one[0] != filters.ENDLESS]

    def _find_along(
        self,
        track: filters.Track,
        after: Position | None,
        found: list[Position],
        limit: int,
        *,
        is_descending: bool,
    ) -> Position | None:
        """Add matches to ``found``; returns the position that was reached, None at the end."""
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
            fitting = self._count_fitting(size, began)
            if place is None or len(found) >= limit or fitting < _SHORTEST_STEP:
                return place
            if not some and len(track.columns) == 1:
                place = self._skip(place, is_descending=is_descending)
                if place is None:
                    return None
            size = min(_next_size(size, len(some), limit - len(found)), fitting)

    def _count_fitting(self, size: int, began: float) -> int:
        """Estimate how many candidates there is time for, from the duration of a step of this size since
        ``began``.
        """
        now = monotonic()
        return int(size * (self._end - now) / max(now - began, 1e-6))

    def _skip(self, place: Position, *, is_descending: bool) -> Position | None:
        """Return the position, by ID, after which there may be another match; None if there can be none."""
        for source in list(self._elsewhere):
            next_place = scan_store.skip_by_id(
                self._tx, source, place, is_descending=is_descending, most=_MAX_SKIPPED
            )
            if next_place is None:
                return None
            if next_place == place:
                # Its entries are everywhere: skipping is useless.
                self._elsewhere = [one for one in self._elsewhere if one is not source]
            place = next_place
        return place


def _next_size(size: int, found: int, wanted: int) -> int:
    """Estimate how many candidates contain as many matches as are wanted."""
    expected = 5 * wanted * size // (4 * found) if found else 4 * size
    return max(_SHORTEST_STEP, min(expected, _LONGEST_STEP))
