"""What becomes of licenses when shops send sales and refunds, twice and in any order."""

from itertools import islice, permutations

import pytest

from keywright.db import Storage
from keywright.engine.executor import Executor
from keywright.licensing.licenses.model import Status
from keywright.provisioning.shops.commands import (
    TryAgain,
    UpdateConnection,
)
from keywright.provisioning.shops.model import (
    EventState,
    MappedProduct,
    Mode,
    QuantityRule,
    Reason,
    Shop,
)
from tests.connections import do
from tests.shop_scene import SHOPS, Scene, context

DATABASES = ("sqlite",)

# Each event is several transactions.
pytestmark = pytest.mark.tier("ordinary")


@pytest.fixture(params=SHOPS, ids=str)
def scene(request: pytest.FixtureRequest, executor: Executor, storage: Storage) -> Scene:
    return Scene(executor, storage, request.param)


# --- sales ----------------------------------------------------------------------------------------

#: The event of each shop for two of the editor, and those that say the same again.
SALES = {
    Shop.STRIPE: ["checkout_paid", "checkout_paid"],
    Shop.PADDLE: ["transaction_completed", "transaction_completed"],
    Shop.WOOCOMMERCE: ["order_processing", "order_completed", "order_completed", "order_partly_refunded"],
    Shop.LEMONSQUEEZY: ["order_created", "order_created", "order_partly_refunded"],
}
REFUNDS = {
    Shop.STRIPE: "charge_refunded",
    Shop.PADDLE: "adjustment_refunded",
    Shop.WOOCOMMERCE: "order_refunded",
    Shop.LEMONSQUEEZY: "order_refunded",
}
PARTS = {
    Shop.STRIPE: "charge_partly_refunded",
    Shop.PADDLE: "adjustment_partly_refunded",
    Shop.WOOCOMMERCE: "order_partly_refunded",
    Shop.LEMONSQUEEZY: "order_partly_refunded",
}
UNKNOWN = {
    Shop.STRIPE: "checkout_unknown_product",
    Shop.PADDLE: "transaction_unknown_product",
    Shop.WOOCOMMERCE: "order_unknown_product",
    Shop.LEMONSQUEEZY: "order_unknown_product",
}
FREE = {
    Shop.STRIPE: "checkout_nothing_to_pay",
    Shop.PADDLE: "transaction_nothing_to_pay",
    Shop.WOOCOMMERCE: "order_nothing_to_pay",
    Shop.LEMONSQUEEZY: "order_nothing_to_pay",
}


def test_a_sale_makes_a_license_for_each_unit_once(scene: Scene) -> None:
    scene.tell(*SALES[scene.shop])
    licenses = scene.licenses()
    assert len(licenses) == 2
    assert {one.status for one in licenses} == {Status.ACTIVE}
    assert {(one.policy_id, one.times_activated_max) for one in licenses} == {(1, 2)}
    assert len({one.customer_id for one in licenses}) == 1
    assert scene.mails() == ["your_license"]


def test_a_quantity_may_mean_devices(executor: Executor, storage: Storage) -> None:
    mapping = (MappedProduct("40", 1, QuantityRule.DEVICES),)
    scene = Scene(executor, storage, Shop.WOOCOMMERCE, mapping=mapping)
    scene.tell(*SALES[Shop.WOOCOMMERCE])
    assert [one.times_activated_max for one in scene.licenses()] == [4]


def test_what_costs_nothing_is_sold_all_the_same(scene: Scene) -> None:
    scene.tell(FREE[scene.shop])
    assert len(scene.licenses()) == 1


@pytest.mark.parametrize(
    ("shop", "names"),
    [
        (Shop.STRIPE, ["checkout_unpaid", "checkout_failed_later"]),
        (Shop.PADDLE, ["transaction_paid", "transaction_past_due", "transaction_card_changed"]),
        (Shop.WOOCOMMERCE, ["order_pending", "order_on_hold", "order_cancelled", "order_failed"]),
        (Shop.LEMONSQUEEZY, ["order_pending"]),
    ],
)
def test_what_is_not_paid_makes_nothing(
    executor: Executor, storage: Storage, shop: Shop, names: list[str]
) -> None:
    scene = Scene(executor, storage, shop)
    scene.tell(*names)
    assert scene.licenses() == []
    assert {one.state for one in scene.events()} == {EventState.IGNORED}


