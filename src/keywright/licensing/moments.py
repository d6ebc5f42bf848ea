"""Moments of a license that come by themselves, and are events: it expires soon, it has expired. Pure."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from keywright.core.command import Command, Cost, Query
from keywright.licensing.licenses.model import Status

#: The kinds of moments, as ``license_moments`` has them; that of an expiry notice ends with its days.
LIMIT_REACHED, EXPIRED = "limit_reached", "expired"
#: Since when the terms replace devices that are unseen for so long, which is what it is about.
REPLACES_UNSEEN = "replaces_unseen"
#: An activation that is refused at the limit is an event again after so long.
LIMIT_AGAIN_AFTER = timedelta(days=30)
#: The parts of a meter's limit, in percent, whose use is an event.
THRESHOLDS = (80, 100)


def moment_of(
    expires_at: datetime, created_at: datetime, status: int, now: datetime, days: Collection[int]
) -> int | None:
    """The days before the expiry of the last moment that has come; 0 is the expiry, None is no moment.

    A disabled license has none, and a notice only a license that was there at that time.
    """
    if status == Status.DISABLED:
        return None
    come = [one for one in (*days, 0) if now >= expires_at - timedelta(days=one)]
    if not come:
        return None
    last = min(come)
    return last if created_at <= expires_at - timedelta(days=last) else None


def kind_of(days: int) -> str:
    """The kind of the moment so many days before an expiry."""
    return f"expiring:{days}" if days else EXPIRED


def passed_threshold(limit: int, before: int, after: int) -> int | None:
    """The highest threshold that was passed, in percent."""
    passed = [one for one in THRESHOLDS if before * 100 < one * limit <= after * 100]
    return max(passed, default=None)


class Place(NamedTuple):
    """A place among the licenses by expiry: the expiry in seconds, and the id."""

    expires_at: int
    license_id: int


class PassMoments(Command, frozen=True, kw_only=True):
    """Make events of the moments that have come since the last time, of some licenses. ``days`` are those
    before the expiry, 0 is the expiry itself; with ``notifies_customers``, their customers get mails.

    With ``after``, look again at the licenses after that place, whose expiry may have been changed.
    """

    cost = Cost.STEP
    is_internal = True

    days: tuple[int, ...]
    notifies_customers: bool = False
    after: Place | None = None


class FindMoments(Query, frozen=True, kw_only=True):
    """Whether moments have come that are no events yet."""

    now: datetime
    days: tuple[int, ...]
