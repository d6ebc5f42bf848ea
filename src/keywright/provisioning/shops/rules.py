"""What the events of a shop make of payments, subscriptions and licenses. Pure.

Events may come twice, late, and in any order: what is kept are facts with the shop's own time, and what a
license should be is derived from all of them.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from keywright.core.parsing import MAX_COUNT
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.licenses.rules import END_OF_TIME
from keywright.provisioning.shops.model import (
    ANY_PRODUCT,
    Change,
    Fact,
    MappedProduct,
    Payment,
    Renewal,
    Sale,
    SaleLine,
    SaleState,
    SoldLicense,
    StateChange,
    Subscription,
)

Stateful = TypeVar("Stateful", Payment, Subscription)


class Unset(Enum):
    """No value: nothing is said about an expiry."""

    UNSET = "unset"


UNSET = Unset.UNSET


class Wanted(NamedTuple):
    """What a license should be, as far as the shop says. While that says no expiry, the terms give one; the
    end of a subscription ends the license, unless it expires before.
    """

    status: Status
    expires_at: datetime | Unset = UNSET
    ended_at: datetime | None = None

    def expiry(self, of_terms: datetime | None) -> datetime | None:
        """The expiry of a license that has this one by its terms; None for never."""
        expires_at = of_terms if self.expires_at is UNSET else self.expires_at
        return min((one for one in (expires_at, self.ended_at) if one is not None), default=None)


class Known(NamedTuple):
    """What is known of a payment and of a subscription, with the payments of that, each by what the shop
    calls it.
    """

    payments: Mapping[str, Payment] = {}
    subscription: Subscription | None = None


class Decided(NamedTuple):
    """The changes of a license, and what the shop has now said of it. ``is_refused``: a change would undo
    what was done by hand; ``is_kept``: the license keeps a later expiry that was set by hand.
    """

    changes: Mapping[str, Any]
    sold: SoldLicense
    is_refused: bool = False
    is_kept: bool = False


# --- facts ----------------------------------------------------------------------------------------


def payment_ref(change: Change) -> str | None:
    """Under what the payment is kept that a change is about; None for the state of a subscription."""
    if isinstance(change, Renewal) and change.order is None:
        return period_ref(change.subscription, change.until)
    return getattr(change, "order", None)


def learn(known: Known, change: Sale | Renewal | StateChange, at: int) -> Known:
    """What is known after a change: after the same changes the same, in whatever order they came."""
    ref = payment_ref(change)
    if ref is not None:
        payment = _with_change(known.payments.get(ref) or Payment(order=ref), change, at)
        return known._replace(payments={**known.payments, ref: payment})
    assert isinstance(change, StateChange)  # noqa: S101
    subscription = known.subscription or Subscription(ref=change.subscription or "")
    return known._replace(subscription=_with_state(subscription, change.state, at))


def _with_change(payment: Payment, change: Sale | Renewal | StateChange, at: int) -> Payment:
    if isinstance(change, StateChange):
        return _with_state(payment, change.state, at, change.fact)
    untils = [one for one in (payment.until, change.until) if one is not None]
    paid = replace(
        payment,
        subscription=payment.subscription or change.subscription,
        paid_at=at if payment.paid_at is None else min(payment.paid_at, at),
        until=max(untils, default=None),
    )
    return _with_state(paid, SaleState.ACTIVE, at)


def _with_state(before: Stateful, state: SaleState, at: int, fact: Fact = Fact.ORDER) -> Stateful:
    """With this state, if it is newer by the shop's clock; at the same moment, the worse one."""
    rank, before_at = _RANK[getattr(before, fact.value)], getattr(before, f"{fact.value}_at")
    is_newer = at > before_at or (at == before_at and _RANK[state] > rank)
    return replace(before, **{fact.value: state, f"{fact.value}_at": at}) if is_newer else before


_RANK = {state: rank for rank, state in enumerate(SaleState)}


def _state_of(payment: Payment) -> SaleState:
    """The worst of what is true of a payment."""
    return max(payment.state, payment.refund, payment.dispute, key=_RANK.__getitem__)


def subscription_of(known: Known) -> Subscription | None:
    """The subscription, which was active when each of its payments was made first, and when the shop last
    said a period whose payment it does not name.
    """
    found = known.subscription
    for one in known.payments.values():
        if one.subscription is not None and one.paid_at is not None:
            found = _with_state(found or Subscription(ref=one.subscription), SaleState.ACTIVE, _said_at(one))
    return found


def begins_grace(before: Known, after: Known) -> bool:
    """Whether a payment of the subscription has failed: shops tell of it several times."""
    was, now = subscription_of(before), subscription_of(after)
    has_failed = now is not None and now.state is SaleState.GRACE
    return has_failed and (was is None or was.state is not SaleState.GRACE)


# --- licenses -------------------------------------------------------------------------------------


def period_ref(subscription: str, until: datetime) -> str:
    """Under what a period is kept whose payment the shop does not name."""
    return f"{subscription} {until:%Y-%m-%d %H:%M:%S}"


def _is_period(payment: Payment) -> bool:
    subscription, until = payment.subscription, payment.until
    return subscription is not None and until is not None and payment.order == period_ref(subscription, until)


