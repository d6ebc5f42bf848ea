"""Leases."""

from datetime import datetime

import msgspec

from keywright.licensing.activations.model import Activation
from keywright.licensing.views import LicenseView


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

    ``is_new`` says that it was taken; ``was_lost``, that it had ended before and was taken again.
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
