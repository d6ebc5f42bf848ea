"""What the events of a shop make of payments, subscriptions and licenses. Pure.

Events may come twice, late, and in any order: what is kept are facts with the shop's own time, and what a
license should be is derived from all of them.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from keywright.core.errors import UnreadableEvent
from keywright.core.parsing import MAX_COUNT, is_storable
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.licenses.rules import END_OF_TIME
from keywright.provisioning.customers.rules import parse_language
from keywright.provisioning.shops.model import (
    ANY_PRODUCT,
    Buyer,
    Change,
    MappedProduct,
    Payment,
    Reason,
    Renewal,
    Sale,
    SaleLine,
    SaleState,
    ShopEvent,
    SoldLicense,
    StateChange,
    Subscription,
)

#: The most characters of the texts by which a shop names things.
MAX_REF = 255
MAX_TITLE = 200
#: The most licenses, and the most lines, of one order.
MAX_LICENSES, MAX_LINES = 1_000, 100
#: How long each wait before another attempt is: while the shop's API does not answer, and while the sale that
#: an event is about has not come.
_FIRST_DELAY, _LONGEST_DELAY = timedelta(seconds=10), timedelta(hours=1)
_MAX_SHOP_ATTEMPTS, _MAX_SALE_ATTEMPTS = 80, 9
#: More attempts than any reason has: something keeps them from coming to an end.
MAX_ATTEMPTS = 100
Fact = TypeVar("Fact", Payment, Subscription)


class Unset(Enum):
    """No value: nothing is said about an expiry."""

    UNSET = "unset"


UNSET = Unset.UNSET


class Wanted(NamedTuple):
    """What a license should be, as far as the shop says."""

    status: Status
    expires_at: datetime | Unset = UNSET


class Decided(NamedTuple):
    """The changes of a license, and what the shop has now said of it. ``is_refused``: a change would undo
    what was done by hand; ``is_kept``: the license keeps a later expiry that was set by hand.
    """

    changes: Mapping[str, Any]
    sold: SoldLicense
    is_refused: bool = False
    is_kept: bool = False


# --- events ---------------------------------------------------------------------------------------


def require_usable(event: ShopEvent) -> ShopEvent:
    """The event, its name and titles cut to what is kept. Raises ``UnreadableEvent`` for texts that cannot be
    kept, and moments that no license has.
    """
    _require_refs([event.id])
    change = event.change
    if isinstance(change, Sale):
        _require_refs([change.order, change.subscription, *(line.number for line in change.lines)])
        if len(change.lines) > MAX_LINES:
            raise UnreadableEvent(f"the order has more than {MAX_LINES} lines")
        if len({line.number for line in change.lines}) < len(change.lines):
            raise UnreadableEvent("two lines of the order have the same number")
        change = replace(
            change,
            lines=tuple(map(_cut_line, change.lines)),
            buyer=None if change.buyer is None else _cut_buyer(change.buyer),
            until=_whole_seconds(change.until),
        )
    elif isinstance(change, Renewal):
        _require_refs([change.subscription, change.order])
        change = replace(change, until=_whole_seconds(change.until))
    elif isinstance(change, StateChange):
        _require_refs([change.order, change.subscription])
        if (change.order is None) == (change.subscription is None):
            raise UnreadableEvent("a state is of an order or of a subscription")
    return replace(event, name=_cut(event.name, 100), change=change)


def _require_refs(texts: Collection[str | None]) -> None:
    for text in texts:
        if text is not None and not (0 < len(text) <= MAX_REF and is_storable(text)):
            raise UnreadableEvent(f"a number or an ID is empty or has more than {MAX_REF} characters")


def _cut(text: str, most: int) -> str:
    return "".join(filter(str.isprintable, text))[:most]


def _cut_line(line: SaleLine) -> SaleLine:
    """The line without references that no mapping can name."""
    refs = tuple(one for one in line.refs if 0 < len(one) <= MAX_REF and is_storable(one))
    return replace(line, refs=refs, title=_cut(line.title, MAX_TITLE))


def _cut_buyer(buyer: Buyer) -> Buyer:
    name = _cut(buyer.name or "", MAX_TITLE).strip() or None
    return replace(buyer, name=name, language=_language_of(buyer))


def _language_of(buyer: Buyer) -> str | None:
    try:
        return parse_language(buyer.language or "")
    except ValueError:
        return None


def _whole_seconds(moment: datetime | None) -> datetime | None:
    """None for a moment beyond the calendar of licenses, too: it is never."""
    if moment is None or moment >= END_OF_TIME:
        return None if moment is None else END_OF_TIME
    return moment.replace(microsecond=0)


def order_of(change: Change) -> str | None:
    """The order that a change is about, or its subscription; that of a renewal, whose sale has another."""
    order, subscription = getattr(change, "order", None), getattr(change, "subscription", None)
    return subscription if isinstance(change, Renewal) else order or subscription


def to_milliseconds(moment: datetime) -> int:
    """Milliseconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def next_delay(reason: Reason, attempts: int, pause: timedelta = timedelta(0)) -> timedelta | None:
    """The wait before another attempt after so many, as long as the ``pause`` that the shop asks for, within
    bounds; None when a person has to look.
    """
    most = {Reason.SHOP_UNAVAILABLE: _MAX_SHOP_ATTEMPTS, Reason.UNKNOWN_ORDER: _MAX_SALE_ATTEMPTS}
    if attempts >= most.get(reason, 0):
        return None
    doubled: int = 2 ** min(max(attempts, 1) - 1, 10)
    return min(max(_FIRST_DELAY * doubled, pause), _LONGEST_DELAY)


