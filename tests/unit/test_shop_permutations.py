"""The same events of a shop, in any order and repeated, end in the same licenses. The rules are the real
ones; what keeps facts and licenses is a model.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations
from random import Random
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from keywright.core.errors import ShopRefused
from keywright.licensing.licenses.handlers import fields_of
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.licenses.rules import expiry_of_new
from keywright.licensing.terms.model import Terms
from keywright.provisioning.shops import event_rules, rules
from keywright.provisioning.shops.line_rules import list_lines
from keywright.provisioning.shops.model import (
    Fact,
    Lines,
    MappedProduct,
    OnCancel,
    QuantityRule,
    Renewal,
    Sale,
    SaleLine,
    SaleState,
    Shop,
    StateChange,
)
from keywright.provisioning.shops.payloads import MODULES
from keywright.provisioning.shops.sold_model import Payment, SoldLicense, SoldLine, Subscription
from keywright.provisioning.shops.unit_rules import (
    Held,
    NewUnits,
    Unit,
    build_resolver,
    decide,
    plan,
    terms_for,
)
from tests.makers import NOW as LICENSED_AT
from tests.makers import a_license, a_policy
from tests.proving import IS_LONG, record, size
from tests.shop_apis import RecordedApi
from tests.shop_events import names, recorded
from tests.unit.test_shop_readings import NOW, connection

Change = Sale | Renewal | StateChange | Lines
#: What live licenses are: their line, policy, status, terms and expiry; and how many.
Live = tuple[tuple[object, int | None, int, object, datetime | None], int]
#: The random sets of each shop, and those of its recorded events; the most orders of a set in the short form.
RANDOM, RECORDED, MOST_ORDERS = size(25, 4_000), size(15, 400), 24
SHOPS = tuple(Shop)
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
ENDS = [BEGIN + timedelta(days=30 * number) for number in (1, 2, 3)]
#: When what is live is looked at.
END = BEGIN + timedelta(days=10)
ACTIVE, GRACE, SUSPENDED, ENDED, REFUNDED = SaleState
#: "a" and "c" are of one product, "b" and "d" of two others; nothing is known of "x".
POLICIES = {
    number: a_policy(
        id=number, product_id=product, terms=Terms(max_activations=limit, valid_for_days=days, grace_days=7)
    )
    for number, product, limit, days in ((1, 1, 2, None), (2, 2, 3, 90), (3, 1, 5, 365), (4, 3, None, None))
}
MAPPING = (
    MappedProduct("a", 1),
    MappedProduct("b", 2, QuantityRule.DEVICES),
    MappedProduct("c", 3),
    MappedProduct("d", 4, QuantityRule.DEVICES),
    MappedProduct("none"),
)


class Told(NamedTuple):
    """A change, and when it happened by the shop's clock, in milliseconds."""

    change: Change
    at: int


