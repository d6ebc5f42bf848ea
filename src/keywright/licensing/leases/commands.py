"""Take, renew and give up leases; end and list them."""

from keywright.core.command import Cost, Query
from keywright.licensing.activations.commands import ProgramCommand
from keywright.licensing.licenses.commands import LicenseCommand


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
