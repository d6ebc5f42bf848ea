"""Claims and transfers of licenses, and the commands about them."""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from keywright.core.command import Cost, Query
from keywright.licensing.licenses.model import LicenseCommand

#: How long after a claim the license is not transferred, nor its key rotated: the claim may be undone.
CLAIM_TIME = timedelta(days=14)
#: How long an offer is valid, and how many a customer may make within a day.
OFFER_TIME = timedelta(days=7)
MAX_OFFERS, OFFERS_WITHIN = 3, timedelta(days=1)


class Claim(msgspec.Struct, frozen=True):
    """The last claim of a license by a customer who had its key."""

    license_id: int
    customer_id: int
    claimed_at: datetime


class TransferState(StrEnum):
    """``ended``: canceled by the owner or the vendor, declined, or expired."""

    OFFERED = "offered"
    ACCEPTED = "accepted"
    ENDED = "ended"
    UNDONE = "undone"


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """An offer of a license by one customer to another, who becomes its owner by accepting it."""

    id: int
    license_id: int
    from_customer_id: int
    to_customer_id: int
    offered_at: datetime
    expires_at: datetime
    accepted_at: datetime | None = None
    ended_at: datetime | None = None
    undone_at: datetime | None = None


class ClaimCounts(msgspec.Struct, frozen=True):
    """Among some licenses, the numbers of those that were claimed, and that were activated at least once."""

    licenses: int
    claimed: int
    activated: int


class ClaimLicense(LicenseCommand, frozen=True, kw_only=True):
    """Give the license with this key to a customer, if its terms allow that and it has none."""

    customer_id: int


class OfferLicense(LicenseCommand, frozen=True, kw_only=True):
    """Offer a license, named by its ID, to the customer with this address; one is made if there is none. With
    ``owner_id``, licenses of other customers do not exist for the caller.
    """

    cost = Cost.ALONE

    email: str
    owner_id: int | None = None
    language: str | None = None


class TransferCommand(LicenseCommand, frozen=True, kw_only=True):
    """A decision about a transfer of a license, named by its ID, by this customer or by the vendor."""

    cost = Cost.ALONE

    transfer_id: int
    customer_id: int | None = None


class AcceptTransfer(TransferCommand, frozen=True, kw_only=True):
    """Accept the license. It gets a new key, and all its places are free."""


class CancelTransfer(TransferCommand, frozen=True, kw_only=True):
    """End an offer: the owner cancels it, or the other customer declines it."""


class UndoTransfer(TransferCommand, frozen=True, kw_only=True):
    """Return the license to its former customer, with a third key."""


class ListTransfers(Query, frozen=True, kw_only=True):
    """The transfers of a license, newest first."""

    license_id: int
    only_product_id: int | None = None


class CountClaims(Query, frozen=True, kw_only=True):
    """The numbers of claimed and activated licenses of a policy, of an order, or made by a job."""

    cost = Cost.LIST

    policy_id: int | None = None
    order_id: str | None = None
    job_id: int | None = None
    only_product_id: int | None = None