class Model:
    """What a connection keeps, and its licenses: ``Selling`` without a database."""

    def __init__(self, mapping: Sequence[MappedProduct]) -> None:
        self._mapping = mapping
        self._payments: dict[str, Payment] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._lines: dict[tuple[str, str], SoldLine] = {}
        self._sold: dict[tuple[str, str, int, int], SoldLicense] = {}
        self._licenses: dict[int, License] = {}

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
        self._hold(known, getattr(change, "order", None), subscription)

    def _hold(self, known: rules.Known, order: str | None, subscription: str | None) -> None:
        def is_of(one: SoldLine | SoldLicense) -> bool:
            return one.order == order or (subscription is not None and one.subscription == subscription)

        units = [units_of(one, self._licenses[one.license_id]) for one in self._sold.values() if is_of(one)]
        held = Held([one for one in self._lines.values() if is_of(one)], units)
        lines = list_lines(known, build_resolver(self._mapping, held, POLICIES.get))
        todo = plan(known, lines, held, OnCancel.PAID_UNTIL, END)
        for line in todo.lines:
            self._lines[line.order, line.line] = replace(line, subscription=subscription)
        for unit, aim in todo.aims:
            assert unit.license is not None
            decided = decide(unit, unit.license, aim)
            assert not decided.is_refused
            sold, changes = decided.sold, dict(decided.changes)
            if decided.written is not None:
                assert not decided.written.kept
                changes |= fields_of(decided.written.terms)
            self._licenses[sold.license_id] = replace(unit.license, **changes)
            self._sold[sold.order, sold.line, sold.number, sold.item] = sold
        for new in todo.new:
            self._make(new, subscription)

    def _make(self, new: NewUnits, subscription: str | None) -> None:
        aim, policy = new.aim, new.aim.policy
        assert policy is not None
        for number in range(new.first, new.first + new.amount):
            place = new.line.order, new.line.line, number, new.item
            assert place not in self._sold
            of_terms = expiry_of_new(policy.terms, LICENSED_AT)
            license_id, expires_at = len(self._sold), aim.wanted.expiry(of_terms)
            terms = terms_for(policy, aim.quantity, has_grace=aim.wanted.has_grace)
            self._licenses[license_id] = a_license(
                id=license_id,
                status=aim.wanted.status,
                expires_at=expires_at,
                policy_id=policy.id,
                quantity=aim.quantity,
                **fields_of(terms),
            )
            self._sold[place] = SoldLicense(
                order=new.line.order,
                line=new.line.line,
                number=number,
                item=new.item,
                license_id=license_id,
                subscription=subscription,
                status=aim.wanted.status,
                expires_at=expires_at,
                terms_expire_at=of_terms,
                policy_id=policy.id,
                quantity=aim.quantity,
                has_grace=aim.wanted.has_grace,
            )

    def live(self) -> frozenset[Live]:
        """The licenses that are not over, by their lines."""
        found = Counter(
            (
                (line.listed_in, line.listed_as),
                one.policy_id,
                one.status,
                (one.times_activated_max, one.terms),
                one.expires_at,
            )
            for sold in self._sold.values()
            for one, line in ((self._licenses[sold.license_id], self._lines[sold.order, sold.line]),)
            if one.status != Status.DISABLED and (one.expires_at is None or one.expires_at > END)
        )
        return frozenset(found.items())


def units_of(sold: SoldLicense, license: License) -> Unit:
    return Unit(sold, license, POLICIES.get(sold.policy_id or 0), POLICIES.get(license.policy_id or 0))


# --- what shops say -------------------------------------------------------------------------------


def a_sale(
    order: str,
    subscription: str | None,
    until: datetime | None = None,
    recurs: Sequence[bool | None] = (True, True),
) -> Sale:
    lines = (
        SaleLine(f"{order}-1", ("a", "p"), 2, recurs=recurs[0]),
        SaleLine(f"{order}-2", ("b", "q"), recurs=recurs[-1]),
    )
    return Sale(order=order, lines=lines[: len(recurs)], subscription=subscription, until=until)


def told(subscription: str, *shapes: str, part: str = "", **fields: Any) -> list[Change]:
    """What a subscription tells: lines like ``1a5``, its number, price and quantity."""
    return [
        Lines(
            subscription=subscription,
            part=part,
            lines=tuple(
                SaleLine(f"{part}si{one[0]}", (one[1], *_PRODUCTS.get(one[1], ())), int(one[2:]))
                for one in shape.split()
            ),
            **fields,
        )
        for shape in shapes
    ]


_PRODUCTS = {"a": ("p",), "b": ("q",), "c": ("p",), "d": ("r",)}
#: Up and down, another price of the same product and of another one, one that nothing is known of, one that
#: makes nothing, a line more, a line less, and one in the place of another.
SHAPES = (
    *("1a2 2b1", "1a5 2b1", "1a1 2b6", "1a0 2b2", "1c3 2b1", "1d2 2b1", "1x4 2b3", "1n1 2b1"),
    *("1a2 2b1 3d2", "1a3", "2b2", "4c2 2b1", "4x1 2b1", "5d1"),
)


