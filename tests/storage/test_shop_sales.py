"""Licenses when shops send sales, payments and refunds, twice and in any order."""

from itertools import islice, permutations

import pytest

from keywright.db import Storage
from keywright.engine.executor import Executor
from keywright.licensing.licenses.model import Status
from keywright.provisioning.shops.model import EventState, Shop
from tests.shop_scene import SHOPS, Scene

DATABASES = ("sqlite",)

# Each event takes several transactions.
pytestmark = pytest.mark.tier("ordinary")

#: Each shop's event for a sale of two editors, and events that repeat it.
SALES = {
    Shop.STRIPE: ["checkout_paid", "checkout_paid"],
    Shop.PADDLE: ["transaction_completed", "transaction_completed"],
    Shop.WOOCOMMERCE: ["order_processing", "order_completed", "order_completed", "order_partly_refunded"],
    Shop.LEMONSQUEEZY: ["order_created", "order_created", "order_partly_refunded"],
}


@pytest.mark.parametrize("shop", SHOPS, ids=str)
def test_a_sale_makes_a_license_for_each_unit_once(executor: Executor, storage: Storage, shop: Shop) -> None:
    scene = Scene(executor, storage, shop)
    scene.tell(*SALES[shop])
    licenses = scene.licenses()
    assert len(licenses) == 2
    assert {one.status for one in licenses} == {Status.ACTIVE}
    assert {(one.policy_id, one.times_activated_max) for one in licenses} == {(1, 2)}
    assert len({one.customer_id for one in licenses}) == 1
    assert scene.mails() == ["your_license"]


def test_what_is_not_paid_makes_nothing_until_it_is(executor: Executor, storage: Storage) -> None:
    scene = Scene(executor, storage, Shop.STRIPE)
    scene.tell("checkout_unpaid", "checkout_failed_later")
    assert scene.licenses() == []
    assert {one.state for one in scene.events()} == {EventState.IGNORED}
    scene.tell("checkout_paid_later")
    assert len(scene.licenses()) == 1


