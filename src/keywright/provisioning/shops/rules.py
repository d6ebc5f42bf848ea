"""Derive payments, subscriptions, and the desired state of licenses from the events of a shop. Pure.

Events may arrive twice, late, and in any order. So facts are stored with the shop's own time, and the desired
state of a license is derived from all of them.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from keywright.licensing.licenses.model import Status
from keywright.provisioning.shops import model
from keywright.provisioning.shops.sold_model import Payment, Subscription, a_snapshot, add_snapshot

#: How long before a change of a subscription its payment may be reported, in milliseconds.
PAID_BEFORE = 3_600_000
Stateful = TypeVar("Stateful", Payment, Subscription)


class Unset(Enum):
    """Marks an expiry that no report states."""

    UNSET = "unset"


UNSET = Unset.UNSET


class Wanted(NamedTuple):
    """The desired state of a license by the shop's reports. Unless these state an expiry, the terms give one.
    The end of a subscription, ``ended_at``, ends the license, unless it expires earlier. ``has_grace``:
    whether the grace of its terms applies. If the subscription resumed, at ``resumed_at``, ends that are not
    later are ignored.
    """

    status: Status
    expires_at: datetime | Unset = UNSET
    ended_at: datetime | None = None
    has_grace: bool = True
    resumed_at: datetime | None = None

    def expiry(self, of_terms: datetime | None) -> datetime | None:
        """Return the expiry of a license that has the expiry ``of_terms`` by its terms; None is never."""
        expires_at = of_terms if self.expires_at is UNSET else self.expires_at
        found = [one for one in (expires_at, self.ended_at) if one is not None]
        return min((one for one in found if self.resumed_at is None or one > self.resumed_at), default=None)


class Known(NamedTuple):
    """The known facts: payments, by the text by which the shop refers to each, and their subscription."""

    payments: Mapping[str, Payment] = {}
    subscription: Subscription | None = None


# --- facts ----------------------------------------------------------------------------------------


def payment_ref(change: model.Change) -> str | None:
    """Return the key of the payment that a change is about; None if it is about a subscription only."""
    if isinstance(change, model.Renewal | model.Lines) and change.until is not None:
        return getattr(change, "order", None) or period_ref(change.subscription, change.until)
    return getattr(change, "order", None)


def learn(
    known: Known, change: model.Sale | model.Renewal | model.StateChange | model.Lines, at: int
) -> Known:
    """Add a change to the known facts. The result depends on the set of changes, not on their order."""
    if isinstance(change, model.Lines):
        return _learn_lines(known, change, at)
    if isinstance(change, model.Renewal) and change.is_change and change.until is not None:
        known = learn(known, model.Renewal(subscription=change.subscription, until=change.until), at)
    ref = payment_ref(change)
    if ref is not None:
        payment = _with_change(known.payments.get(ref) or Payment(order=ref), change, at)
        return known._replace(payments={**known.payments, ref: payment})
    assert isinstance(change, model.StateChange)  # noqa: S101
    subscription = known.subscription or Subscription(ref=change.subscription or "")
    if change.state is model.SaleState.ENDED:
        subscription = replace(subscription, ended_at=max(subscription.ended_at, at))
    return known._replace(subscription=_with_state(subscription, change.state, at))


def _learn_lines(known: Known, change: model.Lines, at: int) -> Known:
    if change.until is not None:
        known = learn(known, model.Renewal(subscription=change.subscription, until=change.until), at)
    if change.state is not None:
        known = learn(known, model.StateChange(state=change.state, subscription=change.subscription), at)
    subscription = known.subscription or Subscription(ref=change.subscription)
    paid = [one for one in change.lines if one.quantity > 0]
    before = subscription.snapshots.get(change.part, ())
    snapshot = add_snapshot(before, a_snapshot(at, paid, is_asked=change.is_asked))
    snapshots = {**subscription.snapshots, change.part: snapshot}
    return known._replace(subscription=replace(subscription, snapshots=snapshots))


def _with_change(
    payment: Payment, change: model.Sale | model.Renewal | model.StateChange, at: int
) -> Payment:
    if isinstance(change, model.StateChange):
        return _with_state(payment, change.state, at, change.fact)
    untils = [one for one in (payment.until, change.until) if one is not None]
    paid = replace(
        payment,
        subscription=payment.subscription or change.subscription,
        paid_at=at if payment.paid_at is None else min(payment.paid_at, at),
        until=max(untils, default=None),
    )
    if isinstance(change, model.Sale):
        paid = replace(paid, snapshots=add_snapshot(payment.snapshots, a_snapshot(at, change.lines)))
    elif change.until is None or change.is_change:
        paid = replace(paid, is_proration=True, until=payment.until)
    return _with_state(paid, model.SaleState.ACTIVE, at)


def _with_state(
    before: Stateful, state: model.SaleState, at: int, fact: model.Fact = model.Fact.ORDER
) -> Stateful:
    """Set this state, if it is newer by the shop's clock; of two at the same moment, the worse one counts."""
    rank, before_at = _RANK[getattr(before, fact.value)], getattr(before, f"{fact.value}_at")
    is_newer = at > before_at or (at == before_at and _RANK[state] > rank)
    return replace(before, **{fact.value: state, f"{fact.value}_at": at}) if is_newer else before