def _said_at(payment: Payment) -> int:
    return payment.state_at if _is_period(payment) else payment.paid_at or 0


def _place(payment: Payment) -> tuple[int, datetime, str]:
    """Its place among others: of two at the same moment, the one for the later period is last."""
    return _said_at(payment), payment.until or datetime.min.replace(tzinfo=UTC), payment.order


def wanted(known: Known) -> Wanted:
    """What the licenses should be that were bought with the first of these payments, and renewed with the
    others.
    """
    named = sorted((one for one in known.payments.values() if not _is_period(one)), key=_place)
    good = [one for one in named if _state_of(one) is not SaleState.REFUNDED]
    periods = _unrefunded_periods(known, named)
    states = [(one.state, one.state_at) for one in (subscription_of(known),) if one is not None]
    states += [(_state_of(one), one.state_at) for one in good[-1:]]
    found = {state for state, _ in states}
    if not (good or periods) or SaleState.REFUNDED in found:
        return Wanted(Status.DISABLED)
    until = _paid_until(named, good, periods)
    if SaleState.SUSPENDED in found:
        return Wanted(Status.INACTIVE, until)
    ends = [at for state, at in states if state is SaleState.ENDED]
    return Wanted(Status.ACTIVE, until, _to_moment(ends[0]) if ends else None)


def _unrefunded_periods(known: Known, named: Collection[Payment]) -> list[Payment]:
    """The periods, but for those whose payments were refunded: where these do not say which, the earliest
    that ended later.
    """
    periods = {one.until: one for one in known.payments.values() if _is_period(one)}
    for refunded in (one for one in named if _state_of(one) is SaleState.REFUNDED):
        paid_at = _to_moment(refunded.paid_at or 0)
        ends = [refunded.until] if refunded.until else sorted(one for one in periods if one and one > paid_at)
        periods.pop(ends[0] if ends else paid_at, None)
    return [*periods.values()]


def _paid_until(
    named: Collection[Payment], good: Sequence[Payment], periods: Collection[Payment]
) -> datetime | Unset:
    """Until when is paid, as the newest payment or period says. Where none does, until the next payment
    after the last one that is good, which was refunded; or as a refunded one says.
    """
    said = [(_said_at(one), one.until) for one in (*good, *periods) if one.until is not None]
    if said:
        return max(said)[1]
    refunded = [one for one in named if one not in good]
    later = [one.paid_at for one in refunded if one.paid_at and one.paid_at > _said_at(good[-1])]
    if later:
        return _to_moment(min(later))
    return max((one.until for one in refunded if one.until is not None), default=UNSET)


def _to_moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds // 1000, UTC)


def decide(sold: SoldLicense, license: License, want: Wanted, *, is_forced: bool = False) -> Decided:
    """The changes that make the license what the shop wants.

    What the shop has said before and says again changes nothing. A field that has another value than the
    shop gave it was changed by hand: a later expiry stays, everything else is refused unless ``is_forced``.
    """
    changes: dict[str, Any] = {}
    is_kept = False
    if want.status not in (sold.status, license.status):
        if license.status != sold.status and not is_forced:
            return Decided({}, sold, is_refused=True)
        changes["status"] = int(want.status)
    now_sold = replace(sold, status=int(want.status), terms_expire_at=_terms_expire_at(sold, license))
    wanted_at = want.expiry(now_sold.terms_expire_at)
    if want.status is not Status.DISABLED and wanted_at != sold.expires_at:
        expires_at = _decide_expiry(sold, license, wanted_at, is_forced=is_forced)
        if expires_at is UNSET:
            return Decided({}, sold, is_refused=True)
        if expires_at != license.expires_at:
            changes["expires_at"] = expires_at
        is_kept = expires_at != wanted_at
        now_sold = replace(now_sold, expires_at=wanted_at)
    return Decided(changes, now_sold, is_kept=is_kept)


def _terms_expire_at(sold: SoldLicense, license: License) -> datetime | None:
    """The expiry by the terms; they may have given one since, with the first activation."""
    is_open = sold.expires_at is None and sold.terms_expire_at is None
    return license.expires_at if is_open else sold.terms_expire_at


def _decide_expiry(
    sold: SoldLicense, license: License, want: datetime | None, *, is_forced: bool
) -> datetime | Unset | None:
    """The expiry that the license gets; ``UNSET`` where that would undo what was done by hand."""
    # Where the shop has said none, the terms may have given one since.
    is_by_hand = sold.expires_at is not None and license.expires_at != sold.expires_at
    if not is_by_hand or is_forced:
        return want
    told, has, wants = (one or END_OF_TIME for one in (sold.expires_at, license.expires_at, want))
    if wants < told and has != wants:
        return UNSET
    return license.expires_at if has >= wants else want


def find_mapped(mapping: Collection[MappedProduct], line: SaleLine) -> MappedProduct | None:
    """What this line makes: by the first of its refs that the mapping has, or by the entry for any."""
    by_product = {one.product: one for one in mapping}
    found = (by_product[ref] for ref in (*line.refs, ANY_PRODUCT) if ref in by_product)
    return next(found, None)


def multiply_limit(limit: int, quantity: int) -> int:
    """The limit of a license for so many times the devices; at most what a license can have."""
    return min(limit * quantity, MAX_COUNT)
