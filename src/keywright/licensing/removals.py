"""Devices that customers remove, as often as the terms of a license allow. Pure."""

import math
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from keywright.core.errors import NoRemovalLeft
from keywright.licensing.activations.model import ReleaseActivation
from keywright.licensing.terms.model import Terms


class RemovalsLeft(msgspec.Struct, frozen=True, gc=False):
    """How many devices a customer may remove now; ``count`` None means any number. ``next_at`` is when one
    more is allowed, None if that does not depend on time.
    """

    count: int | None = None
    next_at: datetime | None = None


def removals_left(terms: Terms, removed: Iterable[datetime], now: datetime) -> RemovalsLeft:
    """Return how many devices a customer may remove now, who removed some at these times."""
    allowance = terms.portal_removals
    if allowance is None or allowance.count == 0:
        return RemovalsLeft(None if allowance is None else 0)
    days = timedelta(days=allowance.per_days)
    recent = sorted(one for one in removed if one > now - days)
    left = max(0, allowance.count - len(recent))
    if left:
        return RemovalsLeft(left)
    # The next removal is allowed when so many have left the period that fewer than ``count`` remain.
    return RemovalsLeft(0, recent[-allowance.count] + days)


def require_removal(terms: Terms, removed: Iterable[datetime], now: datetime) -> None:
    """Raise ``NoRemovalLeft`` unless a customer may remove a device now."""
    left, allowance = removals_left(terms, removed, now), terms.portal_removals
    if left.count != 0 or allowance is None:
        return
    seconds = None if left.next_at is None else max(1, math.ceil((left.next_at - now).total_seconds()))
    raise NoRemovalLeft(allowance.count, allowance.per_days, seconds)


class RemoveByCustomer(ReleaseActivation, frozen=True, kw_only=True):
    """Give up the place of a device for a customer, as often as the terms allow. With ``customer_id``,
    licenses of others do not exist for the caller.
    """

    customer_id: int | None = None
