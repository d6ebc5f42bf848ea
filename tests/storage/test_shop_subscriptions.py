"""The licenses of a subscription that changes."""

from itertools import permutations
from typing import NamedTuple

import pytest

from keywright.db import Storage
from keywright.engine.executor import Executor
from keywright.licensing.licenses.model import Status
from keywright.provisioning.shops.model import MappedProduct, Shop
from tests.shop_scene import CLOUD, EDITOR, SHOPS, Scene, day
from tests.storage.test_shop_sales import FIRST

DATABASES = ("sqlite",)

# Each event takes several transactions.
pytestmark = pytest.mark.tier("ordinary")


class Story(NamedTuple):
    """The events of a subscription: the first period ends on December 1, the second on January 1."""

    first: tuple[str, ...]
    renewal: tuple[str, ...]
    late: str | None
    suspended: str | None
    restored: str | None
    ended: str
    refund_of_first: str | None
    refund_of_renewal: str | None


FIRST_END, SECOND_END = day("2026-12-01T13:00:00"), day("2027-01-01T13:00:00")
STORIES = {
    Shop.STRIPE: Story(
        first=("checkout_subscribed", "invoice_first"),
        renewal=("invoice_renewed",),
        late="subscription_past_due",
        suspended="subscription_unpaid",
        restored="subscription_active_again",
        ended="subscription_deleted",
        refund_of_first="charge_of_first_invoice_refunded",
        refund_of_renewal="charge_of_renewal_refunded",
    ),
    Shop.PADDLE: Story(
        first=("transaction_subscribed",),
        renewal=("transaction_renewed",),
        late="subscription_past_due",
        suspended="subscription_paused",
        restored="subscription_resumed",
        ended="subscription_canceled",
        refund_of_first="adjustment_of_subscription",
        refund_of_renewal="adjustment_of_renewal",
    ),
    Shop.WOOCOMMERCE: Story(
        first=("order_subscribed", "subscription_created"),
        renewal=("order_renewed", "subscription_renewed"),
        late="order_renewal_failed",
        suspended=None,
        restored=None,
        ended="subscription_cancelled",
        refund_of_first=None,
        refund_of_renewal="order_renewal_refunded",
    ),
    Shop.LEMONSQUEEZY: Story(
        first=("order_subscribed", "subscription_created"),
        renewal=("subscription_payment_success", "subscription_updated"),
        late="subscription_past_due",
        suspended="subscription_unpaid",
        restored="subscription_resumed",
        ended="subscription_expired",
        refund_of_first="subscription_first_payment_refunded",
        refund_of_renewal="subscription_payment_refunded",
    ),
}


#: The number of live licenses of the editor and of the cloud after each event.
CHANGES: dict[Shop, dict[str, tuple[int, int]]] = {
    Shop.STRIPE: {
        "subscription_more_seats": (0, 5),
        "invoice_proration": (0, 5),
        "subscription_other_price": (0, 3),
        "subscription_addon": (1, 1),
    },
    Shop.PADDLE: {
        "subscription_more_seats": (0, 5),
        "transaction_proration": (0, 5),
        "subscription_other_price": (0, 3),
        "subscription_addon": (1, 1),
        "adjustment_of_proration": (1, 1),
        "adjustment_without_type": (1, 1),
    },
    Shop.WOOCOMMERCE: {
        "subscription_more_seats": (0, 5),
        "order_switched": (0, 5),
        "subscription_switched_away": (0, 5),
        "subscription_switched_to": (0, 3),
    },
    Shop.LEMONSQUEEZY: {
        "subscription_more_seats": (0, 5),
        "subscription_payment_for_change": (0, 5),
        "subscription_other_variant": (0, 3),
        "subscription_usage_based": (0, 1),
    },
}
#: Events that change nothing, and the reason.
CHANGES_NOTHING = {
    "invoice_proration": "no_period_paid",
    "transaction_proration": "no_period_paid",
    "adjustment_of_proration": "no_period_paid",
    "subscription_payment_for_change": "no_period_paid",
    "order_switched": "no_period_paid",
    # They end with the paid period, as before, unless the new subscription arrives.
    "subscription_switched_away": "already_so",
    "adjustment_without_type": "not_needed",
}


def changing(executor: Executor, storage: Storage, shop: Shop) -> Scene:
    mapping = [MappedProduct(EDITOR[shop], 1), MappedProduct(CLOUD[shop], 2)]
    mapping += [MappedProduct("CLOUD-YEAR", 2), MappedProduct(f"pro_01kw{2:022d}", 2), MappedProduct("4", 2)]
    return Scene(executor, storage, shop, mapping=tuple(mapping))


def live(scene: Scene) -> tuple[int, int]:
    found = [one.policy_id for one in scene.licenses() if one.status == Status.ACTIVE]
    return found.count(1), found.count(2)


@pytest.mark.parametrize("shop", SHOPS, ids=str)
def test_what_a_shop_lists_is_held_and_each_event_states_what_it_changed(
    executor: Executor, storage: Storage, shop: Shop
) -> None:
    scene = changing(executor, storage, shop)
    scene.tell(*FIRST[shop].split())
    first = {one.key for one in scene.licenses()}
    wrong = []
    for name, wanted in CHANGES[shop].items():
        scene.tell(name)
        event = scene.events()[0]
        reason = CHANGES_NOTHING.get(name)
        if (live(scene), event.reason) != (wanted, reason) or not event.detail:
            wrong.append((name, live(scene), event.state, event.reason, event.detail))
    assert wrong == []
    assert first <= {one.key for one in scene.licenses() if one.status == Status.ACTIVE}


def test_a_subscription_in_the_place_of_another_has_its_licenses_in_any_order(
    executor: Executor, storage: Storage
) -> None:
    scene = changing(executor, storage, Shop.WOOCOMMERCE)
    ends = set()
    for later in permutations(("order_switched", "subscription_switched_away", "subscription_switched_to")):
        scene.connect()
        scene.tell("order_subscribed", "subscription_created", *later)
        (kept, *others) = (one for one in scene.licenses() if one.status == Status.ACTIVE)
        ends.add((kept.expires_at, len(others), kept.policy_id))
    assert ends == {(day("2027-11-12T09:00:00"), 2, 2)}
