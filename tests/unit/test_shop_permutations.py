"""The same events of a shop, in any order and repeated, end in the same licenses. The rules are the real
ones; what keeps facts and licenses is a model.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations
from random import Random
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from keywright.core.errors import ShopRefused
from keywright.licensing.licenses.model import License, Status
from keywright.provisioning.shops import event_rules, rules
from keywright.provisioning.shops.model import (
    Fact,
    Payment,
    Renewal,
    Sale,
    SaleLine,
    SaleState,
    Shop,
    SoldLicense,
    StateChange,
    Subscription,
)
from keywright.provisioning.shops.modules import MODULES
from tests.makers import a_license
from tests.proving import IS_LONG, record, size
from tests.shop_apis import RecordedApi
from tests.shop_events import names, recorded
from tests.unit.test_shop_readings import NOW, connection

Change = Sale | Renewal | StateChange
#: What a live license is: its line and number, its status, limit and expiry.
Live = tuple[str, int, int, int | None, datetime | None]
#: The random sets of each shop, and those of its recorded events; the most orders of a set in the short form.
RANDOM, RECORDED, MOST_ORDERS = size(25, 4_000), size(15, 400), 24
SHOPS = tuple(Shop)
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
ENDS = [BEGIN + timedelta(days=30 * number) for number in (1, 2, 3)]
ACTIVE, GRACE, SUSPENDED, ENDED, REFUNDED = SaleState


class Told(NamedTuple):
    """A change, and when it happened by the shop's clock, in milliseconds."""

    change: Change
    at: int


class Model:
    """What a connection keeps, and its licenses: ``Selling`` without a database."""

    def __init__(self, terms_expire_at: datetime | None) -> None:
        self._payments: dict[str, Payment] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._sold: dict[tuple[str, str, int], SoldLicense] = {}
        self._licenses: dict[int, License] = {}
        self._terms_expire_at = terms_expire_at

    def tell(self, change: Change, at: int) -> None:
        ref = rules.payment_ref(change)
        payment = None if ref is None else self._payments.get(ref)
        subscription = change.subscription or (None if payment is None else payment.subscription)
        payments = {
            one.order: one
            for one in self._payments.values()
            if one is payment or (subscription is not None and one.subscription == subscription)
        }
        known = rules.Known(payments, self._subscriptions.get(subscription or ""))
        known = rules.learn(known, change, at)
        self._payments |= known.payments
        if known.subscription is not None:
            self._subscriptions[known.subscription.ref] = known.subscription
        want = rules.wanted(known)
        for place, sold in self._sold.items():
            if sold.order == change.order or (subscription and sold.subscription == subscription):
                self._sold[place] = self._change(sold, want)
        if isinstance(change, Sale):
            self._make(change, want)

    def _change(self, sold: SoldLicense, want: rules.Wanted) -> SoldLicense:
        decided = rules.decide(sold, self._licenses[sold.license_id], want)
        assert not decided.is_refused
        self._licenses[sold.license_id] = replace(self._licenses[sold.license_id], **decided.changes)
        return decided.sold

    def _make(self, sale: Sale, want: rules.Wanted) -> None:
        for line in sale.lines:
            for number in range(line.quantity):
                place = sale.order, line.number, number
                if place not in self._sold:
                    license_id, expires_at = len(self._sold), want.expiry(self._terms_expire_at)
                    self._licenses[license_id] = a_license(
                        id=license_id, status=want.status, expires_at=expires_at
                    )
                    self._sold[place] = SoldLicense(
                        order=sale.order,
                        line=line.number,
                        number=number,
                        license_id=license_id,
                        subscription=sale.subscription,
                        status=want.status,
                        expires_at=expires_at,
                        terms_expire_at=self._terms_expire_at,
                    )

    def live(self) -> frozenset[Live]:
        found = [
            (f"{sold.order} {sold.line}", sold.number, self._licenses[sold.license_id])
            for sold in self._sold.values()
        ]
        return frozenset(
            (line, number, one.status, one.times_activated_max, one.expires_at)
            for line, number, one in found
            if one.status != Status.DISABLED
        )


# --- what shops say -------------------------------------------------------------------------------


def a_sale(order: str, subscription: str | None, until: datetime | None = None) -> Sale:
    lines = (SaleLine(f"{order}-1", ("a",), 2), SaleLine(f"{order}-2", ("b",)))
    return Sale(order=order, lines=lines, subscription=subscription, until=until)


def paid(subscription: str, until: datetime, order: str | None = None) -> Renewal:
    return Renewal(subscription=subscription, until=until, order=order)


def states(
    *known: SaleState, order: str | None = None, subscription: str | None = None, fact: Fact = Fact.ORDER
) -> list[Change]:
    return [StateChange(state=one, order=order, subscription=subscription, fact=fact) for one in known]


def facts(*orders: str) -> list[Change]:
    found: list[Change] = []
    for order in orders:
        found += states(REFUNDED, ACTIVE, order=order, fact=Fact.REFUND)
        found += states(SUSPENDED, ACTIVE, REFUNDED, order=order, fact=Fact.DISPUTE)
    return found


