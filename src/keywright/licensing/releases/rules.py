"""The rules of devices that customers free. Pure."""

import math
from collections.abc import Iterable
from datetime import datetime, timedelta

from keywright.core.errors import NoPortalReleases, TooManyReleases
from keywright.licensing.releases.model import ReleasesLeft
from keywright.licensing.terms.model import Terms


def releases_left(terms: Terms, released: Iterable[datetime], now: datetime) -> ReleasesLeft:
    """How many devices a customer may free now, who freed some at these times."""
    allowance = terms.portal_removals
    if allowance is None or allowance.count == 0:
        return ReleasesLeft(None if allowance is None else 0)
    days = timedelta(days=allowance.per_days)
    recent = sorted(one for one in released if one > now - days)
    left = max(0, allowance.count - len(recent))
    if left:
        return ReleasesLeft(left)
    # So many have to be older than the days first that fewer than the count are left.
    return ReleasesLeft(0, recent[-allowance.count] + days)


def require_release(terms: Terms, released: Iterable[datetime], now: datetime) -> None:
    """Raise ``NoPortalReleases`` or ``TooManyReleases`` unless a customer may free a device now."""
    left, allowance = releases_left(terms, released, now), terms.portal_removals
    if left.count != 0 or allowance is None:
        return
    if left.next_at is None:
        raise NoPortalReleases
    seconds = max(1, math.ceil((left.next_at - now).total_seconds()))
    raise TooManyReleases(allowance.count, allowance.per_days, seconds)