_RANK = {state: rank for rank, state in enumerate(model.SaleState)}


def _state_of(payment: Payment) -> model.SaleState:
    """Return the worst state of the payment's aspects."""
    return max(payment.state, payment.refund, payment.dispute, key=_RANK.__getitem__)


def subscription_of(known: Known) -> Subscription | None:
    """Return the subscription. It was active when each of its payments was made, and when the shop last
    reported a period whose payment it does not name.
    """
    found = known.subscription
    for one in known.payments.values():
        if one.subscription is not None and one.paid_at is not None:
            found = _with_state(
                found or Subscription(ref=one.subscription), model.SaleState.ACTIVE, _reported_at(one)
            )
    return found


def adopt(known: Known, ref: str, other: Known) -> Known:
    """Add to the known facts of the subscription ``ref`` those of another one that continues it: the shop
    names the other one by the order that changed this one.
    """
    new = other.subscription
    if new is None:
        return known
    for one in other.payments.values():
        if _is_period(one) and one.until is not None:
            known = learn(known, model.Renewal(subscription=ref, until=one.until), _reported_at(one))
    found = _with_state(known.subscription or Subscription(ref=ref), new.state, new.state_at)
    found = replace(found, ended_at=max(found.ended_at, new.ended_at))
    return known._replace(subscription=replace(found, snapshots={**new.snapshots, **found.snapshots}))


def begins_grace(before: Known, after: Known) -> bool:
    """Whether the subscription enters grace with this event: shops report a failed payment several times."""
    was, now = subscription_of(before), subscription_of(after)
    has_failed = now is not None and now.state is model.SaleState.GRACE
    return has_failed and (was is None or was.state is not model.SaleState.GRACE)


# --- licenses -------------------------------------------------------------------------------------


def period_ref(subscription: str, until: datetime) -> str:
    """Return the key of a period whose payment the shop does not name."""
    return f"{subscription} {until:%Y-%m-%d %H:%M:%S}"


def _is_period(payment: Payment) -> bool:
    subscription, until = payment.subscription, payment.until
    return subscription is not None and until is not None and payment.order == period_ref(subscription, until)


def _reported_at(payment: Payment) -> int:
    return payment.state_at if _is_period(payment) else payment.paid_at or 0


def is_proration(payment: Payment) -> bool:
    """Whether the payment pays for no period, but for the difference when a subscription changed."""
    return payment.is_proration and payment.until is None and not payment.snapshots


def place_of(payment: Payment) -> tuple[int, datetime, str]:
    """Return the sort key of a payment: of two at the same moment, the one for the later period is last."""
    return _reported_at(payment), payment.until or datetime.min.replace(tzinfo=UTC), payment.order


class _Paid(NamedTuple):
    """The named payments in order, those of them that are not refunded, and the periods that are not."""

    named: Sequence[Payment]
    good: Sequence[Payment]
    periods: Sequence[Payment]


def _list_paid(known: Known) -> _Paid:
    found = (one for one in known.payments.values() if not _is_period(one) and not is_proration(one))
    named = sorted(found, key=place_of)
    good = [one for one in named if _state_of(one) is not model.SaleState.REFUNDED]
    return _Paid(named, good, _unrefunded_periods(known, named))


def wanted(known: Known, on_cancel: model.OnCancel = model.OnCancel.PAID_UNTIL) -> Wanted:
    """Derive the desired state of the licenses that were bought with the first of these payments, and renewed
    with the others.
    """
    paid, subscription = _list_paid(known), subscription_of(known)
    states = [] if subscription is None else [(subscription.state, subscription.state_at)]
    states += [(_state_of(one), one.state_at) for one in paid.good[-1:]]
    found = {state for state, _ in states}
    if not (paid.good or paid.periods) or model.SaleState.REFUNDED in found:
        return Wanted(Status.DISABLED)
    until = _paid_until(paid)
    # Grace is for a failed payment, not for a refunded one.
    has_grace = _state_of(paid.named[-1]) is not model.SaleState.REFUNDED if paid.named else True
    if model.SaleState.SUSPENDED in found:
        return Wanted(Status.INACTIVE, until, has_grace=has_grace)
    ends = [at for state, at in states if state is model.SaleState.ENDED]
    if ends:
        is_paid = on_cancel is model.OnCancel.PAID_UNTIL and until is not UNSET
        return Wanted(Status.ACTIVE, until, None if is_paid else to_moment(ends[0]), has_grace=False)
    return _resumed(Wanted(Status.ACTIVE, until, has_grace=has_grace), subscription)


