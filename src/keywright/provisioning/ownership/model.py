"""Claims and transfers of licenses. All of them are frozen."""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

#: How long after a claim the key is not replaced and the license not handed on: the claim may be undone.
CLAIM_TIME = timedelta(days=14)
#: How long an offer is good, and how many a customer may make within a day.
OFFER_TIME = timedelta(days=7)
MAX_OFFERS, OFFERS_WITHIN = 3, timedelta(days=1)


class Claim(msgspec.Struct, frozen=True):
    """The last claim of a license by a customer who had its key."""

    license_id: int
    customer_id: int
    claimed_at: datetime


class TransferState(StrEnum):
    """``ended`` is canceled by the owner or the vendor, declined, or too late."""

    OFFERED = "offered"
    ACCEPTED = "accepted"
    ENDED = "ended"
    UNDONE = "undone"


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """A license that one customer offers to another one; it changes hands when that one accepts."""

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
    """Of how many licenses so many were claimed, and so many activated at least once."""

    licenses: int
    claimed: int
    activated: int
