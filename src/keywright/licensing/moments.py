"""Moments of a license that are events: it will expire soon, it has expired. Pure."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from keywright.core.command import Command, Cost, Query
from keywright.licensing.licenses.model import Status

#: The kinds of moments in ``license_moments``; that of an expiry notice includes its days.
LIMIT_REACHED, EXPIRED = "limit_reached", "expired"
#: When the terms began to replace unseen devices; the number of unseen days is stored with it.
REPLACES_UNSEEN = "replaces_unseen"
#: After this time, an activation refused at the limit is an event again.
LIMIT_AGAIN_AFTER = timedelta(days=30)
#: The shares of a meter's limit, in percent, that cause an event when reached.
THRESHOLDS = (80, 100)


def moment_of(
    expires_at: datetime, created_at: datetime, status: int, now: datetime, days: Collection[int]
) -> int | None:
    """Return the days before the expiry of the last moment that has come: 0 is the expiry, None means no
    moment.

    A disabled license has none. A license created after a moment does not get it.
    """
    if status == Status.DISABLED:
        return None
    come = [one for one in (*days, 0) if now >= expires_at - timedelta(days=one)]
    if not come:
        return None
    last = min(come)
    return last if created_at <= expires_at - timedelta(days=last) else None


def kind_of(days: int) -> str:
    """Return the kind of the moment this many days before an expiry."""
    return f"expiring:{days}" if days else EXPIRED


def passed_threshold(limit: int, before: int, after: int) -> int | None:
    """Return the highest threshold that was reached, in percent; None if none was."""
    passed = [one for one in THRESHOLDS if before * 100 < one * limit <= after * 100]
    return max(passed, default=None)


class Place(NamedTuple):
    """A position among the licenses by expiry: the expiry in seconds, and the ID."""

    expires_at: int
    license_id: int


class PassMoments(Command, frozen=True, kw_only=True):
    """Record events for the moments of some licenses that have come since the last run. ``days`` are those
    before the expiry, 0 the expiry itself; with ``notifies_customers``, the customers get mails.

    With ``after``, check the licenses after that position again, as their expiry may have been changed.
    """

    cost = Cost.STEP
    is_internal = True

    days: tuple[int, ...]
    notifies_customers: bool = False
    after: Place | None = None


class FindMoments(Query, frozen=True, kw_only=True):
    """Whether moments have come that are not recorded as events yet."""

    now: datetime
    days: tuple[int, ...]
