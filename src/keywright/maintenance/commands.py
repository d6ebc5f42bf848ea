"""Commands that Keywright gives itself: forget what is old, follow the events, keep counters and notes."""

from datetime import datetime

from keywright.core.command import Command, Cost


class EraseCustomer(Command, frozen=True, kw_only=True):
    """Erase some of what tells of the customer with this number of the vendor's shop."""

    customer_id: int


class PurgeEvents(Command, frozen=True, kw_only=True):
    """Delete some events that happened before this moment (None: none is too old), or find licenses that may
    have too many; with a license, delete some of those that it has too many.
    """

    cost = Cost.ALONE

    before: datetime | None = None
    license_id: int | None = None


class PurgeAddresses(Command, frozen=True, kw_only=True):
    """Forget from where these places (the license's number, the token) were taken, if they were given up
    before this moment; and the addresses of some earlier events.
    """

    cost = Cost.ALONE
    is_internal = True

    before: datetime
    places: tuple[tuple[int, str], ...] = ()
