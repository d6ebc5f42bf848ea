"""Renewals and upgrades: a later purchase changes the license that it names, in any order of the events."""

from datetime import datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import delete, select

from keywright.db import Storage, run_write
from keywright.db.schema import later_purchases, mail_outbox, payments, sold_licenses, sold_lines
from keywright.engine.executor import Executor
from keywright.licensing.licenses.keys import make_license_ref
from keywright.licensing.licenses.model import License, Status, UpdateLicense
from keywright.licensing.licenses.rules import terms_of
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.provisioning.shops.commands import FindSoldLicenses
from keywright.provisioning.shops.event_rules import require_usable
from keywright.provisioning.shops.model import (
    Change,
    Does,
    EventState,
    Fact,
    MappedProduct,
    Reason,
    Sale,
    SaleLine,
    SaleState,
)
from tests.connections import (
    CONTEXT,
    a_renewal,
    a_sale,
    a_state,
    an_event,
    ask,
    connect,
    do,
    receive_all,
)
from tests.makers import NOW, create_policy, create_product
from tests.storage.stored import find_license, got, try_again
from tests.storage.test_selling import issue

DATABASES = ("sqlite",)
# Each event is several transactions.
pytestmark = pytest.mark.tier("ordinary")

DAY = timedelta(days=1)
YEAR = timedelta(days=365)
#: "app" is of another product.
POLICIES: dict[str, dict[str, Any]] = {
    "pro": {"max_activations": 2, "valid_for_days": 365},
    "max": {"max_activations": 5, "entitlements": ["max"]},
    "trial": {"max_activations": 1, "valid_for_days": 14, "trial": True},
    "app": {"valid_for_days": 365},
    "huge": {"max_activations": 2**30},
}
PRO, MAX, TRIAL, APP, HUGE = 1, 2, 3, 4, 5


@pytest.fixture
def shop(executor: Executor) -> Executor:
    """Connection 1 sells "pro", a year more of it, and the step up to "max"."""
    for number in (1, 2):
        do(executor, create_product(number))
    for name, terms in POLICIES.items():
        product_id = 2 if name == "app" else 1
        do(executor, create_policy(name=name, terms=terms, product_id=product_id))
    mapping = (
        MappedProduct("pro", PRO),
        MappedProduct("year", PRO, does=Does.RENEW),
        MappedProduct("step", MAX, does=Does.UPGRADE),
        MappedProduct("paid", PRO, does=Does.UPGRADE),
        MappedProduct("app-year", APP, does=Does.RENEW),
        MappedProduct("endless", MAX, does=Does.RENEW),
        MappedProduct("huge", HUGE, does=Does.UPGRADE),
    )
    connect(executor, mapping=mapping)
    return executor


def sell(shop: Executor, storage: Storage, policy_id: int = PRO, **fields: Any) -> License:
    """A license that no shop has sold."""
    do(shop, CreateCustomer(context=CONTEXT, fields=NewCustomer(id=7, email="grace@example.com")))
    given = {"policy_id": policy_id, "customer_id": 7} | fields
    (made,) = do(shop, issue(**given)).licenses
    return find_license(storage, made.license.id)


def ref(storage: Storage, license_id: int = 1) -> str:
    with storage.read() as tx:
        return make_license_ref(tx.key_ring, license_id)


def a_purchase(storage: Storage, order: str, product: str = "year", quantity: int = 1, **fields: Any) -> Sale:
    lines = (SaleLine("1", (product,), quantity, license_ref=ref(storage)),)
    return a_sale(order, lines=lines, **fields)


def refund(order: str) -> Change:
    return replace(a_state(SaleState.REFUNDED, order=order), fact=Fact.REFUND)


def mails(storage: Storage) -> list[tuple[str, int | None]]:
    columns = (mail_outbox.c.template, mail_outbox.c.customer_id)
    with storage.read() as tx:
        rows = tx.connection.execute(select(*columns).order_by(mail_outbox.c.id))
        return [(row.template, row.customer_id) for row in rows]


