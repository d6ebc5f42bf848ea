"""The rules of devices that customers free. Pure."""

import math
from collections.abc import Iterable
from datetime import datetime, timedelta

from keywright.core.errors import NoRemovalLeft
from keywright.licensing.removals.model import RemovalsLeft
from keywright.licensing.terms.model import Terms


def removals_left(terms: Terms, removed: Iterable[datetime], now: datetime) -> RemovalsLeft:
    """How many devices a customer may free now, who freed some at these times."""
    allowance = terms.portal_removals
    if allowance is None or allowance.count == 0:
        return RemovalsLeft(None if allowance is None else 0)
    days = timedelta(days=allowance.per_days)
    recent = sorted(one for one in removed if one > now - days)
    left = max(0, allowance.count - len(recent))
    if left:
        return RemovalsLeft(left)
    # So many have to be older than the days first that fewer than the count are left.
    return RemovalsLeft(0, recent[-allowance.count] + days)


def require_removal(terms: Terms, removed: Iterable[datetime], now: datetime) -> None:
    """Raise ``NoRemovalLeft`` unless a customer may free a device now."""
    left, allowance = removals_left(terms, removed, now), terms.portal_removals
    if left.count != 0 or allowance is None:
        return
    seconds = None if left.next_at is None else max(1, math.ceil((left.next_at - now).total_seconds()))
    raise NoRemovalLeft(allowance.count, allowance.per_days, seconds)