def vocabulary(shop: Shop) -> tuple[list[Sale], list[Change]]:
    """The sales of a shop, and what else it can say of them."""
    match shop:
        case Shop.STRIPE:
            renewals = [paid("s", ENDS[i], f"in{i}") for i in range(3)]
            others = [*renewals, *states(ACTIVE, GRACE, SUSPENDED, ENDED, subscription="s")]
            return [a_sale("in0", "s"), a_sale("pi", None)], [*others, *facts("in0", "in1", "pi")]
        case Shop.PADDLE:
            renewals = [paid("s", ENDS[i], f"t{i}") for i in (1, 2)]
            others = [*renewals, *states(ACTIVE, GRACE, SUSPENDED, ENDED, subscription="s")]
            return [a_sale("t0", "s", ENDS[0]), a_sale("t9", None)], [*others, *facts("t0", "t1", "t9")]
        case Shop.WOOCOMMERCE:
            periods = [paid("1", end) for end in ENDS]
            others = [*periods, paid("1", ENDS[1], "2"), *states(ACTIVE, GRACE, ENDED, subscription="1")]
            whole = [one for order in "12" for one in states(SUSPENDED, REFUNDED, order=order)]
            return [a_sale("1", "1")], [a_sale("1", "1"), *others, *whole]
        case Shop.LEMONSQUEEZY:
            periods = [paid("1", end) for end in ENDS]
            others = [*periods, paid("1", ENDS[1], "invoices/2"), *facts("1", "invoices/2")]
            found = states(GRACE, SUSPENDED, ENDED, subscription="1")
            return [a_sale("1", "1")], [*others, *found, *states(SUSPENDED, order="1")]
    sales = [a_sale("a", "s"), a_sale("a", "s", ENDS[0]), a_sale("b", "s"), a_sale("c", None)]
    renewals = [*(paid("s", end) for end in ENDS), paid("s", ENDS[1], "r"), paid("s", ENDS[2], "q")]
    found = states(*SaleState, subscription="s") + states(*SaleState, order="a") + states(ENDED, order="c")
    return sales, [*sales, *renewals, *found, *facts("a", "b", "r")]


def random_sets(shop: Shop, random: Random) -> Iterator[list[Told]]:
    sales, others = vocabulary(shop)
    for _ in range(RANDOM):
        changes = [random.choice(sales), *random.choices(others, k=random.randint(1, 5))]
        # Close together: shops say two things in one second.
        begin = event_rules.to_milliseconds(BEGIN)
        moments = [begin + random.randrange(6) * 86_400_000 for _ in changes]
        yield [Told(*one) for one in zip(changes, moments, strict=True)]


def recorded_sets(shop: Shop, random: Random) -> Iterator[list[Told]]:
    """Sets of the events in tests/data/shops, with what the shop's API adds."""
    known, api = list[Told](), RecordedApi(shop)
    for name in () if shop is Shop.GENERIC else names(shop):
        if name == "ping":
            continue
        found = recorded(shop, name)
        event = MODULES[shop].read(found.headers, found.body, connection(shop))
        try:
            event = MODULES[shop].complete(event, api) if event.needs_api else event
        except ShopRefused:
            continue
        if isinstance(event.change, Sale | Renewal | StateChange):
            known.append(Told(event.change, event_rules.to_milliseconds(event.at or NOW)))
    sales = [one for one in known if isinstance(one.change, Sale)]
    for _ in range(RECORDED if sales else 0):
        yield [random.choice(sales), *random.sample(known, random.randint(1, 5))]


# --- the check ------------------------------------------------------------------------------------


def list_orders(events: Sequence[Told], random: Random) -> Iterator[list[Told]]:
    """Every order of these events; in the short form, some."""
    if IS_LONG:
        yield from map(list, permutations(events))
        return
    for _ in range(MOST_ORDERS):
        yield random.sample(events, len(events))


def end_of(order: Sequence[Told], terms_expire_at: datetime | None) -> set[frozenset[Live]]:
    """What an order ends as, and the same once all of it was repeated, the last one first."""
    model = Model(terms_expire_at)
    for one in order:
        model.tell(*one)
    ends = {model.live()}
    for one in reversed(order):
        model.tell(*one)
    return ends | {model.live()}


class Checked(NamedTuple):
    """The orders of events that were tried, and the sets that did not always end alike."""

    orders: int
    bad: list[list[Told]]


def check(shop: Shop, random: Random) -> Checked:
    orders, bad = 0, list[list[Told]]()
    for events in (*random_sets(shop, random), *recorded_sets(shop, random)):
        ends, terms_expire_at = set[frozenset[Live]](), random.choice((None, ENDS[2]))
        for order in list_orders(events, random):
            ends |= end_of(order, terms_expire_at)
            orders += 1
        if len(ends) > 1:
            bad.append(events)
    return Checked(orders, bad)


@pytest.mark.parametrize("shop", SHOPS, ids=str)
def test_any_order_of_the_same_events_ends_in_the_same_licenses(shop: Shop) -> None:
    found = check(shop, Random(26))
    counted = {"permutations": found.orders, "sets with another end": len(found.bad)}
    record("R23", f"{shop}, any order", counted)
    assert found.bad[:1] == []


def test_control_without_the_shops_time_the_order_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    learn, arrivals = rules.learn, iter(range(10**9))
    monkeypatch.setattr(rules, "learn", lambda known, change, _at: learn(known, change, next(arrivals)))
    found = check(Shop.STRIPE, Random(26))
    record("R23", "control: the newest word wins", {"sets found": len(found.bad)})
    assert found.bad
