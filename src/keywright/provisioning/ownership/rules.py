"""The rules of claims and transfers of licenses. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from keywright.core import errors as e
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.licenses.rules import expiry_after, terms_of
from keywright.licensing.terms.model import Transferable
from keywright.provisioning.ownership import model

#: The maximum difference between clocks: a later time comes from a clock that was wrong.
_CLOCKS_APART = timedelta(hours=1)


class Past(NamedTuple):
    """The facts that decide whether a license may be transferred: its claim, the times of its transfers, and
    whether a subscription pays for it.
    """

    claim: model.Claim | None
    accepted_at: Sequence[datetime]
    has_subscription: bool


def is_claimable(license: License) -> bool:
    """Whether a customer who has the key may claim the license."""
    is_free = license.customer_id is None and license.status != Status.DISABLED
    return is_free and terms_of(license).claimable


def require_settled(license: License, claim: model.Claim | None, now: datetime) -> None:
    """Raise ``ClaimedLately`` as long as the claim of the license's customer may be undone."""
    if claim is not None and claim.customer_id == license.customer_id:
        until = claim.claimed_at + model.CLAIM_TIME
        if now < until <= now + model.CLAIM_TIME + _CLOCKS_APART:
            raise e.ClaimedLately(until)


def require_transferable(license: License, past: Past, now: datetime) -> None:
    """Raise ``NotTransferable``, or a more precise refusal, unless the license may be transferred now."""
    terms = terms_of(license)
    is_usable = license.status not in (Status.DISABLED, Status.INACTIVE)
    if terms.trial or not is_usable or terms.transferable is Transferable.NO:
        raise e.NotTransferable
    if past.accepted_at and terms.transferable is Transferable.ONCE:
        raise e.HandedOnBefore
    if past.has_subscription:
        raise e.SubscriptionRuns
    require_settled(license, past.claim, now)
    begin = max((license.created_at, *past.accepted_at))
    earliest = expiry_after(begin, terms.transfer_after_days)
    if now < earliest:
        raise e.TransferTooEarly(earliest)


def state_of(transfer: model.Transfer, owner_id: int | None, now: datetime) -> model.TransferState:
    """Return the state of a transfer of a license whose present customer is ``owner_id``."""
    if transfer.undone_at is not None:
        return model.TransferState.UNDONE
    if transfer.accepted_at is not None:
        return model.TransferState.ACCEPTED
    is_good = now < transfer.expires_at <= now + model.OFFER_TIME + _CLOCKS_APART
    is_open = is_good and transfer.ended_at is None and owner_id == transfer.from_customer_id
    return model.TransferState.OFFERED if is_open else model.TransferState.ENDED


def require_offered(transfer: model.Transfer | None, owner_id: int | None, now: datetime) -> model.Transfer:
    """Return the transfer, if it is an open offer. Raises ``NotFound``."""
    if transfer is None or state_of(transfer, owner_id, now) is not model.TransferState.OFFERED:
        raise e.NotFound("such offer")
    return transfer


def require_few(offered_at: Sequence[datetime], now: datetime) -> None:
    """Raise ``TooManyOffers`` if a customer has reached the limit of offers within a day."""
    recent = sorted(one for one in offered_at if now - model.OFFERS_WITHIN < one <= now + _CLOCKS_APART)
    if len(recent) >= model.MAX_OFFERS:
        seconds = (recent[-model.MAX_OFFERS] + model.OFFERS_WITHIN - now).total_seconds()
        raise e.TooManyOffers(max(1, int(seconds)))
