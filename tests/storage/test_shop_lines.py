"""Customers have exactly what they paid for: the lines of subscriptions, and their licenses."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import select

from keywright.db import Storage
from keywright.db.schema import events, mail_outbox
from keywright.engine.executor import Executor
from keywright.events.store import list_events
from keywright.licensing.licenses.model import DeleteLicense, License, Status, UpdateLicense, order_of
from keywright.licensing.undo.rules import UndoEvent
from keywright.provisioning.policies.model import UpdatePolicy
from keywright.provisioning.shops.commands import (
    ClaimLook,
    FindDifference,
    GetConnection,
    OpenConnection,
    SaveTopics,
    UpdateConnection,
)
from keywright.provisioning.shops.model import (
    EventState,
    Fact,
    Lines,
    MappedProduct,
    OnCancel,
    QuantityRule,
    Reason,
    SaleLine,
    SaleState,
    ShopEvent,
)
from keywright.provisioning.shops.outcome_rules import Outcome
from keywright.provisioning.shops.reconciling import note
from tests.connections import CONTEXT, a_renewal, a_sale, a_state, ask, connect, do, receive, work
from tests.makers import NOW, create_policy, create_product
from tests.makers import activate as take_place
from tests.storage.stored import got, list_licenses, mails, set_mapping, the_events, try_again

DATABASES = ("sqlite",)
# Each event takes several transactions.
pytestmark = pytest.mark.tier("ordinary")

DAY = timedelta(days=1)
UNTIL = NOW + 30 * DAY
#: "pro" and "max" belong to one product, "app" to another.
POLICIES = {
    "pro": {"max_activations": 2, "grace_days": 14},
    "max": {"max_activations": 5, "max_leases": 3, "grace_days": 14, "entitlements": ["max"]},
    "app": {"max_activations": 1},
    "free": {},
}
PRO, MAX, APP, FREE = 1, 2, 3, 4


@pytest.fixture
def shop(executor: Executor) -> Executor:
    """Connection 1: its products create a key per unit, or with "-seats" one license with more devices."""
    for number in (1, 2):
        do(executor, create_product(number))
    for name, terms in POLICIES.items():
        product = 2 if name == "app" else 1
        do(executor, create_policy(name=name, terms=terms, product_id=product))
    mapping = [MappedProduct(name, number) for number, name in enumerate(POLICIES, start=1)]
    mapping += [
        replace(one, product=f"{one.product}-seats", quantity=QuantityRule.DEVICES) for one in mapping
    ]
    connect(executor, mapping=(*mapping, MappedProduct("none")))
    return executor


def told(*lines: tuple[str, str, int], **fields: Any) -> Lines:
    """Build lines, each with its ID, product and quantity."""
    return Lines(
        subscription="s",
        lines=tuple(SaleLine(number, (product,), quantity) for number, product, quantity in lines),
        **fields,
    )


def buy(shop: Executor, product: str, quantity: int, **fields: Any) -> Outcome:
    lines = (SaleLine("1", (product,), quantity, recurs=True),)
    sale = a_sale("o", lines=lines, subscription="s", until=UNTIL)
    return got(shop, replace(sale, **fields))


def live(storage: Storage) -> list[License]:
    return [one for one in list_licenses(storage) if one.status == Status.ACTIVE]


def held(storage: Storage) -> list[tuple[int | None, int, int | None]]:
    """Policy, quantity and limit of the live licenses."""
    return [(one.policy_id, one.quantity, one.times_activated_max) for one in live(storage)]


def activate(shop: Executor, license: License, device: str = "a") -> None:
    do(shop, take_place(license.key, label=device))


def by_hand(shop: Executor, license: License, terms: Mapping[str, Any]) -> None:
    do(shop, UpdateLicense(context=CONTEXT, license=license.id, terms=terms))


# --- the table of the contract --------------------------------------------------------------------


def test_a_quantity_of_devices_goes_up_and_down_at_once(shop: Executor, storage: Storage) -> None:
    buy(shop, "pro-seats", 3)
    (before,) = live(storage)
    assert held(storage) == [(PRO, 3, 6)]
    for device in "abcde":
        activate(shop, before, device)
    outcome = got(shop, told(("1", "pro-seats", 10)), 1)
    assert (outcome.state, outcome.reason) == (EventState.DONE, None)
    assert outcome.detail == "1 license: quantity 3 → 10; 1 license: devices 6 → 20"
    receive(shop, told(("1", "pro-seats", 1)), 2)
    assert held(storage) == [(PRO, 1, 2)]
    (after,) = live(storage)
    assert (after.key, after.times_activated) == (before.key, 5)
    assert mails(storage) == ["your_license", "changed", "changed"]


def test_leases_follow_the_quantity_and_meters_and_no_limit_do_not(shop: Executor, storage: Storage) -> None:
    buy(shop, "max-seats", 2)
    assert '"max_leases":6' in (live(storage)[0].terms or "")
    receive(shop, told(("1", "free-seats", 9)), 1)
    assert held(storage) == [(FREE, 9, None)]


def test_more_keys_are_made_with_the_next_index_and_mailed_alone(shop: Executor, storage: Storage) -> None:
    buy(shop, "pro", 2)
    outcome = got(shop, told(("1", "pro", 4)), 1)
    assert outcome.detail == "2 licenses: made"
    assert held(storage) == [(PRO, 1, 2)] * 4
    assert [one.order_details for one in live(storage)] == [
        '{"source":"generic:1","id":"o","line":"1"' + (f',"index":{i}}}' if i else "}") for i in range(4)
    ]
    assert mails(storage) == ["your_license", "your_license"]
    assert mailed_licenses(storage) == [(1, 2), (3, 4)]


def test_fewer_keys_end_without_a_device_first_then_the_highest_index(
    shop: Executor, storage: Storage
) -> None:
    buy(shop, "pro", 4)
    first, second, third, fourth = live(storage)
    activate(shop, second)
    activate(shop, fourth)
    outcome = got(shop, told(("1", "pro", 2)), 1)
    assert outcome.detail == "2 licenses: ended"
    assert live(storage) == [one for one in list_licenses(storage) if one.id in (second.id, fourth.id)]
    receive(shop, told(("1", "pro", 1)), 2)
    assert [one.id for one in live(storage)] == [second.id]
    receive(shop, told(("1", "pro", 3)), 3)
    assert [one.id for one in live(storage)] == [first.id, second.id, third.id]
    receive(shop, told(("1", "pro", 5)), 4)
    assert [one.id for one in live(storage)] == [first.id, second.id, third.id, fourth.id, 5]


def test_a_license_that_a_person_deleted_or_ended_counts_as_held(shop: Executor, storage: Storage) -> None:
    buy(shop, "pro", 3)
    one, two, _ = live(storage)
    do(shop, DeleteLicense(context=CONTEXT, license=one.id))
    do(shop, UpdateLicense(context=CONTEXT, license=two.id, changes={"status": int(Status.DISABLED)}))
    receive(shop, told(("1", "pro", 3)), 1)
    assert len(live(storage)) == 1
    receive(shop, told(("1", "pro", 1)), 2)
    assert len(live(storage)) == 1
    receive(shop, told(("1", "pro", 4)), 3)
    assert len(live(storage)) == 2


@pytest.mark.parametrize("suffix", ["", "-seats"])
def test_another_price_of_the_same_product_keeps_the_license(
    shop: Executor, storage: Storage, suffix: str
) -> None:
    buy(shop, f"pro{suffix}", 1)
    (before,) = live(storage)
    activate(shop, before)
    receive(shop, told(("1", f"max{suffix}", 1)), 1)
    (after,) = live(storage)
    assert (after.id, after.key, after.times_activated, after.policy_id) == (before.id, before.key, 1, MAX)
    assert (after.times_activated_max, after.expires_at) == (5, UNTIL)
    assert '"entitlements":["max"]' in (after.terms or "")


def test_price_and_quantity_may_change_in_one_event(shop: Executor, storage: Storage) -> None:
    buy(shop, "pro-seats", 2)
    outcome = receive(shop, told(("1", "max-seats", 3)), 1)
    assert held(storage) == [(MAX, 3, 15)]
    assert outcome is not None
    assert outcome.detail == ("1 license: quantity 2 → 3; 1 license: policy 1 → 2; 1 license: devices 4 → 15")
    with storage.read() as tx:
        found = [one for one in list_events(tx, 1, limit=9) if one.name == "license.changed"]
    (changed,) = found
    assert changed.details is not None
    assert (changed.details["quantity"], changed.details["policy_id"]) == ([2, 3], [PRO, MAX])
    assert [one["max_activations"] for one in changed.details["terms"]] == [4, 15]


def test_a_price_of_another_product_ends_the_license_and_makes_one(shop: Executor, storage: Storage) -> None:
    buy(shop, "pro", 2)
    receive(shop, told(("1", "app", 2)), 1)
    assert [one.product_id for one in live(storage)] == [2, 2]
    assert [one.status for one in list_licenses(storage)] == [Status.DISABLED] * 2 + [Status.ACTIVE] * 2
    assert mails(storage) == ["your_license", "your_license"]
    receive(shop, told(("1", "pro", 2)), 2)
    assert [one.id for one in live(storage)] == [1, 2]


def test_a_bundle_has_a_license_of_each_policy_and_all_of_them_change(
    shop: Executor, storage: Storage
) -> None:
    mapping = [MappedProduct("suite", PRO, QuantityRule.KEYS, (MAX, APP))]
    mapping += [MappedProduct("suite-pro", PRO, QuantityRule.KEYS, (APP,)), MappedProduct("pro", PRO)]
    set_mapping(shop, *mapping)
    receive(shop, a_sale("o", quantity=2, product="suite", subscription="s", until=UNTIL))
    made = list_licenses(storage)
    assert [(one.policy_id, order_of(one).index) for one in made] == [
        (policy, index) for policy in (PRO, MAX, APP) for index in (0, 1)
    ]
    with storage.read() as tx:
        (subject,) = tx.connection.execute(select(mail_outbox.c.subject)).scalars()
    assert json.loads(subject)["license_ids"] == [one.id for one in made]
    receive(shop, a_renewal(UNTIL + 30 * DAY, "s", "second"), hours=1)
    assert {one.expires_at for one in list_licenses(storage)} == {UNTIL + 30 * DAY}
    # The licenses of the first sale are fixed; another unit gets one license of each.
    changed = [replace(one, more_policy_ids=()) for one in mapping]
    set_mapping(shop, *changed)
    receive(shop, told(("1", "suite", 3)), hours=2)
    assert [one.policy_id for one in list_licenses(storage)[6:]] == [PRO, MAX, APP]
    # A device on the license of "max" does not turn it into that of "pro".
    do(shop, take_place(made[2].key))
    set_mapping(shop, *mapping)
    receive(shop, told(("1", "suite-pro", 2)), hours=3)
    live = [one for one in list_licenses(storage) if one.status == Status.ACTIVE]
    assert [(one.id, one.policy_id) for one in live] == [
        (one.id, one.policy_id) for one in made if one.policy_id != MAX
    ]
    receive(shop, a_state(SaleState.REFUNDED, order="o"), hours=4)
    receive(shop, a_state(SaleState.REFUNDED, order="second"), hours=5)
    assert {one.status for one in list_licenses(storage)} == {Status.DISABLED}


def test_a_quantity_of_a_bundle_multiplies_the_devices_of_each(shop: Executor, storage: Storage) -> None:
    set_mapping(shop, MappedProduct("suite", PRO, QuantityRule.DEVICES, (APP,)))
    receive(shop, a_sale("o", quantity=3, product="suite"))
    assert [one.times_activated_max for one in list_licenses(storage)] == [6, 3]


def test_a_price_that_nothing_is_known_of_waits_and_changes_nothing(shop: Executor, storage: Storage) -> None:
    buy(shop, "pro", 2)
    outcome = got(shop, told(("1", "new", 5), ("2", "app", 1)), 1)
    assert (outcome.state, outcome.reason, outcome.detail) == (
        EventState.UNMATCHED,
        Reason.UNKNOWN_PRODUCT,
        "new",
    )
    assert held(storage) == [(PRO, 1, 2)] * 2 + [(APP, 1, 1)]
    set_mapping(shop, MappedProduct("new", MAX), MappedProduct("app", APP))
    waiting = the_events(shop)[-1]
    try_again(shop, waiting.id)
    assert sorted(held(storage)) == [(MAX, 1, 5)] * 5 + [(APP, 1, 1)]


def test_a_line_more_is_made_and_a_line_less_ends_with_what_was_paid(
    shop: Executor, storage: Storage
) -> None:
    buy(shop, "pro", 1)
    receive(shop, told(("1", "pro", 1), ("2", "app", 2)), 1)
    assert [one.policy_id for one in live(storage)] == [PRO, APP, APP]
    receive(shop, a_renewal(UNTIL + 30 * DAY, "s", "r"), 24 * 29)
    receive(shop, told(("1", "pro", 1)), 24 * 40)
    pro, *apps = live(storage)
    assert pro.expires_at == UNTIL + 30 * DAY
    assert {(one.expires_at, one.terms) for one in apps} == {(UNTIL + 30 * DAY, None)}
    receive(shop, a_renewal(UNTIL + 60 * DAY, "s", "r2"), 24 * 59)
    assert [one.expires_at for one in live(storage)] == [UNTIL + 60 * DAY, *[UNTIL + 30 * DAY] * 2]


def test_a_line_that_is_gone_at_the_renewal_is_not_paid_with_it(shop: Executor, storage: Storage) -> None:
    buy(shop, "pro", 1)
    receive(shop, told(("1", "pro", 1), ("2", "app", 1)), 1)
    receive(shop, a_renewal(UNTIL + 30 * DAY, "s", "r"), 24 * 30)
    receive(shop, told(("1", "pro", 1)), 24 * 30 + 0.01)
    assert [one.expires_at for one in live(storage)] == [UNTIL + 30 * DAY, UNTIL]


def test_a_line_in_the_place_of_another_has_its_licenses(shop: Executor, storage: Storage) -> None:
    buy(shop, "pro", 2)
    receive(shop, told(("one", "pro", 2)), 1)
    receive(shop, told(("two", "max", 2)), 2)
    assert [(one.id, one.policy_id) for one in live(storage)] == [(1, MAX), (2, MAX)]


def test_what_is_paid_once_stays_whatever_the_subscription_tells(shop: Executor, storage: Storage) -> None:
    lines = (SaleLine("1", ("pro",), recurs=True), SaleLine("2", ("app",), recurs=False))
    buy(shop, "", 0, lines=lines)
    receive(shop, told(("x", "pro", 1)), 1)
    pro, app = live(storage)
    assert (pro.expires_at, app.expires_at) == (UNTIL, None)
    receive(shop, a_state(SaleState.ENDED, subscription="s"), 2)
    assert [one.expires_at for one in live(storage)] == [UNTIL, None]


def test_an_order_is_not_believed_once_the_subscription_has_told_its_lines(
    shop: Executor, storage: Storage
) -> None:
    buy(shop, "pro", 2)
    receive(shop, told(("1", "pro", 3)), 1)
    outcome = got(shop, a_sale("o", 7, subscription="s", until=UNTIL), 2)
    assert outcome.reason is Reason.LISTED_BY_SUBSCRIPTION
    assert len(live(storage)) == 3


def test_an_edited_order_has_what_it_has_now(shop: Executor, storage: Storage) -> None:
    receive(shop, a_sale("o", 2))
    receive(shop, a_sale("o", 3), 1)
    receive(shop, a_sale("o", 2))
    assert len(live(storage)) == 3


def test_lines_before_their_sale_count_when_it_comes(shop: Executor, storage: Storage) -> None:
    outcome = got(shop, told(("1", "max", 3)), 1)
    assert (outcome.state, outcome.reason) == (EventState.IGNORED, Reason.NOT_LICENSED)
    buy(shop, "pro", 1)
    assert held(storage) == [(MAX, 1, 5)] * 3


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("on_cancel", "end"), [(OnCancel.PAID_UNTIL, UNTIL), (OnCancel.AT_ONCE, NOW + DAY)])
def test_a_canceled_subscription_ends_as_the_connection_says_without_grace(
    shop: Executor, storage: Storage, on_cancel: OnCancel, end: datetime
) -> None:
    do(shop, UpdateConnection(context=CONTEXT, connection_id=1, changes={"on_cancel": on_cancel}))
    buy(shop, "pro", 1)
    receive(shop, a_state(SaleState.ENDED, subscription="s"), 24)
    (ended,) = live(storage)
    assert (ended.expires_at, ended.terms) == (end, None)
    receive(shop, a_renewal(UNTIL + 60 * DAY, "s"), 48)
    (resumed,) = live(storage)
    assert (resumed.expires_at, resumed.terms) == (UNTIL + 60 * DAY, '{"grace_days":14}')


def test_what_is_resumed_has_no_end_in_the_past(shop: Executor, storage: Storage) -> None:
    buy(shop, "pro", 1)
    receive(shop, a_state(SaleState.ENDED, subscription="s"), 24 * 30)
    receive(shop, a_state(SaleState.ACTIVE, subscription="s"), 24 * 50)
    assert [one.expires_at for one in live(storage)] == [None]


def test_a_refund_of_a_period_takes_its_time_without_grace_and_one_of_a_proration_nothing(
    shop: Executor, storage: Storage
) -> None:
    buy(shop, "pro", 1)
    receive(shop, a_renewal(UNTIL + 30 * DAY, "s", "r"), 24)
    receive(shop, replace(a_renewal(UNTIL, "s", "p"), until=None), 25)
    refund = a_state(SaleState.REFUNDED, order="p")
    outcome = got(shop, replace(refund, fact=Fact.REFUND), 26)
    assert (outcome.state, outcome.reason, outcome.detail) == (
        EventState.DONE,
        Reason.NO_PERIOD_PAID,
        "p",
    )
    receive(shop, replace(refund, order="r", fact=Fact.REFUND), 27)
    (ended,) = live(storage)
    assert (ended.expires_at, ended.terms) == (UNTIL, None)


# --- by hand --------------------------------------------------------------------------------------


def test_a_limit_that_was_set_by_hand_stays_until_a_person_applies_the_change_anyway(
    shop: Executor, storage: Storage
) -> None:
    buy(shop, "pro-seats", 3)
    by_hand(shop, live(storage)[0], {"max_activations": 50})
    outcome = got(shop, told(("1", "pro-seats", 10)), 1)
    assert (outcome.state, outcome.reason, outcome.detail) == (
        EventState.UNMATCHED,
        Reason.CHANGED_BY_HAND,
        "max_activations",
    )
    assert held(storage) == [(PRO, 10, 50)]
    renewed = got(shop, a_renewal(UNTIL + 30 * DAY, "s"), 2)
    assert renewed.state is EventState.DONE
    waiting = the_events(shop)[1]
    for overwrite, limit in ((False, 50), (True, 20)):
        try_again(shop, waiting.id, overwrite=overwrite)
        assert held(storage) == [(PRO, 10, limit)]


def test_what_undoes_the_change_of_a_shop_is_set_by_hand(shop: Executor, storage: Storage) -> None:
    buy(shop, "pro-seats", 3)
    receive(shop, told(("1", "pro-seats", 10)), 1)
    query = select(events.c.id).where(events.c.name == "license.updated")
    with storage.read() as tx:
        changed = tx.connection.execute(query).scalar_one()
    do(shop, UndoEvent(context=CONTEXT, license=1, event_id=changed))
    assert held(storage) == [(PRO, 10, 6)]
    outcome = got(shop, told(("1", "pro-seats", 12)), 2)
    assert (outcome.reason, outcome.detail) == (Reason.CHANGED_BY_HAND, "max_activations")
    assert held(storage) == [(PRO, 12, 6)]


def test_a_policy_that_was_chosen_by_hand_stays_and_its_limits_follow_the_quantity(
    shop: Executor, storage: Storage
) -> None:
    buy(shop, "pro-seats", 2)
    do(shop, UpdateLicense(context=CONTEXT, license=1, changes={"policy_id": FREE}))
    receive(shop, told(("1", "pro-seats", 3)), 1)
    assert held(storage) == [(FREE, 3, None)]
    outcome = got(shop, told(("1", "max-seats", 3)), 2)
    assert outcome.reason is Reason.CHANGED_BY_HAND
    assert held(storage) == [(FREE, 3, None)]


# --- what cannot be -------------------------------------------------------------------------------


def test_a_limit_that_no_license_can_have_waits_and_is_not_cut(shop: Executor, storage: Storage) -> None:
    buy(shop, "max-seats", 2)
    outcome = got(shop, told(("1", "max-seats", 4_000)), 1)
    assert (outcome.state, outcome.reason) == (EventState.UNMATCHED, Reason.LIMIT_TOO_HIGH)
    assert held(storage) == [(MAX, 2, 10)]


def test_an_archived_policy_makes_no_more_keys_and_lets_devices_follow(
    shop: Executor, storage: Storage
) -> None:
    lines = (SaleLine("1", ("pro",), recurs=True), SaleLine("2", ("max-seats",), recurs=True))
    buy(shop, "", 0, lines=lines)
    for number in (PRO, MAX):
        do(shop, UpdatePolicy(context=CONTEXT, policy_id=number, is_archived=True))
    outcome = got(shop, told(("1", "pro", 2), ("2", "max-seats", 2)), 1)
    assert (outcome.state, outcome.reason) == (EventState.UNMATCHED, Reason.UNUSABLE_POLICY)
    assert held(storage) == [(PRO, 1, 2), (MAX, 2, 10)]


def test_two_things_of_one_moment_are_an_entry_and_the_larger_counts(
    shop: Executor, storage: Storage
) -> None:
    buy(shop, "pro", 1)
    receive(shop, told(("1", "pro", 3)), 1)
    outcome = got(shop, told(("1", "pro", 2)), 1)
    assert (outcome.state, outcome.reason) == (EventState.UNMATCHED, Reason.SAME_MOMENT)
    assert len(live(storage)) == 3
    receive(shop, told(("1", "pro", 2), is_asked=True), 1)
    assert len(live(storage)) == 2


# --- paid, and not held ---------------------------------------------------------------------------


def test_a_renewal_extends_at_once_and_waits_in_the_list_if_its_lines_do_not_come(
    shop: Executor, storage: Storage
) -> None:
    buy(shop, "pro-seats", 3)
    renewal = replace(a_renewal(UNTIL + 30 * DAY, "s", "r"), lines=(SaleLine("i", ("pro-seats",), 10),))
    outcome = got(shop, renewal, 1)
    assert (outcome.state, outcome.look_at) == (EventState.DONE, NOW + timedelta(hours=1))
    assert live(storage)[0].expires_at == UNTIL + 30 * DAY
    event = the_events(shop)[-1]
    late = work(shop, event.id)
    assert late is not None
    assert (late.state, late.reason, late.detail) == (
        EventState.UNMATCHED,
        Reason.PAID_NOT_HELD,
        "paid for 10, holds 3",
    )


def test_a_renewal_whose_lines_come_is_done(shop: Executor, storage: Storage) -> None:
    buy(shop, "pro-seats", 3)
    renewal = replace(a_renewal(UNTIL + 30 * DAY, "s", "r"), lines=(SaleLine("i", ("pro-seats",), 10),))
    receive(shop, renewal, 1)
    event = the_events(shop)[-1]
    receive(shop, told(("1", "pro-seats", 10)), 1.1)
    late = work(shop, event.id)
    assert late is not None
    assert (late.state, late.detail, late.look_at) == (EventState.DONE, event.detail, None)
    assert held(storage) == [(PRO, 10, 20)]


def test_a_sale_whose_period_never_comes_warns(shop: Executor, storage: Storage) -> None:
    outcome = buy(shop, "pro", 1, until=None, needs_period=True)
    assert (outcome.state, outcome.look_at) == (EventState.DONE, NOW + timedelta(hours=1))
    event = the_events(shop)[-1]
    late = work(shop, event.id)
    assert late is not None
    assert (late.state, late.reason) == (EventState.UNMATCHED, Reason.NO_PERIOD)


# --- large ones -----------------------------------------------------------------------------------


def test_hundreds_of_keys_are_made_and_changed_in_several_transactions(
    shop: Executor, storage: Storage
) -> None:
    buy(shop, "pro", 250)
    outcome = got(shop, told(("1", "max", 270)), 1)
    assert outcome.detail == "250 licenses: policy 1 → 2; 250 licenses: devices 2 → 5; 20 licenses: made"
    assert set(held(storage)) == {(MAX, 1, 5)}
    assert len(live(storage)) == 270
    assert mailed_licenses(storage)[-1] == tuple(range(251, 271))
    outcome = got(shop, told(("1", "max", 10)), 2)
    assert outcome.detail == "260 licenses: ended"
    assert mails(storage) == ["your_license", "your_license", "changed"]
    assert len(mailed_licenses(storage)[-1]) == 10


def mailed_licenses(storage: Storage) -> list[tuple[int, ...]]:
    with storage.read() as tx:
        found = tx.connection.execute(select(mail_outbox.c.subject).order_by(mail_outbox.c.id)).scalars()
        return [tuple(json.loads(one)["license_ids"]) for one in found]


# --- what the shop is asked -----------------------------------------------------------------------


def asked(*lines: tuple[str, str, int]) -> ShopEvent:
    return ShopEvent(id="asked/1", name="subscription", at=NOW + DAY, change=told(*lines, is_asked=True))


def test_what_is_paid_and_not_held_waits_and_can_be_applied(shop: Executor, storage: Storage) -> None:
    buy(shop, "pro-seats", 3)

    def difference(*lines: tuple[str, str, int]) -> str | None:
        found: str | None = ask(shop, FindDifference(connection_id=1, event=asked(*lines)))
        return found

    assert difference(("1", "pro-seats", 3)) is None
    assert difference(("1", "pro-seats", 3), ("2", "new", 1)) is None
    paid = difference(("1", "pro-seats", 10))
    assert paid == "paid for 10, holds 3"
    opened = ask(shop, OpenConnection(connection_id=1))
    row_id = do(shop, note(opened, asked(("1", "pro-seats", 10)), CONTEXT, paid))
    waiting = the_events(shop)[-1]
    assert (waiting.state, waiting.reason, waiting.detail) == (
        EventState.UNMATCHED,
        Reason.PAID_NOT_HELD,
        paid,
    )
    assert do(shop, note(opened, asked(("1", "pro-seats", 10)), CONTEXT, paid)) is None
    try_again(shop, row_id)
    assert held(storage) == [(PRO, 10, 20)]
    assert difference(("1", "pro-seats", 10)) is None


def test_a_subscription_that_was_not_sold_here_is_no_difference(shop: Executor) -> None:
    assert ask(shop, FindDifference(connection_id=1, event=asked(("1", "pro", 4)))) is None


def test_one_server_looks_at_a_shop_each_night(shop: Executor) -> None:
    def claim(hours: int) -> bool:
        context = replace(CONTEXT, now=NOW + timedelta(hours=hours))
        claimed: bool = do(
            shop, ClaimLook(context=context, connection_id=1, before=context.now - timedelta(hours=24))
        )
        return claimed

    assert [claim(hours) for hours in (0, 0, 23, 25, 26)] == [True, False, False, True, False]
    # A wrong clock delays nothing once it is right again.
    assert [claim(hours) for hours in (9_600, 30, 31)] == [True, True, False]
    do(shop, SaveTopics(context=CONTEXT, connection_id=1, missing=("invoice.paid",)))
    assert ask(shop, GetConnection(connection_id=1)).missing_topics == ("invoice.paid",)
