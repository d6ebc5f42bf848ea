"""A vendor's books: what must be true of licenses, places, usage, mails and webhooks, after the documents.

Nothing here knows Keywright's code. Each call of a program or a shop is written down with its moment, and
answered with what Keywright has to answer.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

DAY = timedelta(days=1)
#: A period is closed an hour after its end (docs/how-to/sell-usage.md).
CLOSES_AFTER = timedelta(hours=1)
#: Days before an expiry at which customers are reminded; 0 is the expiry.
REMINDERS = (7, 1, 0)
#: A full license is reported again after so long (docs/how-to/receive-webhooks.md).
FULL_AGAIN_AFTER = 30 * DAY


@dataclass(frozen=True)
class Offer:
    """What the vendor sells: its places, its leases, and the limit of each meter with whether more is allowed
    (``calls`` count by day, ``pages`` by month).
    """

    places: int | None = None
    leases: int | None = None
    meters: dict[str, tuple[int, bool]] = field(default_factory=dict)
    is_subscription: bool = False


OFFERS = {
    "pro": Offer(places=2, meters={"pages": (50, False), "calls": (10, True)}),
    "plan": Offer(places=2, is_subscription=True),
    "floating": Offer(leases=2, is_subscription=True),
}


def period_of(meter: str, at: datetime) -> tuple[datetime, datetime]:
    """The beginning and the end of the meter's period."""
    today = datetime(at.year, at.month, at.day, tzinfo=UTC)
    if meter == "calls":
        return today, today + DAY
    return today.replace(day=1), (today.replace(day=28) + 4 * DAY).replace(day=1)


@dataclass
class Sold:
    """A license, as the vendor's books have it."""

    order: str
    product: str
    places: int | None
    until: datetime | None = None
    key: str = ""
    number: int = 0
    is_disabled: bool = False
    devices: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    used: dict[tuple[str, datetime], int] = field(default_factory=dict)
    closed: set[tuple[str, datetime]] = field(default_factory=set)
    #: The webhooks about it, in their order.
    events: list[str] = field(default_factory=lambda: ["license.created"])
    #: The limit at which it was reported as full, and when.
    full: tuple[int, datetime] | None = None
    reminded: set[tuple[int, datetime]] = field(default_factory=set)

    @property
    def email(self) -> str:
        """The address of the buyer."""
        return f"{self.order}@example.com"

    @property
    def offer(self) -> Offer:
        return OFFERS[self.product]

    def refusal(self, at: datetime) -> str | None:
        """Why its programs are refused; None: they are not."""
        if self.is_disabled:
            return "disabled"
        return "expired" if self.until is not None and at >= self.until else None


class Ledger:
    """All licenses, and the mails that customers have got: how many, by address and kind."""

    def __init__(self) -> None:
        self.sold: dict[str, Sold] = {}
        self.mails: Counter[tuple[str, str]] = Counter()
        self.sign_ins = 0
        self.newest_release: str | None = None

    @property
    def webhooks(self) -> int:
        """How many there are in all."""
        return sum(len(one.events) for one in self.sold.values())

    def sell(self, order: str, product: str, until: datetime | None) -> Sold:
        """A sale of one license."""
        one = self.sold[order] = Sold(order, product, OFFERS[product].places, until)
        self._mail(one, "sold")
        return one

    def renew(self, one: Sold, until: datetime) -> None:
        """A payment for another period."""
        one.until = until
        one.events += ["license.updated", "license.renewed"]
        self._mail(one, "renewed")

    def change_seats(self, one: Sold, quantity: int) -> None:
        """The subscription has so many units from now on, another number than before."""
        one.places = (one.offer.places or 0) * quantity
        one.events += ["license.updated", "license.changed"]
        self._mail(one, "changed")

    def change_by_hand(self, one: Sold, *, places: int | None = None, is_disabled: bool = False) -> None:
        """The vendor gives it more places, or disables it; a refund disables it, too."""
        one.places, one.is_disabled = places or one.places, is_disabled
        one.events.append("license.updated")

    def activate(self, one: Sold, device: str, at: datetime) -> str | None:
        """A device asks for a place; returns why it is refused."""
        if (refusal := one.refusal(at)) is not None:
            return refusal
        if device in one.devices:
            return None
        if one.places is not None and len(one.devices) >= one.places:
            if one.full is None or one.full[0] != one.places or at - one.full[1] >= FULL_AGAIN_AFTER:
                one.full = one.places, at
                one.events.append("license.limit_reached")
            return "limit_reached"
        one.events.append("license.reactivated" if device in one.seen else "license.activated")
        one.devices.add(device)
        one.seen.add(device)
        return None

    def deactivate(self, one: Sold, device: str) -> None:
        """A device gives up the place that it holds."""
        one.devices.remove(device)
        one.events.append("license.deactivated")

    def count(self, one: Sold, meter: str, amount: int, at: datetime) -> str | None:
        """A program counts usage; returns why it is refused."""
        if (refusal := one.refusal(at)) is not None:
            return refusal
        limit, is_more_allowed = one.offer.meters[meter]
        period = meter, period_of(meter, at)[0]
        before = one.used.get(period, 0)
        if before + amount > limit and not is_more_allowed:
            return "usage_exceeded"
        one.used[period] = before + amount
        if any(before * 100 < part * limit <= (before + amount) * 100 for part in (80, 100)):
            one.events.append("usage.threshold")
        return None

    def pass_time(self, now: datetime) -> None:
        """Close what is over, and remind of what will be, as of this moment."""
        for one in self.sold.values():
            for period in one.used.keys() - one.closed:
                if period_of(*period)[1] + CLOSES_AFTER <= now:
                    one.closed.add(period)
                    one.events.append("usage.period_closed")
            for days in self._due(one, now):
                one.reminded.add((days, one.until or now))
                one.events.append("license.expiring" if days else "license.expired")
                self._mail(one, "expiring" if days else "expired")

    def _due(self, one: Sold, now: datetime) -> Iterator[int]:
        """The last of the moments that have come, if nobody was told of it."""
        if one.until is None or one.is_disabled:
            return
        come = [days for days in REMINDERS if now >= one.until - days * DAY]
        if come and (min(come), one.until) not in one.reminded:
            yield min(come)

    def _mail(self, one: Sold, kind: str) -> None:
        self.mails[one.email, kind] += 1
