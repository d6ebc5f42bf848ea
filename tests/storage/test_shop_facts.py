"""Payments are facts: paid, refunded, disputed, each with the shop's time. All together determine the
licenses.
"""

from datetime import datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from keywright.core.errors import UnknownConnection
from keywright.db import Storage
from keywright.engine.executor import Executor
from keywright.licensing.licenses.model import DeleteLicense, Status
from keywright.licensing.undo.rules import RestoreLicense
from keywright.provisioning.shops import sold_store
from keywright.provisioning.shops.commands import (
    ListRemovedSales,
    RemoveConnection,
    TakeOverSales,
    TryAgain,
)
from keywright.provisioning.shops.model import (
    Change,
    EventState,
    Fact,
    MappedProduct,
    QuantityRule,
    Reason,
    RemovedSales,
    SaleLine,
    SaleState,
    Shop,
)
from tests.connections import CONTEXT, a_renewal, a_sale, a_state, ask, connect, do, receive
from tests.makers import NOW, create_policy
from tests.shop_scene import Scene, day
from tests.storage.stored import got, list_licenses, set_mapping, the_events

DATABASES = ("sqlite",)
# Each event takes several transactions.
pytestmark = pytest.mark.tier("ordinary")

DAY = timedelta(days=1)
MONTH, TWO_MONTHS = NOW + 30 * DAY, NOW + 60 * DAY


@pytest.fixture
def shop(executor: Executor) -> Executor:
    """Connection 1 sells the product "pro" with policy 1, which never expires, and "year" with policy 2."""
    do(executor, create_policy(terms={"max_activations": 3}))
    do(executor, create_policy(terms={"valid_for_days": 365}))
    connect(executor, mapping=(MappedProduct("pro", 1), MappedProduct("year", 2)))
    return executor


def the_end(storage: Storage) -> tuple[Status, datetime | None]:
    (license,) = list_licenses(storage)
    return Status(license.status), license.expires_at


def a_refund(order: str) -> Change:
    return replace(a_state(SaleState.REFUNDED, order=order), fact=Fact.REFUND)


# --- refunds and disputes -------------------------------------------------------------------------


def test_a_restored_order_restores_no_refund(shop: Executor, storage: Storage) -> None:
    receive(shop, a_sale())
    receive(shop, a_refund("1001"), 1)
    receive(shop, a_state(SaleState.ACTIVE, order="1001"), 2)
    assert the_end(storage)[0] is Status.DISABLED
    receive(shop, replace(a_state(SaleState.ACTIVE, order="1001"), fact=Fact.REFUND), 3)
    assert the_end(storage)[0] is Status.ACTIVE


# --- refunds before their sales -------------------------------------------------------------------


def test_a_refund_before_its_sale_leaves_a_paid_renewal_its_license(
    executor: Executor, storage: Storage
) -> None:
    scene = Scene(executor, storage, Shop.STRIPE)
    scene.tell("charge_of_first_invoice_refunded", "checkout_subscribed")
    assert scene.license()[0] is Status.DISABLED
    assert scene.mails() == []
    scene.tell("invoice_renewed")
    assert scene.license() == (Status.ACTIVE, day("2027-01-01T13:00:00"))
    assert scene.mails() == ["your_license"]


def test_a_refund_that_needs_the_shops_api_waits_for_its_key(executor: Executor, storage: Storage) -> None:
    scene = Scene(executor, storage, Shop.STRIPE)
    scene.has_api_key = False
    scene.tell("charge_of_first_invoice_refunded")
    (event,) = scene.events()
    assert (event.state, event.reason) == (EventState.UNMATCHED, Reason.API_KEY_MISSING)
    scene.has_api_key = True
    scene.tell("checkout_subscribed")
    do(executor, TryAgain(context=CONTEXT, connection_id=1, event_id=event.id))
    scene.settle()
    assert scene.license()[0] is Status.DISABLED


def test_what_changed_nothing_can_be_tried_again(shop: Executor, storage: Storage) -> None:
    receive(shop, a_sale(), is_test=True)
    (ignored,) = the_events(shop)
    assert ignored.state is EventState.IGNORED
    again = do(shop, TryAgain(context=CONTEXT, connection_id=1, event_id=ignored.id))
    assert again.state is EventState.WAITING


# --- subscriptions --------------------------------------------------------------------------------


def test_a_refund_of_the_only_known_period_ends_the_license_where_that_began(
    shop: Executor, storage: Storage
) -> None:
    changes: list[tuple[Change, int]] = [
        (a_sale("in-1", subscription="s"), 0),
        (a_renewal(NOW + 60 * DAY, "s", "in-2"), 30 * 24),
        (a_refund("in-2"), 31 * 24),
    ]
    endings = set()
    for number, order in enumerate(permutations(changes)):
        for one, hours in order:
            names: Any = {
                name: f"{value}-{number}"
                for name in ("order", "subscription")
                if (value := getattr(one, name, None)) is not None
            }
            receive(shop, replace(one, **names), hours)
        last = list_licenses(storage)[-1]
        endings.add((Status(last.status), last.expires_at))
    assert endings == {(Status.ACTIVE, NOW + 30 * DAY)}


@pytest.mark.parametrize(("product", "end"), [("pro", None), ("year", NOW + 365 * DAY)])
def test_what_ended_and_is_restored_has_the_end_that_its_terms_give(
    shop: Executor, storage: Storage, product: str, end: datetime | None
) -> None:
    receive(shop, a_sale(product=product, subscription="s"))
    receive(shop, a_state(SaleState.ENDED, subscription="s"), 24)
    assert the_end(storage) == (Status.ACTIVE, NOW + DAY)
    receive(shop, a_state(SaleState.ACTIVE, subscription="s"), 48)
    assert the_end(storage) == (Status.ACTIVE, end)


