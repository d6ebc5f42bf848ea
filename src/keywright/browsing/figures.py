"""Figures about all licenses."""

import threading
from collections.abc import Mapping
from datetime import date, datetime, timedelta

import msgspec

from keywright.storage import Reading, browsing
from keywright.storage.browsing import EventFilter, EventRecord, Refused
from keywright.storage.following import FULL, UNUSED

_DAYS = 30
_EPOCH = date(1970, 1, 1)
_ACTIVATED, _VALIDATED = "license.activated", "license.validated"
#: So many refused licenses and events are in the overview.
_MOST_SHOWN = 10


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """How many licenses there are at a moment: of each status that occurs, and of all; those without a free
    place, those that were never activated, and those that expire within 30 days.
    """

    by_status: Mapping[int, int]
    total: int
    full: int
    unused: int
    expiring_30_days: int
    as_of: datetime


class Overview(Figures, frozen=True, kw_only=True):
    """The figures, and how often licenses were activated and validated on each of the last 30 days (of UTC,
    today last), those that were refused at their limit, and what happened, latest first.
    """

    activations_per_day: tuple[tuple[date, int], ...]
    validations_per_day: tuple[tuple[date, int], ...]
    refused_lately: tuple[Refused, ...]
    latest_events: tuple[EventRecord, ...]


class RecentFigures:
    """Figures that are at most so old, for all threads of a process: to count a million licenses takes a
    tenth of a second. So ``few`` licenses, and fewer, are counted each time.
    """

    def __init__(self, longest: timedelta = timedelta(seconds=60), *, few: int = -1) -> None:
        self._longest = longest
        self._few = few
        self._counting = threading.Lock()
        self._figures: Figures | None = None

    def get(self, tx: Reading, now: datetime) -> Figures:
        """The figures, counted now where they are too old. While one thread counts, the others get the old
        ones.
        """
        known = self._figures
        if known is None:
            self._counting.acquire()
        elif self._are_recent(known, now) or not self._counting.acquire(blocking=False):
            return known
        try:
            known = self._figures
            if known is None or not self._are_recent(known, now):
                known = self._figures = count_figures(tx, now)
            return known
        finally:
            self._counting.release()

    def _are_recent(self, figures: Figures, now: datetime) -> bool:
        return figures.total > self._few and timedelta(0) <= now - figures.as_of < self._longest


def count_figures(tx: Reading, now: datetime) -> Figures:
    """Count all licenses."""
    by_status = browsing.count_by_status(tx)
    return Figures(
        by_status=by_status,
        total=sum(by_status.values()),
        full=browsing.count_marked(tx, FULL),
        unused=browsing.count_marked(tx, UNUSED),
        expiring_30_days=browsing.count_expiring(tx, now, now + timedelta(days=_DAYS)),
        as_of=now,
    )


def overview(tx: Reading, now: datetime, recent: RecentFigures | None = None) -> Overview:
    """What is first to see; with ``recent``, the figures may be that old."""
    figures = count_figures(tx, now) if recent is None else recent.get(tx, now)
    today = (now.date() - _EPOCH).days
    days = range(today - _DAYS + 1, today + 1)
    counts = browsing.list_daily_counts(tx, (_ACTIVATED, _VALIDATED), days.start)

    def per_day(name: str) -> tuple[tuple[date, int], ...]:
        return tuple((_EPOCH + timedelta(days=day), counts.get((name, day), 0)) for day in days)

    events, _ = browsing.list_events(tx, EventFilter(), before_id=None, size=_MOST_SHOWN, limit=_MOST_SHOWN)
    return Overview(
        **msgspec.structs.asdict(figures),
        activations_per_day=per_day(_ACTIVATED),
        validations_per_day=per_day(_VALIDATED),
        refused_lately=tuple(browsing.list_refused(tx, limit=_MOST_SHOWN)),
        latest_events=tuple(events),
    )