def test_a_renewal_extends_from_the_later_of_expiry_and_payment_and_a_refund_takes_it_back(
    shop: Executor, storage: Storage
) -> None:
    before = sell(shop, storage)
    outcome = got(shop, a_purchase(storage, "first"))
    assert (outcome.state, outcome.reason) == (EventState.DONE, None)
    assert "until" in (outcome.detail or "")
    assert find_license(storage).expires_at == NOW + 2 * YEAR
    assert mails(storage) == [("renewed", 7)]
    assert got(shop, a_purchase(storage, "first"), hours=1).reason is Reason.ALREADY_SO
    late = 3 * 365 * 24
    got(shop, a_purchase(storage, "late", quantity=2), late)
    assert find_license(storage).expires_at == NOW + 5 * YEAR
    got(shop, refund("first"), late + 1)
    assert find_license(storage).expires_at == NOW + 5 * YEAR
    got(shop, refund("late"), late + 2)
    assert find_license(storage).expires_at == before.expires_at
    canceled = replace(a_state(SaleState.ACTIVE, order="first"), fact=Fact.REFUND)
    got(shop, canceled, late + 3)
    assert find_license(storage).expires_at == NOW + 2 * YEAR
    now = find_license(storage)
    assert (now.key, now.policy_id, now.times_activated_max, now.customer_id) == (before.key, PRO, 2, 7)


@pytest.mark.smoke
def test_an_upgrade_gives_the_terms_of_its_policy_and_a_refund_those_before(
    shop: Executor, storage: Storage
) -> None:
    before = sell(shop, storage)
    assert "policy 1 → 2" in (got(shop, a_purchase(storage, "up", "step")).detail or "")
    now = find_license(storage)
    assert (now.key, now.policy_id, now.times_activated_max, now.expires_at) == (before.key, MAX, 5, None)
    assert terms_of(now).entitlements == ("max",)
    assert mails(storage) == [("changed", 7)]
    got(shop, a_state(SaleState.SUSPENDED, order="up"), hours=1)
    assert find_license(storage).policy_id == PRO
    got(shop, a_state(SaleState.ACTIVE, order="up"), hours=2)
    got(shop, refund("up"), hours=3)
    now = find_license(storage)
    assert (now.policy_id, now.expires_at, terms_of(now)) == (PRO, before.expires_at, terms_of(before))


def test_a_trial_becomes_a_license_of_its_buyer(shop: Executor, storage: Storage) -> None:
    trial = sell(shop, storage, TRIAL, customer_id=None)
    assert trial.customer_id is None
    got(shop, a_purchase(storage, "paid", "paid"), hours=24)
    now = find_license(storage)
    assert (now.key, terms_of(now).trial, now.times_activated_max) == (trial.key, False, 2)
    assert now.expires_at == NOW + DAY + YEAR
    assert now.customer_id is not None
    assert mails(storage) == [("your_license", now.customer_id)]
    got(shop, refund("paid"), hours=48)
    now = find_license(storage)
    assert (terms_of(now).trial, now.expires_at) == (True, trial.expires_at)


@pytest.mark.parametrize(
    ("product", "named", "reason"),
    [
        ("year", None, Reason.NO_LICENSE),
        ("year", "kwr_" + "A" * 32, Reason.NO_LICENSE),
        ("year", "K7QX2-9MPRD", Reason.NO_LICENSE),
        ("app-year", "own", Reason.NO_LICENSE),
        ("endless", "own", Reason.UNUSABLE_POLICY),
        ("huge", "own", Reason.LIMIT_TOO_HIGH),
    ],
)
def test_what_names_no_license_of_the_product_waits(
    shop: Executor, storage: Storage, product: str, named: str | None, reason: Reason
) -> None:
    before = sell(shop, storage, units=4)
    text = ref(storage) if named == "own" else named
    lines = (SaleLine("1", (product,), license_ref=text), SaleLine("2", ("pro",)))
    outcome = got(shop, a_sale("o", lines=lines))
    assert (outcome.state, outcome.reason) == (EventState.UNMATCHED, reason)
    assert find_license(storage) == before
    # The other line has its license.
    assert find_license(storage, 2).policy_id == PRO


def test_a_disabled_license_is_not_renewed_until_a_person_has_looked(
    shop: Executor, storage: Storage
) -> None:
    sell(shop, storage)
    do(shop, UpdateLicense(context=CONTEXT, license=1, changes={"status": Status.DISABLED}))
    outcome = got(shop, a_purchase(storage, "a"))
    assert (outcome.reason, outcome.detail) == (Reason.NO_LICENSE, "license 1 is disabled")
    do(shop, UpdateLicense(context=CONTEXT, license=1, changes={"status": Status.ACTIVE}))
    try_again(shop, 1)
    assert find_license(storage).expires_at == NOW + 2 * YEAR


