"""Generators and their licenses."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from keywright.core.command import Command, Context
from keywright.core.errors import InvalidParameters, PolicyTooWeak, UnknownPolicy
from keywright.db import Storage
from keywright.engine.executor import Executor
from keywright.events import store as event_store
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import LicenseFilter, LicenseSource, Status
from keywright.licensing.licenses.rules import terms_of
from keywright.licensing.terms.model import Terms
from keywright.licensing.terms.rules import merge_terms
from keywright.provisioning.policies.model import GetPolicy, ListPolicies
from keywright.provisioning.policies.rules import terms_from_first_activation
from tests.makers import (
    LATER,
    a_policy,
    an_origin,
    create,
    create_policy,
    create_product,
    delete_policy,
    generate,
    update_policy,
)
from tests.storage.stored import list_licenses

DATABASES = ("sqlite",)

ANY = LicenseFilter()


def a_tiny_one(executor: Executor, charset: str = "0123") -> int:
    """The ID of a generator that can make one key per character."""
    recipe = {"charset": charset, "chunks": 1, "chunk_length": 1}
    number: int = executor.execute([create_policy(is_weak_allowed=True, **recipe)])[0].id
    return number


def test_a_generator_is_made_as_it_was_asked_for(executor: Executor) -> None:
    recipe: dict[str, Any] = {"separator": "-", "prefix": "P", "suffix": "S", "product_id": 5}
    terms = {"max_activations": 3, "valid_for_days": 9, "grace_days": 2}
    _, made = executor.execute([create_product(5), create_policy(by=4, terms=terms, **recipe)])
    assert made == a_policy(created_by=4, terms=merge_terms(Terms(), terms), **recipe)
    assert executor.query([GetPolicy(policy_id=1), ListPolicies()]) == [made, (made,)]


def test_a_generator_changes_in_the_fields_that_are_named(executor: Executor) -> None:
    (made,) = executor.execute([create_policy()])
    command = replace(update_policy(1, prefix="P"), context=Context(LATER, an_origin(), 4))
    (changed,) = executor.execute([command])
    assert changed == replace(made, prefix="P", updated_at=LATER, updated_by=4)
    assert executor.query([GetPolicy(policy_id=1)]) == [changed]


def test_what_becomes_of_a_generator_is_told(executor: Executor, storage: Storage) -> None:
    executor.execute([create_policy()])
    executor.execute([update_policy(1, name="Sixteen", prefix=None), update_policy(9, name="None")])
    executor.execute([delete_policy(1), delete_policy(1)])
    with storage.read() as tx:
        told = [(one.name, one.details) for one in event_store.list_events(tx, 0, limit=9)[::-1]]
    assert told == [
        ("policy.created", {"policy_id": 1, "policy": "Hex"}),
        ("policy.updated", {"policy_id": 1, "policy": "Sixteen", "name": ["Hex", "Sixteen"]}),
        ("policy.deleted", {"policy_id": 1, "policy": "Sixteen"}),
    ]


def test_a_deleted_generator_leaves_its_licenses(executor: Executor, storage: Storage) -> None:
    executor.execute([create_policy()])
    executor.execute([generate(1, 2)])
    assert executor.execute([delete_policy(1)]) == [None]
    assert executor.query([ListPolicies()]) == [()]
    assert executor.execute([create_policy()])[0].id == 2
    assert len(list_licenses(storage)) == 2


@pytest.mark.parametrize("command", [update_policy(7, prefix="P"), delete_policy(7), generate(7, 1)])
def test_an_unknown_generator_is_refused(executor: Executor, command: Command) -> None:
    (outcome,) = executor.execute([command])
    assert isinstance(outcome, UnknownPolicy)
    assert outcome.policy_id == 7
    assert isinstance(executor.query([GetPolicy(policy_id=7)])[0], UnknownPolicy)


def test_keys_that_could_be_guessed_are_refused_unless_forced(executor: Executor) -> None:
    executor.execute([create_policy()])
    for command in (create_policy(chunk_length=3), update_policy(1, chunk_length=3)):
        (outcome,) = executor.execute([command])
        assert isinstance(outcome, PolicyTooWeak)
        assert outcome.bits == 48
    forced = create_policy(chunk_length=3, is_weak_allowed=True)
    assert executor.execute([forced, update_policy(1, is_weak_allowed=True, chunks=1)])[1].chunks == 1


def test_keys_have_at_most_255_characters_none_of_them_a_control_character(executor: Executor) -> None:
    longest = create_policy(chunks=1, chunk_length=253, prefix="P", suffix="S")
    assert executor.execute([longest])[0].id == 1
    for command in (replace(longest, chunk_length=254), replace(longest, separator="-", chunks=2)):
        (outcome,) = executor.execute([command])
        assert isinstance(outcome, InvalidParameters)
        assert list(outcome.reasons) == ["chunk_length"]
    assert isinstance(executor.execute([create_policy(separator="\n")])[0], InvalidParameters)


def test_generate_makes_as_many_licenses_as_asked_after_the_recipe(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create_policy(separator="-", terms=terms_from_first_activation(3, 9))])
    fields = {"status": Status.SOLD, "order_id": 1, "product_id": 2, "customer_id": 3, "by": 4}
    (records,) = executor.execute([generate(1, 200, **fields)])
    licenses = [record.license for record in records]
    assert len({one.key for one in licenses}) == 200
    assert all(re.fullmatch("([0-9A-F]{4}-){3}[0-9A-F]{4}", one.key) for one in licenses)
    assert [one.id for one in licenses] == list(range(1, 201))
    first = licenses[0]
    assert (first.source, first.status) == (LicenseSource.GENERATOR, Status.SOLD)
    assert (first.order_id, first.product_id, first.customer_id, first.created_by) == (1, 2, 3, 4)
    assert (first.times_activated_max, first.valid_for_days, first.expires_at) == (3, 9, None)
    with storage.read() as tx:
        assert license_store.list_licenses(tx, ANY, after_id=0, limit=999) == licenses
        assert [one.name for one in event_store.list_events(tx, 200, limit=9)] == ["license.created"]


def test_licenses_can_be_claimed_as_their_batch_states(executor: Executor) -> None:
    executor.execute([create_policy(), create_policy(terms={"claimable": True})])
    batches = [(1, None), (1, True), (2, None), (2, False)]
    made = executor.execute([generate(number, 1, claimable=claimable) for number, claimable in batches])
    licenses = [record.license for (record,) in made]
    assert [terms_of(one).claimable for one in licenses] == [False, True, True, False]
    assert [one.rule_terms for one in licenses] == [None, '{"claimable":false}', None, '{"claimable":true}']


def test_a_small_recipe_gives_the_keys_that_are_left_and_no_more(
    executor: Executor, storage: Storage
) -> None:
    number = a_tiny_one(executor, "0123")
    executor.execute([create("0"), create("1")])
    found: set[str] = set()
    while len(found) < 2:
        (records,) = executor.execute([generate(number, 1)])
        if isinstance(records, tuple):
            found |= {record.license.key for record in records}
    assert found == {"2", "3"}
    (refusal,) = executor.execute([generate(number, 1)])
    assert isinstance(refusal, InvalidParameters)
    assert list(refusal.reasons) == ["amount"]
    assert len(list_licenses(storage)) == 4


def test_keys_that_come_up_twice_are_drawn_anew(executor: Executor, storage: Storage) -> None:
    number = a_tiny_one(executor, "".join(chr(ord("0") + n) for n in range(64)))
    (records,) = executor.execute([generate(number, 50)])
    assert len({record.license.key for record in records}) == len(list_licenses(storage)) == 50


def test_generate_makes_all_or_none(executor: Executor, storage: Storage) -> None:
    number = a_tiny_one(executor)
    (refusal,) = executor.execute([generate(number, 5)])
    assert isinstance(refusal, InvalidParameters)
    assert len(list_licenses(storage)) == 0
    assert executor.execute([create()])[0].license.id == 1


def test_ten_thousand_keys_are_made_at_once(executor: Executor, storage: Storage) -> None:
    executor.execute([create_policy()])
    (records,) = executor.execute([generate(1, 10_000)])
    assert len(records) == len(list_licenses(storage)) == 10_000