def test_what_is_paid_later_is_sold_then(executor: Executor, storage: Storage) -> None:
    scene = Scene(executor, storage, Shop.STRIPE)
    scene.tell("checkout_unpaid", "checkout_paid_later")
    assert len(scene.licenses()) == 1


def test_an_unknown_product_waits_until_the_mapping_names_it(scene: Scene) -> None:
    scene.tell(UNKNOWN[scene.shop])
    (event,) = scene.events()
    assert (event.state, event.reason) == (EventState.UNMATCHED, Reason.UNKNOWN_PRODUCT)
    assert scene.licenses() == []
    product = (event.detail or "").split(", ")[0]
    mapping = (*scene.connection.mapping, MappedProduct(product, 1))
    do(scene.executor, UpdateConnection(context=context(), connection_id=1, changes={"mapping": mapping}))
    do(scene.executor, TryAgain(context=context(), connection_id=1, event_id=event.id))
    scene.settle()
    assert len(scene.licenses()) == 1
    assert [one.state for one in scene.events()] == [EventState.DONE]


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("shop", "name"), [(Shop.PADDLE, "transaction_two_products"), (Shop.WOOCOMMERCE, "order_two_products")]
)
def test_of_an_order_with_an_unknown_product_the_others_are_made(
    executor: Executor, storage: Storage, shop: Shop, name: str
) -> None:
    scene = Scene(executor, storage, shop)
    scene.tell(name)
    assert len(scene.licenses()) == 1
    assert [one.state for one in scene.events()] == [EventState.UNMATCHED]


@pytest.mark.parametrize(
    ("shop", "name"),
    [
        (Shop.STRIPE, "checkout_test_mode"),
        (Shop.PADDLE, "transaction_simulated"),
        (Shop.LEMONSQUEEZY, "order_test_mode"),
    ],
)
@pytest.mark.parametrize("mode", Mode)
def test_test_events_make_licenses_for_test_connections_alone(
    executor: Executor, storage: Storage, shop: Shop, name: str, mode: Mode
) -> None:
    scene = Scene(executor, storage, shop, mode=mode)
    scene.tell(name)
    assert len(scene.licenses()) == (mode is Mode.TEST)
    assert scene.events()[0].reason is (None if mode is Mode.TEST else Reason.OTHER_MODE)


def test_a_live_sale_makes_nothing_for_a_test_connection(executor: Executor, storage: Storage) -> None:
    scene = Scene(executor, storage, Shop.STRIPE, mode=Mode.TEST)
    scene.tell("checkout_paid")
    assert scene.licenses() == []


def test_a_refund_in_full_disables_and_one_of_a_part_does_not(scene: Scene) -> None:
    scene.tell(*SALES[scene.shop])
    scene.tell(PARTS[scene.shop])
    assert scene.license() == (Status.ACTIVE, None)
    scene.tell(REFUNDS[scene.shop])
    assert scene.license() == (Status.DISABLED, None)


def test_what_was_refunded_before_it_arrived_makes_nothing(scene: Scene) -> None:
    scene.tell(REFUNDS[scene.shop], *SALES[scene.shop])
    assert [one for one in scene.licenses() if one.status != Status.DISABLED] == []


@pytest.mark.parametrize(
    ("shop", "opened", "won"),
    [
        (Shop.STRIPE, "dispute_opened", "dispute_won"),
        (Shop.PADDLE, "adjustment_chargeback", "adjustment_chargeback_reversed"),
        (Shop.WOOCOMMERCE, "order_cancelled", "order_completed_again"),
    ],
)
def test_what_is_in_dispute_is_suspended_until_it_is_won(
    executor: Executor, storage: Storage, shop: Shop, opened: str, won: str
) -> None:
    scene = Scene(executor, storage, shop)
    scene.tell(SALES[shop][0], opened)
    assert scene.license() == (Status.INACTIVE, None)
    scene.tell(won)
    assert scene.license() == (Status.ACTIVE, None)


