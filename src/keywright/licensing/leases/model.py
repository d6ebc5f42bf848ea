"""Leases and their commands."""

from datetime import datetime

import msgspec

from keywright.core.command import Cost, Query
from keywright.licensing.activations.model import Activation, LicenseView, ProgramCommand
from keywright.licensing.licenses.model import LicenseCommand


class Lease(msgspec.Struct, frozen=True, gc=False):
    """A place of a floating license, held from ``renewed_at`` up to, not including, ``expires_at``.

    ``lease_id`` is 32 hex characters, known to the holder and the vendor. ``activation_id`` is the device's
    activation, None without a device; see ``rules.device_number`` for a device without an activation.
    ``ended_at`` is set when an ended lease is no longer counted; a released lease is deleted.
    ``barred_until`` is set if the customer ended the lease: its holder gets no other before.
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
    """The number of a license's counted leases, and its maximum until the terms change: the limit, or the
    number held when the limit was lowered. From ``barred_until`` on, no holder is barred.
    """

    license_id: int
    held: int
    places: int
    barred_until: datetime | None = None


class HeldLeases(msgspec.Struct, frozen=True, gc=False):
    """The number of a license's counted leases, and when the next of them ends; None if there are none."""

    count: int
    next_end: datetime | None = None


class Leased(msgspec.Struct, frozen=True, gc=False):
    """A lease that was taken or renewed, and the number of the license's counted leases.

    ``is_new`` means that it was taken; ``was_lost``, that it had ended and was taken again.
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
    """The license, the number of its counted leases, and whether this one was counted before."""

    view: LicenseView
    count: int
    was_held: bool


class TakeLease(ProgramCommand, frozen=True, kw_only=True):
    """Take a lease for this many seconds, at most those of the terms, which are the default. The same holder
    on the same device renews the lease it has.
    """

    holder: str
    seconds: int | None = None


class RenewLease(ProgramCommand, frozen=True, kw_only=True):
    """Renew a lease, even one that has ended if a place is free."""

    lease_id: str
    seconds: int | None = None


class ReleaseLease(ProgramCommand, frozen=True, kw_only=True):
    """Give up a lease."""

    lease_id: str


class EndLease(LicenseCommand, frozen=True, kw_only=True):
    """End a holder's lease; its place is free at once."""

    lease_id: str


class EndLeaseByCustomer(EndLease, frozen=True, kw_only=True):
    """End a lease for the license's customer, as often as the terms allow removals. Its holder gets no other
    for the duration of a lease.
    """

    cost = Cost.ALONE

    customer_id: int


class ListLeases(Query, frozen=True, kw_only=True):
    """Leases of a license, newest first; ``before`` is the position of the last one on the page before: its
    creation in seconds, and its ID.
    """

    cost = Cost.LIST

    license_id: int
    before: tuple[int, str] | None = None
    limit: int
    only_product_id: int | None = None
    is_counted: bool = False


#: The commands that need the leases of their license.
LeaseCommand = TakeLease | RenewLease | ReleaseLease | EndLease
