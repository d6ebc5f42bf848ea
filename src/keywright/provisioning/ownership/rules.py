"""The rules of claims and of handing licenses on. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from keywright.core.errors import (
    ClaimedLately,
    HandedOnBefore,
    NotFound,
    NotTransferable,
    SubscriptionRuns,
    TooManyOffers,
    TransferTooEarly,
)
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.licenses.rules import expiry_after, terms_of
from keywright.licensing.terms.model import Transferable
from keywright.provisioning.ownership.model import (
    CLAIM_TIME,
    MAX_OFFERS,
    OFFER_TIME,
    OFFERS_WITHIN,
    Claim,
    Transfer,
    TransferState,
)

#: How far clocks may be apart: what is later than that comes from a clock that was wrong.
_CLOCKS_APART = timedelta(hours=1)


class Past(NamedTuple):
    """What decides whether a license may change hands: its claim, the moments at which it did, and whether a
    subscription pays for it.
    """

    claim: Claim | None
    accepted_at: Sequence[datetime]
    has_subscription: bool


def is_claimable(license: License) -> bool:
    """Whether a customer who has the key may claim the license."""
    is_free = license.customer_id is None and license.status != Status.DISABLED
    return is_free and terms_of(license).claimable


def require_settled(license: License, claim: Claim | None, now: datetime) -> None:
    """Raise ``ClaimedLately`` while the claim of the license's customer may have to be undone."""
    if claim is not None and claim.customer_id == license.customer_id:
        until = claim.claimed_at + CLAIM_TIME
        if now < until <= now + CLAIM_TIME + _CLOCKS_APART:
            raise ClaimedLately(until)


def require_transferable(license: License, past: Past, now: datetime) -> None:
    """Raise ``NotTransferable``, or what says more, unless the license may be handed on now."""
    terms = terms_of(license)
    is_usable = license.status not in (Status.DISABLED, Status.INACTIVE)
    if terms.trial or not is_usable or terms.transferable is Transferable.NO:
        raise NotTransferable
    if past.accepted_at and terms.transferable is Transferable.ONCE:
        raise HandedOnBefore
    if past.has_subscription:
        raise SubscriptionRuns
    require_settled(license, past.claim, now)
    begin = max((license.created_at, *past.accepted_at))
    earliest = expiry_after(begin, terms.transfer_after_days)
    if now < earliest:
        raise TransferTooEarly(earliest)


def state_of(transfer: Transfer, owner_id: int | None, now: datetime) -> TransferState:
    """The state of a transfer of a license that has this customer now."""
    if transfer.undone_at is not None:
        return TransferState.UNDONE
    if transfer.accepted_at is not None:
        return TransferState.ACCEPTED
    is_good = now < transfer.expires_at <= now + OFFER_TIME + _CLOCKS_APART
    is_open = is_good and transfer.ended_at is None and owner_id == transfer.from_customer_id
    return TransferState.OFFERED if is_open else TransferState.ENDED


def require_offered(transfer: Transfer | None, owner_id: int | None, now: datetime) -> Transfer:
    """The transfer, while it is offered. Raises ``NotFound``."""
    if transfer is None or state_of(transfer, owner_id, now) is not TransferState.OFFERED:
        raise NotFound("such offer")
    return transfer


def require_few(offered_at: Sequence[datetime], now: datetime) -> None:
    """Raise ``TooManyOffers`` where a customer has made as many offers as there may be within a day."""
    recent = sorted(one for one in offered_at if now - OFFERS_WITHIN < one <= now + _CLOCKS_APART)
    if len(recent) >= MAX_OFFERS:
        seconds = (recent[-MAX_OFFERS] + OFFERS_WITHIN - now).total_seconds()
        raise TooManyOffers(max(1, int(seconds)))