def paid(subscription: str, until: datetime | None, order: str | None = None) -> Renewal:
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
            renewals = [paid("s", ENDS[i], f"in{i}") for i in range(3)] + [paid("s", None, "in9")]
            others = [*renewals, *states(ACTIVE, GRACE, SUSPENDED, ENDED, subscription="s")]
            others += told("s", *SHAPES) + told("s", *SHAPES, state=ACTIVE)
            return [a_sale("in0", "s"), a_sale("pi", None)], [*others, *facts("in0", "in1", "pi", "in9")]
        case Shop.PADDLE:
            renewals = [paid("s", ENDS[i], f"t{i}") for i in (1, 2)] + [paid("s", None, "t8")]
            renewals += [replace(paid("s", ENDS[2], "t7"), is_change=True)]
            others = [*renewals, *states(ACTIVE, GRACE, SUSPENDED, ENDED, subscription="s")]
            # The second line is paid once, and no price has a number of its own.
            others += told("s", "1a2", "1a5", "1a1", "3c2", "4d2", "5x2", "3c1 1a2", state=ACTIVE)
            sales = [a_sale("t0", "s", ENDS[0], (True, False)), a_sale("t9", None)]
            return sales, [*others, *facts("t0", "t1", "t9", "t8", "t7")]
        case Shop.WOOCOMMERCE:
            periods = [paid("1", end) for end in ENDS]
            others = [*periods, paid("1", ENDS[1], "2"), *states(ACTIVE, GRACE, ENDED, subscription="1")]
            others += told("1", *SHAPES, part="11") + told("1", "1a1", "2b3", part="12", until=ENDS[1])
            whole = [one for order in "12" for one in states(SUSPENDED, REFUNDED, order=order)]
            sale = a_sale("1", "1", recurs=(None, None))
            more = replace(sale.lines[0], quantity=4)
            edited = [replace(sale, lines=(more, sale.lines[1])), replace(sale, lines=(more,))]
            return [sale], [sale, *edited, *others, *whole]
        case Shop.LEMONSQUEEZY:
            periods = [paid("1", end) for end in ENDS]
            others = [*periods, paid("1", ENDS[1], "invoices/2"), *facts("1", "invoices/2")]
            others += states(GRACE, SUSPENDED, ENDED, subscription="1")
            for end in ENDS:
                others += told("1", "1a2", "1a5", "1a1", "1c2", "1d1", "1x3", until=end)
            return [a_sale("1", "1", recurs=(True,))], [*others, *states(SUSPENDED, order="1")]
    sales = [a_sale("a", "s"), a_sale("a", "s", ENDS[0]), a_sale("b", "s"), a_sale("c", None)]
    renewals = [*(paid("s", end) for end in ENDS), paid("s", ENDS[1], "r"), paid("s", ENDS[2], "q")]
    found = states(*SaleState, subscription="s") + states(*SaleState, order="a") + states(ENDED, order="c")
    return sales, [*sales, *renewals, *found, *facts("a", "b", "r"), *told("s", *SHAPES)]


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
        event = MODULES[shop].read(found.headers, found.body, connection(shop))[0]
        try:
            event = MODULES[shop].complete(event, api) if event.needs_api else event
        except ShopRefused:
            continue
        if isinstance(event.change, Change):
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


def end_of(order: Sequence[Told], mapping: Sequence[MappedProduct]) -> set[frozenset[Live]]:
    """What an order ends as, and the same once all of it was repeated, the last one first."""
    model = Model(mapping)
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
    sets: list[tuple[Sequence[MappedProduct], list[Told]]] = [
        (MAPPING, one) for one in random_sets(shop, random)
    ]
    sets += [((MappedProduct("*", 1),), one) for one in recorded_sets(shop, random)]
    for mapping, events in sets:
        ends = set[frozenset[Live]]()
        for order in list_orders(events, random):
            ends |= end_of(order, mapping)
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