@pytest.mark.smoke
def test_a_closed_inquiry_restores_no_refunded_license(executor: Executor, storage: Storage) -> None:
    scene = Scene(executor, storage, Shop.STRIPE)
    scene.tell("checkout_paid", "dispute_inquiry", "charge_refunded", "dispute_inquiry_closed")
    assert scene.license() == (Status.DISABLED, None)


@pytest.mark.parametrize("name", ["order_cancelled", "order_deleted", "order_failed"])
def test_an_order_of_woocommerce_that_is_taken_back_is_suspended(
    executor: Executor, storage: Storage, name: str
) -> None:
    scene = Scene(executor, storage, Shop.WOOCOMMERCE)
    scene.tell("order_completed", name)
    assert scene.license()[0] is Status.INACTIVE


# --- in any order ---------------------------------------------------------------------------------

#: Everything about one order or one subscription, and what is true at its end, in whatever order it came.
TALES = {
    Shop.STRIPE: [
        ["checkout_paid", "charge_partly_refunded", "dispute_opened", "dispute_won"],
        ["checkout_paid", "charge_partly_refunded", "charge_refunded"],
        [
            "checkout_subscribed",
            "invoice_first",
            "subscription_past_due",
            "invoice_renewed",
            "subscription_unpaid",
        ],
        ["checkout_subscribed", "invoice_first", "invoice_renewed", "charge_of_renewal_refunded"],
        ["checkout_subscribed", "invoice_first", "subscription_unpaid", "subscription_active_again"],
        ["checkout_subscribed", "invoice_first", "invoice_renewed", "subscription_deleted"],
    ],
    Shop.PADDLE: [
        ["transaction_completed", "adjustment_partly_refunded", "adjustment_refunded"],
        ["transaction_completed", "adjustment_chargeback", "adjustment_chargeback_reversed"],
        ["transaction_subscribed", "subscription_past_due", "transaction_renewed", "subscription_paused"],
        ["transaction_subscribed", "transaction_renewed", "subscription_paused", "subscription_resumed"],
        [
            "transaction_subscribed",
            "transaction_renewed",
            "transaction_renewed_again",
            "adjustment_of_renewal",
        ],
    ],
    Shop.WOOCOMMERCE: [
        ["order_pending", "order_processing", "order_completed", "order_partly_refunded", "order_cancelled"],
        ["order_processing", "order_cancelled", "order_completed_again"],
        ["order_processing", "order_refunded"],
        ["order_subscribed", "subscription_created", "order_renewed", "subscription_renewed"],
        ["order_subscribed", "subscription_created", "subscription_renewed", "subscription_cancelled"],
    ],
    Shop.LEMONSQUEEZY: [
        ["order_created", "order_partly_refunded", "order_refunded"],
        ["order_subscribed", "subscription_created", "subscription_payment_success", "subscription_updated"],
        ["order_subscribed", "subscription_created", "subscription_updated", "subscription_unpaid"],
        ["order_subscribed", "subscription_created", "subscription_updated", "subscription_paused"],
        ["order_subscribed", "subscription_created", "subscription_updated", "subscription_expired"],
    ],
}


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize(
    ("shop", "tale"), [(shop, tuple(tale)) for shop, tales in TALES.items() for tale in tales]
)
def test_the_order_in_which_events_come_does_not_matter(
    executor: Executor, storage: Storage, shop: Shop, tale: tuple[str, ...]
) -> None:
    scene, endings = Scene(executor, storage, shop), set()
    for order in islice(permutations(tale), 0, None, {3: 1, 4: 3}.get(len(tale), 17)):
        scene.connect()
        scene.tell(*order, *order)
        scene.settle()
        # An order that was refunded before it was told of has no license, not a disabled one.
        usable = [one for one in scene.licenses() if one.status != Status.DISABLED]
        endings.add(tuple((one.status, one.expires_at) for one in usable))
    assert len(endings) == 1