def test_an_event_is_about_the_licenses_of_its_own_order(shop: Executor, storage: Storage) -> None:
    sell(shop, storage)
    (other,) = do(shop, issue(policy_id=PRO)).licenses
    got(shop, a_purchase(storage, "a"))
    lines = (SaleLine("1", ("year",), license_ref=ref(storage, other.license.id)),)
    got(shop, a_sale("b", lines=lines))
    for change in (refund("b"), a_sale("c"), a_renewal(NOW, "s")):
        find = FindSoldLicenses(connection_id=1, event=an_event(change))
        assert ask(shop, find) == ({other.license.id} if change == refund("b") else set()), change


def test_a_ref_in_the_metadata_of_the_order_names_the_license_of_each_line(
    shop: Executor, storage: Storage
) -> None:
    sell(shop, storage)
    for order, name in (("a", "license_ref"), ("b", "client_reference_id")):
        lines = (SaleLine("1", ("year",)),)
        event = require_usable(an_event(a_sale(order, lines=lines, metadata={name: ref(storage)})))
        receive_all(shop, [event])
    assert find_license(storage).expires_at == NOW + 3 * YEAR


def test_time_that_was_bought_is_added_to_an_expiry_that_was_set_by_hand(
    shop: Executor, storage: Storage
) -> None:
    sell(shop, storage)
    got(shop, a_purchase(storage, "a"))
    by_hand = NOW + 2 * YEAR + 10 * DAY
    do(shop, UpdateLicense(context=CONTEXT, license=1, changes={"expires_at": by_hand}))
    got(shop, a_purchase(storage, "b"), hours=1)
    assert find_license(storage).expires_at == by_hand + YEAR
    outcome = got(shop, refund("b"), hours=2)
    assert (outcome.state, outcome.reason) == (EventState.UNMATCHED, Reason.CHANGED_BY_HAND)
    assert find_license(storage).expires_at == by_hand + YEAR
    try_again(shop, 3, overwrite=True)
    assert find_license(storage).expires_at == NOW + 2 * YEAR


def test_a_limit_that_was_set_by_hand_stays_in_an_upgrade_until_a_person_applies_it_anyway(
    shop: Executor, storage: Storage
) -> None:
    sell(shop, storage)
    do(shop, UpdateLicense(context=CONTEXT, license=1, terms={"max_activations": 9}))
    outcome = got(shop, a_purchase(storage, "up", "step"))
    assert (outcome.state, outcome.reason) == (EventState.UNMATCHED, Reason.CHANGED_BY_HAND)
    assert "max_activations" in (outcome.detail or "")
    now = find_license(storage)
    assert (now.policy_id, now.times_activated_max, terms_of(now).entitlements) == (MAX, 9, ("max",))
    try_again(shop, 1, overwrite=True)
    assert find_license(storage).times_activated_max == 5


def test_each_payment_of_a_subscription_renews_once_more(shop: Executor, storage: Storage) -> None:
    sell(shop, storage)
    got(shop, a_purchase(storage, "in_1", subscription="s", until=NOW + YEAR))
    got(shop, a_renewal(NOW + YEAR, "s", "in_1"), hours=1)
    assert find_license(storage).expires_at == NOW + 2 * YEAR
    got(shop, a_renewal(NOW + 2 * YEAR, "s", "in_2"), hours=365 * 24)
    assert find_license(storage).expires_at == NOW + 3 * YEAR
    got(shop, refund("in_2"), hours=366 * 24)
    assert find_license(storage).expires_at == NOW + 2 * YEAR


def test_every_order_of_purchases_and_refunds_ends_alike(shop: Executor, storage: Storage) -> None:
    sell(shop, storage)
    moments: list[tuple[Change, float]] = [
        (a_purchase(storage, "a"), 1),
        (a_purchase(storage, "up", "paid"), 24 * 400),
        (a_purchase(storage, "b", quantity=2), 24 * 900),
        (refund("a"), 24 * 901),
    ]
    tables = (later_purchases, payments, sold_lines, sold_licenses)
    ends: set[tuple[datetime | None, int | None]] = set()
    first = find_license(storage)
    for order in permutations(moments):
        receive_all(shop, [an_event(change, hours) for change, hours in (*order, order[0])])
        now = find_license(storage)
        ends.add((now.expires_at, now.policy_id))
        run_write(storage, lambda tx: [tx.connection.execute(delete(one)) for one in tables])
        changes = {"expires_at": first.expires_at, "policy_id": first.policy_id}
        do(shop, UpdateLicense(context=CONTEXT, license=1, changes=changes))
    assert ends == {(NOW + 900 * DAY + 2 * YEAR, PRO)}
