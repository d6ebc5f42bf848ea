"""Commands about moments."""

from datetime import datetime
from typing import NamedTuple

from keywright.core.command import Command, Cost, Query


class Place(NamedTuple):
    """A place among the licenses by expiry: the expiry in seconds, and the id."""

    expires_at: int
    license_id: int


class PassMoments(Command, frozen=True, kw_only=True):
    """Make events of the moments that have come since the last time, of some licenses. ``days`` are those
    before the expiry, 0 is the expiry itself; with ``tells_customers``, their customers get mails.

    With ``after``, look again at the licenses after that place, whose expiry may have been changed.
    """

    cost = Cost.STEP
    is_internal = True

    days: tuple[int, ...]
    tells_customers: bool = False
    after: Place | None = None


class FindMoments(Query, frozen=True, kw_only=True):
    """Whether moments have come that are no events yet."""

    now: datetime
    days: tuple[int, ...]
