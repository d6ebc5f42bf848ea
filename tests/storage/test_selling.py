"""Licenses over the management API: made from policies and for orders, changed, given new keys."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from keywright.core import errors as e
from keywright.core.command import Command, Context
from keywright.db import Storage
from keywright.db.schema import rotated_keys
from keywright.engine.executor import Executor
from keywright.events import store as event_store
from keywright.licensing.licenses.model import (
    ApplyTerms,
    ExtendLicense,
    License,
    Order,
    Status,
    UpdateLicense,
    order_of,
)
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.management import ChangeAndShow, GetLicense
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.provisioning.licenses import CustomerReference, IssueLicenses, MoveLicense, RotateKey
from tests.makers import (
    KEY,
    NOW,
    activate,
    an_origin,
    create,
    create_policy,
    create_product,
    delete,
    generate,
    update_policy,
    validate,
)

DATABASES = ("sqlite",)

CONTEXT = Context(NOW, an_origin(), 1)
EXPIRED = {"expires_at": NOW, "has_expiry": True}
LINE = Order("shop", "1042", "7")


def issue(**fields: Any) -> IssueLicenses:
    return IssueLicenses(context=CONTEXT, status=Status.ACTIVE, **fields)


def update(key: str | int = KEY, **fields: Any) -> UpdateLicense:
    return UpdateLicense(context=CONTEXT, license=key, **fields)


def extend(key: str = KEY, **fields: Any) -> ExtendLicense:
    return ExtendLicense(context=CONTEXT, license=key, **fields)


def do(executor: Executor, command: Command) -> Any:
    (outcome,) = executor.execute([command])
    return outcome


def issued(executor: Executor, **fields: Any) -> list[License]:
    return [one.license for one in do(executor, issue(**fields)).licenses]


# --- new licenses -----------------------------------------------------------------------------------


def test_a_license_is_made_with_its_own_key_and_terms(executor: Executor) -> None:
    terms = {"max_activations": 3, "valid_for_days": 30, "grace_days": 7}
    (one,) = issued(executor, key="OWN", terms=terms, metadata='{"a":1}', product_id=3)
    assert (one.key, one.product_id, one.metadata, one.policy_id) == ("OWN", 3, '{"a":1}', None)
    assert one.expires_at == NOW + timedelta(days=30)
    assert terms_of(one).grace_days == 7
    assert terms_of(one).max_activations == 3
    assert isinstance(do(executor, issue(key="OWN")), e.LicenseKeyTaken)


def test_a_policy_gives_terms_product_and_keys_that_can_be_replaced(executor: Executor) -> None:
    do(executor, create_product(5))
    do(executor, create_policy(product_id=5, terms={"max_activations": 2, "grace_days": 9}))
    made = issued(executor, policy_id=1, quantity=3, order=Order("shop", "1", None, 4))
    assert len({one.key for one in made}) == 3
    assert [order_of(one).index for one in made] == [4, 5, 6]
    assert {(one.product_id, one.policy_id, terms_of(one).grace_days) for one in made} == {(5, 1, 9)}
    (one,) = issued(
        executor, policy_id=1, product_id=6, terms={"grace_days": 1}, expires_at=NOW, has_expiry=True
    )
    assert (one.product_id, one.expires_at) == (6, NOW)
    assert (terms_of(one).grace_days, terms_of(one).max_activations) == (1, 2)


def test_an_archived_policy_makes_no_license(executor: Executor) -> None:
    do(executor, create_policy())
    do(executor, msgspec.structs.replace(update_policy(1), is_archived=True))
    assert isinstance(do(executor, issue(policy_id=1)), e.PolicyArchived)
    assert isinstance(do(executor, generate(1, 1)), e.PolicyArchived)
    assert isinstance(do(executor, issue(policy_id=2)), e.UnknownReference)


def test_wrong_terms_make_no_license(executor: Executor) -> None:
    outcome = do(executor, issue(key="OWN", terms={"grace_days": -1}))
    assert isinstance(outcome, e.InvalidTerms)
    assert isinstance(do(executor, update("OWN")), e.UnknownLicense)


def test_the_customer_is_found_or_made(executor: Executor) -> None:
    ada = do(executor, CreateCustomer(context=CONTEXT, fields=NewCustomer(email="ada@example.com")))
    (one,) = issued(executor, key="1", customer=CustomerReference(email="ADA@example.com"))
    (other,) = issued(executor, key="2", customer=CustomerReference(email="bob@example.com", name="Bob"))
    (third,) = issued(executor, key="3", customer=CustomerReference(id=17))
    assert one.customer_id == ada.id
    assert other.customer_id not in (None, ada.id)
    assert third.customer_id == 17


def test_an_order_line_is_sold_once(executor: Executor) -> None:
    do(executor, create_policy())
    first = do(executor, issue(policy_id=1, order=LINE, quantity=2))
    again = do(executor, issue(policy_id=1, order=LINE, quantity=2))
    assert (first.is_new, again.is_new) == (True, False)
    assert again.licenses == first.licenses
    more = do(executor, issue(policy_id=1, order=LINE, quantity=3))
    assert more.is_new
    assert more.licenses[:2] == first.licenses


def test_an_order_line_is_sold_once_in_a_batch(executor: Executor) -> None:
    first, again, other = executor.execute(
        [issue(key="A", order=LINE), issue(key="B", order=LINE), issue(key="C", order=Order("shop", "1042"))]
    )
    assert first.licenses == again.licenses
    assert other.is_new
    assert order_of(other.licenses[0].license) == Order("shop", "1042")


def test_an_order_without_a_line_is_sold_again(executor: Executor) -> None:
    assert {len(issued(executor, key=key, order=Order(id="5"))) for key in "AB"} == {1}


def test_a_key_for_one_product_makes_its_licenses_only(executor: Executor) -> None:
    do(executor, create_product(5))
    do(executor, create_policy(product_id=5))
    do(executor, create_policy())
    assert isinstance(do(executor, issue(policy_id=1, only_product_id=6)), e.UnknownReference)
    assert isinstance(do(executor, issue(policy_id=2, only_product_id=5)), e.UnknownReference)
    assert isinstance(do(executor, issue(key="A", product_id=6, only_product_id=5)), e.UnknownReference)
    (one,) = issued(executor, key="A", only_product_id=5, order=LINE)
    assert one.product_id == 5
    assert isinstance(do(executor, issue(key="B", only_product_id=6, order=LINE)), e.OrderLineTaken)


# --- changes ----------------------------------------------------------------------------------------


def test_terms_are_merged_under_the_lock(executor: Executor) -> None:
    issued(executor, key=KEY, terms={"max_activations": 2, "grace_days": 3, "entitlements": ["pro"]})
    executor.execute([activate(KEY), activate(KEY)])
    one, two = executor.execute(
        [update(terms={"grace_days": 5}), update(terms={"max_activations": 1, "entitlements": None})]
    )
    assert terms_of(one.license).grace_days == 5
    terms = terms_of(two.license)
    assert (terms.grace_days, terms.max_activations, terms.entitlements) == (5, 1, ())
    assert two.license.times_activated == 2
    assert isinstance(do(executor, activate(KEY)), e.LimitReached)
    assert isinstance(do(executor, update(terms={"grace": 5})), e.InvalidTerms)


def test_metadata_and_the_order_are_merged(executor: Executor) -> None:
    issued(executor, key=KEY, metadata='{"a":{"b":1,"c":2}}', order=LINE)
    change = update(metadata={"a": {"b": None}, "d": 3}, order={"line": None, "id": "9"})
    license = do(executor, change).license
    assert msgspec.json.decode(license.metadata) == {"a": {"c": 2}, "d": 3}
    assert (order_of(license), license.order_id) == (Order("shop", "9"), 9)
    assert do(executor, update(metadata=None)).license.metadata is None
    assert isinstance(do(executor, update(metadata={"a": "x" * 20_000})), e.InvalidParameters)


def test_an_order_line_cannot_be_given_to_a_second_license(executor: Executor) -> None:
    issued(executor, key=KEY, order=LINE)
    issued(executor, key="OTHER")
    line = {"source": "shop", "id": "1042", "line": "7"}
    assert isinstance(do(executor, update("OTHER", order=line)), e.OrderLineTaken)
    assert order_of(do(executor, update(order=line)).license) == LINE


def test_a_precondition_is_looked_at_under_the_lock(executor: Executor) -> None:
    issued(executor, key=KEY)
    seen: list[License] = []

    def refuse(license: License) -> None:
        seen.append(license)
        raise e.ChangedMeanwhile

    outcomes = executor.execute(
        [
            update(changes={"product_id": 4}),
            update(changes={"product_id": 5}, precondition=refuse),
            msgspec.structs.replace(delete(KEY), precondition=refuse),
        ]
    )
    assert [type(one) for one in outcomes[1:]] == [e.ChangedMeanwhile] * 2
    assert [one.product_id for one in seen] == [4, 4]


@pytest.mark.parametrize(
    ("fields", "days"),
    [
        ({"days": 5}, 15),
        ({"days": 15, "is_from_now": True}, 15),
        ({"days": 5, "is_from_later": True}, 15),
        ({"until": NOW + timedelta(days=20)}, 20),
    ],
)
def test_a_license_is_renewed(executor: Executor, fields: dict[str, Any], days: int) -> None:
    issued(executor, key=KEY, terms={"valid_for_days": 10})
    assert do(executor, extend(**fields)).license.expires_at == NOW + timedelta(days=days)


def test_an_expired_license_is_renewed_from_the_later_of_both(executor: Executor) -> None:
    issued(executor, key=KEY, expires_at=NOW - timedelta(days=90), has_expiry=True)
    license = do(executor, extend(days=5, is_from_later=True)).license
    assert license.expires_at == NOW + timedelta(days=5)


def test_a_renewal_never_puts_the_expiry_forward(executor: Executor) -> None:
    issued(executor, key=KEY, terms={"valid_for_days": 10})
    assert isinstance(do(executor, extend(until=NOW)), e.ExpiresLater)
    issued(executor, key="ENDLESS")
    assert isinstance(do(executor, extend("ENDLESS", days=1)), e.NeverExpires)


def test_terms_of_a_policy_are_applied_to_a_license_once(executor: Executor) -> None:
    issued(executor, key=KEY, terms={"grace_days": 1})
    apply = ApplyTerms(context=CONTEXT, license=KEY, terms={"grace_days": 9})
    assert terms_of(do(executor, apply).license).grace_days == 9
    assert isinstance(do(executor, apply), e.NothingToChange)


def test_a_term_that_was_set_by_hand_is_overwritten_only_where_that_is_asked_for(executor: Executor) -> None:
    policy = do(executor, create_policy(terms={"grace_days": 1}))
    (one,) = issued(executor, policy_id=policy.id)
    do(executor, update(one.id, terms={"grace_days": 5}))
    apply = ApplyTerms(context=CONTEXT, license=one.id, terms={"grace_days": 9})
    refusal = do(executor, apply)
    assert isinstance(refusal, e.SetByHand)
    assert refusal.fields == ("grace_days",)
    forced = do(executor, msgspec.structs.replace(apply, overwrite=True)).license
    assert (terms_of(forced).grace_days, forced.rule_terms) == (9, None)


def test_a_license_is_moved_to_another_policy_once(executor: Executor, storage: Storage) -> None:
    for places in (2, 5):
        do(executor, create_policy(name=f"For {places}", terms={"max_activations": places}))
    (one,) = issued(executor, policy_id=1)
    move = MoveLicense(context=CONTEXT, license=one.id, policy_id=2)
    for _ in range(2):
        moved = do(executor, move).license
        assert (moved.policy_id, moved.times_activated_max) == (2, 5)
    with storage.read() as tx:
        happened = event_store.list_events(tx, one.id, limit=9)
    (changed,) = [event.details for event in happened if event.name == "license.changed"]
    assert (changed or {})["policy_id"] == [1, 2]
    do(executor, ApplyTerms(context=CONTEXT, license=one.id, terms={"grace_days": 9}))
    with storage.read() as tx:
        (event, *_) = event_store.list_events(tx, one.id, limit=1)
    assert (event.name, event.details) == ("license.updated", {"grace_days": [0, 9]})


def test_the_event_of_a_deletion_states_what_was_deleted(executor: Executor, storage: Storage) -> None:
    order, fields = Order("shop", "1042", "7", 1), {"external_id": "deal 7"}
    issued(executor, key=KEY, product_id=5, fields=fields, order=order)
    do(executor, delete(KEY))
    with storage.read() as tx:
        (event, *_) = event_store.list_events(tx, 1, limit=5)
    assert event.details == {
        "key": "…1",
        "times_activated": 0,
        "status": "active",
        "product_id": 5,
        "external_id": "deal 7",
        "order": {"source": "shop", "id": "1042", "line": "7", "index": 1},
    }


def test_the_event_of_a_change_has_what_was_there_before_and_after(
    executor: Executor, storage: Storage
) -> None:
    issued(executor, key=KEY, metadata='{"a":1}', order=LINE, terms={"max_activations": 2})
    changes = [
        (update(KEY, metadata={"a": 2}), {"metadata": "changed"}),
        (
            update(KEY, terms={"grace_days": 5, "max_activations": 3, "valid_for_days": 9}),
            {"grace_days": [0, 5], "times_activated_max": [2, 3], "valid_for_days": [None, 9]},
        ),
        (update(KEY, changes={"status": Status.SOLD}), {"status": [Status.ACTIVE, Status.SOLD]}),
        (update(KEY, order={"line": "8"}), {"order": "changed"}),
        (update(KEY, changes={"order_id": 9}), {"order": "changed", "order_id": [1042, 9]}),
        (update(KEY, order={"source": "shop"}), {}),
        (update(KEY, changes={"key": "KEY-2"}), {"key": ["…1", "…2"]}),
    ]
    for change, expected in changes:
        license = do(executor, change).license
        with storage.read() as tx:
            (event, *_) = event_store.list_events(tx, 1, limit=1)
        assert (event.name, event.details) == ("license.updated", expected)
    assert (license.metadata, order_of(license)) == ('{"a":2}', Order("shop", "9"))


def test_an_expiry_that_is_put_off_is_a_renewal(executor: Executor, storage: Storage) -> None:
    issued(executor, key=KEY, **EXPIRED)
    do(executor, update(KEY, changes={"expires_at": NOW + timedelta(days=1)}))
    do(executor, update(KEY, changes={"expires_at": NOW}))
    with storage.read() as tx:
        happened = [(one.name, one.details) for one in event_store.list_events(tx, 1, limit=3)]
    assert [name for name, _ in happened] == ["license.updated", "license.renewed", "license.updated"]
    assert happened[1][1] == {"expires_at": "2026-01-16T12:30:45Z"}


# --- keys -------------------------------------------------------------------------------------------


def list_rotated(storage: Storage) -> list[str]:
    """The keys that licenses had before."""
    with storage.read() as tx:
        rows = tx.connection.execute(rotated_keys.select()).all()
        return sorted(tx.key_ring.unseal_key(row.sealed_key, row.license_id) for row in rows)


def test_a_rotated_key_is_unknown_and_kept_sealed(executor: Executor, storage: Storage) -> None:
    do(executor, create_policy(prefix="HEX-"))
    (one,) = issued(executor, policy_id=1)
    executor.execute([activate(one.key)])
    rotated = do(executor, ChangeAndShow(context=CONTEXT, change=RotateKey(context=CONTEXT, license=one.id)))
    new = rotated.license
    assert new.key.startswith("HEX-")
    assert new.key != one.key
    assert new.times_activated == 1
    assert isinstance(executor.query([validate(one.key)])[0], e.UnknownLicense)
    assert len(executor.query([validate(new.key)])[0].activations) == 1
    assert list_rotated(storage) == [one.key]


def test_a_license_without_a_policy_gets_a_key_in_the_usual_form(executor: Executor) -> None:
    do(executor, create(KEY))
    key = do(executor, RotateKey(context=CONTEXT, license=KEY)).license.key
    assert len(key) == 35


def test_a_key_that_goes_to_and_fro_is_kept_once(executor: Executor, storage: Storage) -> None:
    do(executor, create("A"))
    for old, new in ("AB", "BA", "AB"):
        do(executor, update(old, changes={"key": new}))
    assert list_rotated(storage) == ["A", "B"]


def test_a_change_of_another_product_is_not_for_a_key_of_one_product(executor: Executor) -> None:
    issued(executor, key=KEY, product_id=5)
    change = update(changes={"product_id": 6}, only_product_id=5)
    assert isinstance(do(executor, ChangeAndShow(context=CONTEXT, change=change)), e.UnknownReference)
    assert isinstance(do(executor, update(only_product_id=6)), e.UnknownLicense)
    (shown,) = executor.query([GetLicense(license_id=1, now=NOW, only_product_id=5)])
    assert shown.license.product_id == 5
    (hidden,) = executor.query([GetLicense(license_id=1, now=NOW, only_product_id=6)])
    assert isinstance(hidden, e.UnknownLicense)
