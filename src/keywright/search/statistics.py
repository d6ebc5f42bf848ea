"""Figures about all licenses."""

import threading
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from functools import partial

import msgspec

from keywright.db import ReadTransaction
from keywright.search import store as browsing
from keywright.search.event_pages import list_events
from keywright.search.store import EventRecord, Refused
from keywright.search.terms_store import FULL, UNUSED

_DAYS = 30
_EPOCH = date(1970, 1, 1)
_ACTIVATED, _VALIDATED = "license.activated", "license.validated"
#: When a question that was to be asked soon has not been answered until then, it is asked again.
_PATIENCE = timedelta(seconds=10)
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
    tenth of a second. So ``few`` licenses, and fewer, are counted each time; for more than ``many``, those
    there are are given out until others are counted, by a question that ``ask_soon`` is to ask.
    """

    def __init__(
        self,
        longest: timedelta = timedelta(seconds=60),
        *,
        few: int = -1,
        many: int = 100_000,
        ask_soon: Callable[[Callable[[ReadTransaction], None]], None] | None = None,
    ) -> None:
        self._longest = longest
        self._few = few
        self._many = many
        self._ask_soon = ask_soon
        self._asked_at: datetime | None = None
        self._counting = threading.Lock()
        self._figures: Figures | None = None

    def get(self, tx: ReadTransaction, now: datetime) -> Figures:
        """The figures, counted now where they are too old. While one thread counts, the others get the old
        ones.
        """
        known = self._figures
        if known is None:
            self._counting.acquire()
        elif self.are_recent(now) or self._is_left_to_others(known, now):
            return known
        return self._count(tx, now)

    def renew(self, now: datetime) -> None:
        """Have them counted soon if they are too old, for whoever asks next."""
        if not self.are_recent(now):
            self._count_soon(self._figures, now)

    def are_recent(self, now: datetime) -> bool:
        """Whether those there are need not be counted anew."""
        known = self._figures
        if known is None or known.total <= self._few:
            return False
        return timedelta(0) <= now - known.as_of < self._longest

    def _is_left_to_others(self, known: Figures, now: datetime) -> bool:
        return self._count_soon(known, now) or not self._counting.acquire(blocking=False)

    def _count_soon(self, known: Figures | None, now: datetime) -> bool:
        """Whether somebody else counts them."""
        if self._ask_soon is None or (known is not None and known.total <= self._many):
            return False
        if self._asked_at is None or abs(now - self._asked_at) >= _PATIENCE:
            self._asked_at = now
            self._ask_soon(partial(self._count_if_nobody_does, now=now))
        return True

    def _count_if_nobody_does(self, tx: ReadTransaction, now: datetime) -> None:
        if self._counting.acquire(blocking=False):
            self._count(tx, now)

    def _count(self, tx: ReadTransaction, now: datetime) -> Figures:
        """Count, unless somebody just has; whoever calls this has acquired what is released here."""
        try:
            known = self._figures
            if known is None or not self.are_recent(now):
                known = self._figures = count_figures(tx, now)
            return known
        finally:
            self._counting.release()


def count_figures(tx: ReadTransaction, now: datetime) -> Figures:
    """Count all licenses."""
    by_status = browsing.count_by_status(tx)
    return Figures(
        by_status=by_status,
        total=sum(by_status.values()),
        full=browsing.count_with_term(tx, FULL),
        unused=browsing.count_with_term(tx, UNUSED),
        expiring_30_days=browsing.count_expiring(tx, now, now + timedelta(days=_DAYS)),
        as_of=now,
    )


def overview(
    tx: ReadTransaction, now: datetime, recent: RecentFigures | None = None, *, without: str | None = None
) -> Overview:
    """What is first to see; with ``recent``, the figures may be that old. No event is among the latest whose
    name begins like ``without``.
    """
    figures = count_figures(tx, now) if recent is None else recent.get(tx, now)
    today = (now.date() - _EPOCH).days
    days = range(today - _DAYS + 1, today + 1)
    counts = browsing.list_daily_counts(tx, (_ACTIVATED, _VALIDATED), days.start)

    def per_day(name: str) -> tuple[tuple[date, int], ...]:
        return tuple((_EPOCH + timedelta(days=day), counts.get((name, day), 0)) for day in days)

    return Overview(
        **msgspec.structs.asdict(figures),
        activations_per_day=per_day(_ACTIVATED),
        validations_per_day=per_day(_VALIDATED),
        refused_lately=tuple(browsing.list_refused(tx, limit=_MOST_SHOWN)),
        latest_events=list_events(tx, without=without, limit=_MOST_SHOWN).events,
    )