def test_an_end_makes_no_license_longer(shop: Executor, storage: Storage) -> None:
    receive(shop, a_sale(product="year", subscription="s"))
    receive(shop, a_state(SaleState.ENDED, subscription="s"), 500 * 24)
    assert the_end(storage) == (Status.ACTIVE, NOW + 365 * DAY)


# --- deleted licenses -----------------------------------------------------------------------------


def test_what_a_shop_said_of_a_deleted_license_is_true_when_it_is_restored(
    shop: Executor, storage: Storage
) -> None:
    receive(shop, a_sale("in-1", subscription="s", until=NOW + 30 * DAY))
    (license,) = list_licenses(storage)
    do(shop, DeleteLicense(context=CONTEXT, license=license.id))
    receive(shop, a_renewal(NOW + 60 * DAY, "s", "in-2"), 1)
    assert do(shop, RestoreLicense(context=CONTEXT, license=license.id)).expires_at == NOW + 60 * DAY
    assert the_end(storage) == (Status.ACTIVE, NOW + 60 * DAY)
    do(shop, DeleteLicense(context=CONTEXT, license=license.id))
    for order in ("in-1", "in-2"):
        receive(shop, a_refund(order), 2)
    do(shop, RestoreLicense(context=CONTEXT, license=license.id))
    assert the_end(storage)[0] is Status.DISABLED


# --- sales ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantity", [0, -1])
@pytest.mark.parametrize("rule", QuantityRule)
def test_a_sale_of_nothing_waits_for_a_person(
    shop: Executor, storage: Storage, quantity: int, rule: QuantityRule
) -> None:
    set_mapping(shop, MappedProduct("pro", 1, rule), MappedProduct("mug"))
    outcome = got(shop, a_sale(lines=(SaleLine("1", ("pro",), quantity), SaleLine("2", ("mug",), 0))))
    assert (outcome.state, outcome.reason) == (EventState.UNMATCHED, Reason.NO_QUANTITY)
    assert list_licenses(storage) == []


def test_each_trashing_of_an_order_is_one(executor: Executor, storage: Storage) -> None:
    scene = Scene(executor, storage, Shop.WOOCOMMERCE)
    scene.tell("order_completed", "order_deleted", "order_completed_again")
    assert scene.license()[0] is Status.ACTIVE
    scene.now += 30 * DAY
    scene.tell("order_deleted_again", "order_deleted_again")
    assert scene.license()[0] is Status.INACTIVE
    assert len(scene.events()) == 4


# --- a connection that is removed and added again -------------------------------------------------


@pytest.mark.databases("sqlite", "postgresql")
def test_a_connection_that_is_added_again_takes_over_what_was_sold(shop: Executor, storage: Storage) -> None:
    sale = a_sale("1", quantity=2, subscription="sub", until=MONTH)
    receive(shop, sale)
    do(shop, RemoveConnection(context=CONTEXT, connection_id=1))
    connect(shop, mapping=(MappedProduct("pro", 1),))
    connect(shop, shop=Shop.STRIPE)
    assert ask(shop, ListRemovedSales(connection_id=2)) == [RemovedSales(1, 2)]
    assert ask(shop, ListRemovedSales(connection_id=3)) == []
    take_over = TakeOverSales(context=CONTEXT, connection_id=2, removed_id=1)
    with pytest.raises(UnknownConnection):
        do(shop, replace(take_over, connection_id=3))
    assert do(shop, take_over) == 2
    assert ask(shop, ListRemovedSales(connection_id=2)) == []
    for change in (sale, a_renewal(TWO_MONTHS, "sub", order="2")):
        receive(shop, change, connection_id=2)
    assert {one.expires_at for one in list_licenses(storage)} == {TWO_MONTHS}
    for order in ("1", "2"):
        receive(shop, a_refund(order), 1, connection_id=2)
    assert [one.status for one in list_licenses(storage)] == [Status.DISABLED] * 2


def test_a_line_without_a_license_is_taken_over_but_not_counted(shop: Executor, storage: Storage) -> None:
    receive(shop, a_sale("1"))
    with storage.write() as tx:
        (sold,) = sold_store.list_sold(tx, 1, "1", None)
        sold_store.save_new_sold(tx, 1, [replace(sold, line="of an older version", license_id=0)])
    do(shop, RemoveConnection(context=CONTEXT, connection_id=1))
    connect(shop, mapping=(MappedProduct("pro", 1),))
    assert do(shop, TakeOverSales(context=CONTEXT, connection_id=2, removed_id=1)) == 1
    with storage.read() as tx:
        assert len(sold_store.list_sold(tx, 2, "1", None)) == 2


def test_what_was_sold_again_meanwhile_stays_sold(shop: Executor, storage: Storage) -> None:
    for order in ("1", "2"):
        receive(shop, a_sale(order))
    do(shop, RemoveConnection(context=CONTEXT, connection_id=1))
    connect(shop, mapping=(MappedProduct("pro", 1),))
    receive(shop, a_sale("1"), connection_id=2)
    assert do(shop, TakeOverSales(context=CONTEXT, connection_id=2, removed_id=1)) == 1
    for order in ("1", "2"):
        receive(shop, a_sale(order), connection_id=2)
    assert len(list_licenses(storage)) == 3
    with pytest.raises(UnknownConnection):
        do(shop, TakeOverSales(context=CONTEXT, connection_id=2, removed_id=1))