def list_good(known: Known, order: str) -> list[int]:
    """List when an order, and each later period of its subscription, was paid, without payments that are
    refunded, disputed or ended.
    """
    first = known.payments.get(order)
    if first is None or first.paid_at is None:
        return []
    paid = _list_paid(known if first.subscription is not None else Known({order: first}))
    good = [one for one in paid.good if _state_of(one) in (model.SaleState.ACTIVE, model.SaleState.GRACE)]
    # The order paid for the first period.
    later = sorted(paid.periods, key=place_of)[1:] if len(paid.named) == 1 else []
    return [*(one.paid_at for one in good if one.paid_at is not None), *map(_reported_at, later)]


def _resumed(want: Wanted, subscription: Subscription | None) -> Wanted:
    """If an ended subscription has resumed, record when, and remove an expiry that had passed then."""
    if subscription is None or not 0 < subscription.ended_at < subscription.state_at:
        return want
    resumed_at = to_moment(subscription.state_at)
    is_past = not isinstance(want.expires_at, Unset) and want.expires_at <= resumed_at
    return want._replace(resumed_at=resumed_at, expires_at=UNSET if is_past else want.expires_at)


def wanted_once(known: Known, order: str) -> Wanted:
    """Derive the desired state of licenses for lines that only this order pays for."""
    payment = replace(known.payments[order], subscription=None, until=None)
    return wanted(Known({order: payment}))


def wanted_gone(known: Known, gone_at: int, on_cancel: model.OnCancel) -> Wanted:
    """Derive the desired state of the licenses of a line that was removed at ``gone_at``: they end like those
    of a subscription that ended. A period that was paid within the hour before counts as paid without the
    line, if an earlier one was paid.
    """
    want, end = wanted(known, on_cancel), to_moment(gone_at)
    if on_cancel is model.OnCancel.PAID_UNTIL:
        paid = _list_paid(known)
        paid_untils = [
            (one.paid_at or 0, one.until) for one in (*paid.good, *paid.periods) if one.until is not None
        ]
        before = [one for one in paid_untils if one[0] <= gone_at]
        earlier = [one for one in before if one[0] <= gone_at - PAID_BEFORE]
        end = max(earlier or before, default=(0, end))[1]
    ended_at = end if want.ended_at is None else min(end, want.ended_at)
    return want._replace(ended_at=ended_at, has_grace=False, resumed_at=None)


def _unrefunded_periods(known: Known, named: Collection[Payment]) -> list[Payment]:
    """Return the periods whose payments were not refunded. A refunded payment that does not state its period
    was for the earliest one that ended after the payment.
    """
    periods = {one.until: one for one in known.payments.values() if _is_period(one)}
    for refunded in (one for one in named if _state_of(one) is model.SaleState.REFUNDED):
        paid_at = to_moment(refunded.paid_at or 0)
        ends = [refunded.until] if refunded.until else sorted(one for one in periods if one and one > paid_at)
        periods.pop(ends[0] if ends else paid_at, None)
    return [*periods.values()]


def _paid_until(paid: _Paid) -> datetime | Unset:
    """Return the end of the paid time by the newest payment or period. If none states it: the time of the
    next payment after the last good one, which was refunded, or else the latest end of a refunded payment.
    """
    reported = [
        (_reported_at(one), one.until) for one in (*paid.good, *paid.periods) if one.until is not None
    ]
    if reported:
        return max(reported)[1]
    refunded = [one for one in paid.named if one not in paid.good]
    later = [one.paid_at for one in refunded if one.paid_at and one.paid_at > _reported_at(paid.good[-1])]
    if later:
        return to_moment(min(later))
    return max((one.until for one in refunded if one.until is not None), default=UNSET)


def to_moment(milliseconds: int) -> datetime:
    """Return the moment so many milliseconds after 1970, in whole seconds."""
    return datetime.fromtimestamp(milliseconds // 1000, UTC)


def find_mapped(mapping: Collection[model.MappedProduct], line: model.SaleLine) -> model.MappedProduct | None:
    """Find the mapping entry for a line: that of its first ref with an entry, or the one for any product."""
    by_product = {one.product: one for one in mapping}
    found = (by_product[ref] for ref in (*line.refs, model.ANY_PRODUCT) if ref in by_product)
    return next(found, None)