# --- facts ----------------------------------------------------------------------------------------


def add_payment(
    before: Payment | None, order: str, subscription: str | None, until: datetime | None, at: int
) -> Payment:
    """What is known of a payment after an event that says it was made. It is good since then, unless a newer
    event has said otherwise.
    """
    known = before or Payment(order=order)
    untils = [one for one in (known.until, until) if one is not None]
    paid = replace(
        known,
        subscription=known.subscription or subscription,
        paid_at=at if known.paid_at is None else min(known.paid_at, at),
        until=max(untils, default=None),
    )
    return with_state(paid, SaleState.ACTIVE, at)


def with_state(known: Fact, state: SaleState, at: int) -> Fact:
    """With this state, if it is newer by the shop's clock; at the same moment, the worse one."""
    is_newer = at > known.state_at or (at == known.state_at and _RANK[state] > _RANK[known.state])
    return replace(known, state=state, state_at=at) if is_newer else known


_RANK = {state: rank for rank, state in enumerate(SaleState)}


# --- licenses -------------------------------------------------------------------------------------


def period_ref(subscription: str, until: datetime) -> str:
    """Under what a period is kept whose payment the shop does not name."""
    return f"{subscription} {until:%Y-%m-%d %H:%M:%S}"


def _is_period(payment: Payment) -> bool:
    subscription, until = payment.subscription, payment.until
    return subscription is not None and until is not None and payment.order == period_ref(subscription, until)


def wanted(payments: Collection[Payment], subscription: Subscription | None) -> Wanted:
    """What the licenses should be that were bought with the first of these payments, and renewed with the
    others. The newest payment that was not refunded says until when.
    """
    paid = sorted(payments, key=lambda one: (one.paid_at or 0, one.until or END_OF_TIME))
    named = [one for one in paid if not _is_period(one)]
    good = [one for one in named if one.state is not SaleState.REFUNDED]
    periods = _unrefunded_periods(paid)
    if not (good or periods) or (subscription is not None and subscription.state is SaleState.REFUNDED):
        return Wanted(Status.DISABLED)
    untils = [one.until for one in paid if one.until is not None and (one in good or one in periods)]
    until: datetime | Unset = untils[-1] if untils else UNSET
    states = [(one.state, one.state_at) for one in (subscription, *good[-1:]) if one is not None]
    if any(state is SaleState.SUSPENDED for state, _ in states):
        return Wanted(Status.INACTIVE, until)
    ended = [state_at for state, state_at in states if state is SaleState.ENDED]
    if ended:
        end = datetime.fromtimestamp(ended[0] // 1000, UTC)
        return Wanted(Status.ACTIVE, end if until is UNSET else min(until, end))
    return Wanted(Status.ACTIVE, until)


def _unrefunded_periods(paid: Collection[Payment]) -> list[Payment]:
    """The periods, but for those whose payments were refunded: where these do not say which, the earliest."""
    periods = sorted(filter(_is_period, paid), key=lambda one: one.until or END_OF_TIME)
    for refunded in (one for one in paid if one.state is SaleState.REFUNDED and not _is_period(one)):
        is_its = (i for i, one in enumerate(periods) if refunded.until in (None, one.until))
        place = next(is_its, None)
        if place is not None:
            del periods[place]
    return periods


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
    now_sold = replace(sold, status=int(want.status))
    if want.expires_at is not UNSET and want.expires_at != sold.expires_at:
        expires_at = _decide_expiry(sold, license, want.expires_at, is_forced=is_forced)
        if expires_at is UNSET:
            return Decided({}, sold, is_refused=True)
        if expires_at != license.expires_at:
            changes["expires_at"] = expires_at
        is_kept = expires_at != want.expires_at
        now_sold = replace(now_sold, expires_at=want.expires_at)
    return Decided(changes, now_sold, is_kept=is_kept)


def _decide_expiry(
    sold: SoldLicense, license: License, want: datetime, *, is_forced: bool
) -> datetime | Unset | None:
    """The expiry that the license gets; ``UNSET`` where that would undo what was done by hand."""
    # Where the shop has said none, the terms may have given one since, with the first activation.
    is_by_hand = sold.expires_at is not None and license.expires_at != sold.expires_at
    if not is_by_hand or is_forced:
        return want
    if sold.expires_at is not None and want < sold.expires_at and license.expires_at != want:
        return UNSET
    if license.expires_at is None or license.expires_at >= want:
        return license.expires_at
    return want


def find_mapped(mapping: Collection[MappedProduct], line: SaleLine) -> MappedProduct | None:
    """What this line makes: by the first of its refs that the mapping has, or by the entry for any."""
    by_product = {one.product: one for one in mapping}
    found = (by_product[ref] for ref in (*line.refs, ANY_PRODUCT) if ref in by_product)
    return next(found, None)


def multiply_limit(limit: int, quantity: int) -> int:
    """The limit of a license for so many times the devices; at most what a license can have."""
    return min(limit * quantity, MAX_COUNT)
