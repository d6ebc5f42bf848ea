"""What becomes of the licenses of a subscription when a shop sends what happens to it."""

from typing import NamedTuple

import pytest

from keywright.db import Storage
from keywright.engine.executor import Executor
from keywright.licensing.licenses.model import Status
from keywright.provisioning.shops.model import (
    Shop,
)
from tests.shop_scene import SHOPS, Scene, day

DATABASES = ("sqlite",)

# Each event is several transactions.
pytestmark = pytest.mark.tier("ordinary")


@pytest.fixture(params=SHOPS, ids=str)
def scene(request: pytest.FixtureRequest, executor: Executor, storage: Storage) -> Scene:
    return Scene(executor, storage, request.param)


# --- subscriptions --------------------------------------------------------------------------------


class Story(NamedTuple):
    """The events of a subscription: the first period ends on December 1, the second one on January 1."""

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


def test_a_subscription_is_good_for_what_was_paid(scene: Scene) -> None:
    story = STORIES[scene.shop]
    scene.tell(*story.first)
    assert scene.license() == (Status.ACTIVE, FIRST_END)
    assert scene.mails() == ["your_license"]
    scene.tell(*story.renewal)
    assert scene.license() == (Status.ACTIVE, SECOND_END)
    assert scene.mails() == ["your_license", "renewed"]
    assert len(scene.licenses()) == 1


def test_a_late_payment_changes_nothing_but_sends_a_mail(scene: Scene) -> None:
    story = STORIES[scene.shop]
    scene.tell(*story.first)
    assert story.late is not None
    scene.tell(story.late)
    assert scene.license() == (Status.ACTIVE, FIRST_END)
    assert scene.mails() == ["your_license", "payment_failed"]


def test_a_subscription_that_is_not_paid_is_suspended_until_it_is(scene: Scene) -> None:
    story = STORIES[scene.shop]
    if story.suspended is None or story.restored is None:
        return
    scene.tell(*story.first, *story.renewal, story.suspended)
    assert scene.license()[0] is Status.INACTIVE
    scene.tell(story.restored)
    assert scene.license() == (Status.ACTIVE, SECOND_END)


def test_a_subscription_that_has_ended_ends_its_license(scene: Scene) -> None:
    story = STORIES[scene.shop]
    scene.tell(*story.first, *story.renewal, story.ended)
    status, expires_at = scene.license()
    assert status is Status.ACTIVE
    assert expires_at is not None
    assert FIRST_END < expires_at <= SECOND_END


def test_a_refund_of_a_renewal_leaves_what_was_paid_before(scene: Scene) -> None:
    story = STORIES[scene.shop]
    assert story.refund_of_renewal is not None
    scene.tell(*story.first, *story.renewal, story.refund_of_renewal)
    assert scene.license() == (Status.ACTIVE, FIRST_END)


def test_a_refund_of_the_first_payment_ends_a_subscription_that_was_not_renewed(scene: Scene) -> None:
    refund = STORIES[scene.shop].refund_of_first
    if refund is not None:
        scene.tell(*STORIES[scene.shop].first, refund)
        assert scene.license()[0] is Status.DISABLED


def test_a_change_of_plan_counts_from_its_new_period(executor: Executor, storage: Storage) -> None:
    scene = Scene(executor, storage, Shop.STRIPE)
    scene.tell("checkout_subscribed", "invoice_first", "invoice_renewed", "invoice_updated")
    assert scene.license() == (Status.ACTIVE, day("2027-12-10T08:00:00"))


def test_an_edited_order_of_an_ended_subscription_restores_nothing(
    executor: Executor, storage: Storage
) -> None:
    scene = Scene(executor, storage, Shop.WOOCOMMERCE)
    scene.tell("order_subscribed", "subscription_created", "subscription_renewed", "subscription_cancelled")
    assert scene.license() == (Status.ACTIVE, SECOND_END)
    scene.tell("order_subscribed_edited")
    assert scene.license() == (Status.ACTIVE, SECOND_END)
