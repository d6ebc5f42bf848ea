"""Figures about all licenses, also by day; and commands that update the search terms and counters."""

import threading
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, timedelta
from functools import partial

import msgspec

from keywright.core.command import Command, Cost, Query
from keywright.db import ReadTransaction
from keywright.search import store as browsing
from keywright.search.feed import list_events
from keywright.search.store import (
    EventFilter,
    EventRecord,
    Refused,
    list_daily_counts,
    list_daily_product_counts,
)
from keywright.search.terms_store import FULL, UNUSED

_DAYS = 30
#: A read that was enqueued and not answered within this time is enqueued again.
_TIMEOUT = timedelta(seconds=10)
#: The most refused licenses, and the most events, in the overview.
_MAX_SHOWN = 10


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The number of licenses by status, in total, full, never activated, and expiring within 30 days."""

    by_status: Mapping[int, int]
    total: int
    full: int
    unused: int
    expiring_30_days: int
    as_of: datetime


class Overview(Figures, frozen=True, kw_only=True):
    """The figures; the licenses most recently refused at their limit; and the latest events."""

    refused_lately: tuple[Refused, ...]
    latest_events: tuple[EventRecord, ...]


class RecentFigures:
    """A cache of figures for all threads of a process, because counting a million licenses takes a tenth of a
    second. Up to ``few`` licenses are counted every time; with more than ``many``, the old figures are
    returned until a read that is run later by ``enqueue`` has counted again.
    """

    def __init__(
        self,
        max_age: timedelta = timedelta(seconds=60),
        *,
        few: int = -1,
        many: int = 100_000,
        enqueue: Callable[[Callable[[ReadTransaction], None]], None] | None = None,
    ) -> None:
        self._max_age = max_age
        self._few = few
        self._many = many
        self._enqueue = enqueue
        self._requested_at: datetime | None = None
        self._counting = threading.Lock()
        self._figures: Figures | None = None

    def get(self, tx: ReadTransaction, now: datetime) -> Figures:
        """The figures, counted now if they are too old; meanwhile, other threads get the old ones."""
        known = self._figures
        if known is None:
            self._counting.acquire()
        elif (
            self.are_recent(now)
            or self._enqueue_count(known, now)
            or not self._counting.acquire(blocking=False)
        ):
            return known
        return self._count(tx, now)

    def refresh(self, now: datetime) -> None:
        """Let the figures be counted later if they are too old."""
        if not self.are_recent(now):
            self._enqueue_count(self._figures, now)

    def are_recent(self, now: datetime) -> bool:
        """Whether the stored figures are recent enough."""
        known = self._figures
        if known is None or known.total <= self._few:
            return False
        return timedelta(0) <= now - known.as_of < self._max_age

    def _enqueue_count(self, known: Figures | None, now: datetime) -> bool:
        """Whether another thread counts the figures."""
        if self._enqueue is None or (known is not None and known.total <= self._many):
            return False
        if self._requested_at is None or abs(now - self._requested_at) >= _TIMEOUT:
            self._requested_at = now
            self._enqueue(partial(self._count_unless_locked, now=now))
        return True

    def _count_unless_locked(self, tx: ReadTransaction, now: datetime) -> None:
        if self._counting.acquire(blocking=False):
            self._count(tx, now)

    def _count(self, tx: ReadTransaction, now: datetime) -> Figures:
        """Count, unless another thread just has; releases the lock that the caller acquired."""
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
    """The first page's figures, cached by ``recent``; leaves out event names that begin with ``without``."""
    figures = count_figures(tx, now) if recent is None else recent.get(tx, now)
    return Overview(
        **msgspec.structs.asdict(figures),
        refused_lately=tuple(browsing.list_refused(tx, limit=_MAX_SHOWN)),
        latest_events=list_events(tx, EventFilter(without=without), limit=_MAX_SHOWN).events,
    )


class ProjectEvents(Command, frozen=True, kw_only=True):
    """Project the next events, at most ``limit``, or as much of the data from before the projection began."""

    cost = Cost.ALONE
    is_internal = True

    limit: int


class CountDevices(Command, frozen=True, kw_only=True):
    """Count some of the active devices of today, once a day; returns whether there are more."""

    cost = Cost.ALONE
    is_internal = True


#: The most days for which versions in use are listed.
MAX_VERSION_DAYS = 365


class VersionInUse(msgspec.Struct, frozen=True):
    """The active devices of a product with a version and a platform ("" if unknown), by when they were last
    seen. ``*`` stands for all other versions, if there are very many.
    """

    app_version: str
    platform: str
    devices: int
    seen_1_day: int
    seen_7_days: int


class VersionOnDay(msgspec.Struct, frozen=True):
    """The number of active devices with a version on a day."""

    day: date
    app_version: str
    devices: int


class VersionsInUse(msgspec.Struct, frozen=True):
    """The devices of a product that were seen within 30 days, as counted on a day, most used version first;
    and by version on each day, oldest first.
    """

    counted_on: date | None
    devices: int
    versions: tuple[VersionInUse, ...]
    days: tuple[VersionOnDay, ...]


class ListVersions(Query, frozen=True, kw_only=True):
    """Which versions of a product are in use, now and on this many days before."""

    product_id: int
    now: datetime
    days: int = 30
    only_product_id: int | None = None


class PurgeRefusals(Command, frozen=True, kw_only=True):
    """Delete some of the calls refused before this moment, and their counts; returns how many."""

    cost = Cost.ALONE

    before: datetime


class SaveCounters(Command, frozen=True, kw_only=True):
    """Store the counters since the last save: validations, also by product, refusals at the limit by license
    key, uses of releases, the last use of API keys, and calls through an untrusted proxy.
    """

    cost = Cost.ALONE
    is_internal = True

    validations: int = 0
    product_validations: Mapping[int, int] = {}
    forwarded_blindly: int = 0
    refused: Mapping[str, int] = {}
    releases: Mapping[tuple[int, str], int] = {}
    used_api_keys: Mapping[int, datetime] = {}


_EPOCH = date(1970, 1, 1)


def list_days(
    tx: ReadTransaction, names: Collection[str], *, last: date, days: int, product_id: int | None = None
) -> dict[str, tuple[int, ...]]:
    """Return the amounts on this many days (UTC) up to ``last``, by name."""
    end = (last - _EPOCH) // timedelta(days=1) + 1
    if product_id is None:
        counts = list_daily_counts(tx, names, end - days)
    else:
        counts = list_daily_product_counts(tx, product_id, names, end - days)
    return {name: tuple(counts.get((name, day), 0) for day in range(end - days, end)) for name in names}
