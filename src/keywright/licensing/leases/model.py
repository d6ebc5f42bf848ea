"""Leases, and the commands about them."""

from datetime import datetime

import msgspec

from keywright.core.command import Cost, Query
from keywright.licensing.activations.model import Activation, LicenseView, ProgramCommand
from keywright.licensing.licenses.model import LicenseCommand


class Lease(msgspec.Struct, frozen=True, gc=False):
    """A place of a floating license, held from ``renewed_at`` up to, not including, ``expires_at``.

    ``lease_id`` is 32 hex characters, known to the holder and the vendor. ``activation_id`` is the device's
    activation, None without a device; see ``rules.device_number`` for a device that has none. ``ended_at`` is
    set when an ended lease is no longer counted; a released one is deleted. ``barred_until`` is set on one
    that the customer has ended: its holder gets none before.
    """

    license_id: int
    lease_id: str
    activation_id: int | None
    holder: str
    created_at: datetime
    renewed_at: datetime
    expires_at: datetime
    ended_at: datetime | None = None
    barred_until: datetime | None = None


class LeaseCounter(msgspec.Struct, frozen=True, gc=False):
    """The number of a license's leases that are counted, and the most that it may be until the terms change:
    the limit, or what was held when the limit was lowered. No holder is barred from ``barred_until`` on.
    """

    license_id: int
    held: int
    places: int
    barred_until: datetime | None = None


class HeldLeases(msgspec.Struct, frozen=True, gc=False):
    """The number of a license's leases that are counted, and when the next of them ends; None without any."""

    count: int
    next_end: datetime | None = None


class Leased(msgspec.Struct, frozen=True, gc=False):
    """A lease that was taken or renewed, and the number of the license's leases that are counted now.

    ``is_new`` means that it was taken; ``was_lost``, that it had ended before and was taken again.
    """

    lease: Lease
    count: int
    is_new: bool = False
    was_lost: bool = False


class GrantedLease(msgspec.Struct, frozen=True, gc=False):
    """The license with a lease that was taken or renewed; ``activation`` is the record of the device."""

    view: LicenseView
    leased: Leased
    activation: Activation | None


class ReleasedLease(msgspec.Struct, frozen=True, gc=False):
    """The license, the number of its leases that are counted, and whether this one was until now."""

    view: LicenseView
    count: int
    was_held: bool


class TakeLease(ProgramCommand, frozen=True, kw_only=True):
    """Take a lease for so many seconds, at most those of the terms; None is as many. The same holder on the
    same device goes on with the lease that it has.
    """

    holder: str
    seconds: int | None = None


class RenewLease(ProgramCommand, frozen=True, kw_only=True):
    """Go on with a lease, also with one that has ended, if one is free."""

    lease_id: str
    seconds: int | None = None


class ReleaseLease(ProgramCommand, frozen=True, kw_only=True):
    """Give up a lease."""

    lease_id: str


class EndLease(LicenseCommand, frozen=True, kw_only=True):
    """End a lease for its holder: it is free at once."""

    lease_id: str


class EndLeaseByCustomer(EndLease, frozen=True, kw_only=True):
    """End a lease for the license's customer, as often as the terms let devices be freed. Its holder gets
    none for the time of a lease.
    """

    cost = Cost.ALONE

    customer_id: int


class ListLeases(Query, frozen=True, kw_only=True):
    """Leases of a license, the newest first; ``before`` is the position of the last one of the page before:
    its creation in seconds, and its id.
    """

    cost = Cost.LIST

    license_id: int
    before: tuple[int, str] | None = None
    limit: int
    only_product_id: int | None = None
    is_counted: bool = False


#: The commands that need the leases of their license.
LeaseCommand = TakeLease | RenewLease | ReleaseLease | EndLease
