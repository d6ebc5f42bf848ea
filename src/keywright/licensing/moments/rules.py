"""Which moments of a license have come. Pure."""

from collections.abc import Collection
from datetime import datetime, timedelta

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