#: All events of one order, and the usable licenses in the end, regardless of the order of events.
ORDERS: dict[Shop, dict[str, str]] = {
    Shop.STRIPE: {
        "checkout_paid charge_partly_refunded dispute_opened": "2 inactive",
        "checkout_paid charge_partly_refunded dispute_opened dispute_won": "2 active",
        "checkout_paid charge_partly_refunded charge_refunded": "none",
        "checkout_paid charge_refunded dispute_opened dispute_won": "none",
        "checkout_paid charge_refunded dispute_inquiry dispute_inquiry_closed": "none",
        "checkout_paid charge_refunded refund_failed": "2 active",
    },
    Shop.PADDLE: {
        "transaction_completed adjustment_partly_refunded adjustment_refunded": "none",
        "transaction_completed adjustment_chargeback": "2 inactive",
        "transaction_completed adjustment_chargeback adjustment_chargeback_reversed": "2 active",
        "transaction_completed adjustment_refunded adjustment_chargeback adjustment_chargeback_reversed": (
            "none"
        ),
    },
    Shop.WOOCOMMERCE: {
        "order_pending order_processing order_completed order_partly_refunded order_cancelled": "2 active",
        "order_completed order_deleted": "2 inactive",
        "order_completed order_failed": "2 inactive",
        "order_processing order_cancelled": "2 inactive",
        "order_processing order_cancelled order_completed_again": "2 active",
        "order_processing order_refunded": "none",
    },
    Shop.LEMONSQUEEZY: {"order_created order_partly_refunded order_refunded": "none"},
}
#: Each shop's events when a subscription begins. The first period ends on December 1.
FIRST = {
    Shop.STRIPE: "checkout_subscribed invoice_first",
    Shop.PADDLE: "transaction_subscribed",
    Shop.WOOCOMMERCE: "order_subscribed subscription_created",
    Shop.LEMONSQUEEZY: "order_subscribed subscription_created",
}
#: Later events, and the usable licenses after all of them.
LATER: dict[Shop, dict[str, str]] = {
    Shop.STRIPE: {
        "": "1 active until 2026-12-01",
        "invoice_renewed": "1 active until 2027-01-01",
        "subscription_past_due": "1 active until 2026-12-01",
        "subscription_past_due invoice_renewed subscription_unpaid": "1 inactive until 2027-01-01",
        "subscription_unpaid subscription_active_again": "1 active until 2026-12-01",
        "invoice_renewed subscription_deleted": "1 active until 2027-01-01",
        "invoice_renewed charge_of_renewal_refunded": "1 active until 2026-12-01",
        "charge_of_first_invoice_refunded": "none",
        # A changed plan counts from its new period.
        "invoice_renewed invoice_updated": "1 active until 2027-12-10",
    },
    Shop.PADDLE: {
        "": "1 active until 2026-12-01",
        "subscription_past_due transaction_renewed subscription_paused": "1 inactive until 2027-01-01",
        "subscription_past_due": "1 active until 2026-12-01",
        "transaction_renewed subscription_paused subscription_resumed": "1 active until 2027-01-01",
        "transaction_renewed subscription_canceled": "1 active until 2027-01-01",
        "transaction_renewed adjustment_of_renewal": "1 active until 2026-12-01",
        "transaction_renewed transaction_renewed_again adjustment_of_renewal": "1 active until 2027-02-01",
        "adjustment_of_subscription": "none",
    },
    Shop.WOOCOMMERCE: {
        "": "1 active until 2026-12-01",
        "order_renewed subscription_renewed": "1 active until 2027-01-01",
        "order_renewal_failed": "1 active until 2026-12-01",
        "subscription_renewed subscription_cancelled": "1 active until 2027-01-01",
        # A repeated order does not revive a subscription.
        "subscription_renewed subscription_cancelled order_subscribed_edited": "1 active until 2027-01-01",
        "order_renewed subscription_renewed order_renewal_refunded": "1 active until 2026-12-01",
    },
    Shop.LEMONSQUEEZY: {
        "": "1 active until 2026-12-01",
        "subscription_payment_success subscription_updated": "1 active until 2027-01-01",
        "subscription_past_due": "1 active until 2026-12-01",
        "subscription_updated subscription_unpaid": "1 inactive until 2027-01-01",
        "subscription_unpaid subscription_resumed": "1 active until 2027-01-01",
        "subscription_updated subscription_paused": "1 inactive until 2027-01-01",
        "subscription_updated subscription_expired": "1 active until 2027-01-01",
        "subscription_payment_success subscription_updated subscription_payment_refunded": (
            "1 active until 2026-12-01"
        ),
        "subscription_first_payment_refunded": "none",
    },
}
TALES = [
    *((shop, tale, ending) for shop, tales in ORDERS.items() for tale, ending in tales.items()),
    *((shop, f"{FIRST[shop]} {tale}", end) for shop, tales in LATER.items() for tale, end in tales.items()),
]


@pytest.mark.parametrize(("shop", "tale", "ending"), TALES)
def test_the_order_in_which_events_come_does_not_matter(
    executor: Executor, storage: Storage, shop: Shop, tale: str, ending: str
) -> None:
    scene, endings, names = Scene(executor, storage, shop), set(), tale.split()
    for order in islice(permutations(names), 0, None, {4: 3, 5: 17}.get(len(names), 1)):
        scene.connect()
        scene.tell(*order, *order)
        scene.settle()
        endings.add(describe_usable(scene))
    assert endings == {ending}


def describe_usable(scene: Scene) -> str:
    """Describe the licenses that are not disabled; one refunded before its sale was never created."""
    usable = [one for one in scene.licenses() if one.status != Status.DISABLED]
    kinds = {(Status(one.status).name.lower(), one.expires_at) for one in usable}
    ends = [f"{status} until {end:%Y-%m-%d}" if end else status for status, end in kinds]
    return f"{len(usable)} {', '.join(ends)}" if usable else "none"
