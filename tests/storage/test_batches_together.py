"""Commands decided together have the outcomes that they would have had one after the other."""

from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from keywright.core.command import Command, Query
from keywright.core.errors import (
    AlreadyActivated,
    Fault,
    LicenseInactive,
    LicenseKeyTaken,
    LimitReached,
    NothingActive,
    RejectedByDatabase,
    TokenNotActive,
    UnknownLicense,
    UnknownToken,
)
from keywright.db import Storage
from keywright.engine.executor import Executor
from keywright.events import store as event_store
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import LicenseRecord
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import LicenseFilter, Status
from keywright.provisioning.policies import handlers as generating
from keywright.registry import open_executor
from tests.concurrency.desks import Observed
from tests.makers import (
    KEY,
    TOKEN,
    a_retry,
    a_storage,
    activate,
    create,
    create_policy,
    deactivate,
    deactivate_all,
    delete,
    generate,
    make_sqlite_file,
    reactivate,
    rename,
    update,
    url_of,
    validate,
)
from tests.storage.conftest import RUN_AGAIN

DATABASES = RUN_AGAIN
pytestmark = pytest.mark.of_the_database
ANY = LicenseFilter()


def contents(storage: Storage) -> dict[str, tuple[int, int, int]]:
    """By key: the license's number, its counter, and how many records are active in truth."""
    with storage.read() as tx:
        licenses = license_store.list_licenses(tx, ANY, after_id=0, limit=999)
        active = activation_store.list_active(tx, [one.id for one in licenses])
        return {one.key: (one.id, one.times_activated, len(active.get(one.id, ()))) for one in licenses}


def describe(outcome: Any) -> Any:
    """An outcome without what is random in it: the counter, or the kind of refusal."""
    if isinstance(outcome, LicenseRecord):
        return outcome.license.id, outcome.license.times_activated, len(outcome.activations)
    return outcome if outcome is None else type(outcome)


def test_a_whole_life_fits_into_one_batch(executor: Executor, storage: Storage) -> None:
    outcomes = executor.execute(
        [create(limit=1), activate(), activate(), deactivate_all(), activate(), delete()]
    )
    assert [describe(one) for one in outcomes] == [
        (1, 0, 0),
        (1, 1, 1),
        LimitReached,
        (1, 0, 1),
        (1, 1, 1),
        None,
    ]
    assert contents(storage) == {}


def test_a_key_can_be_deleted_and_created_again_in_one_batch(executor: Executor, storage: Storage) -> None:
    executor.execute([create(limit=1), activate()])
    outcomes = executor.execute([activate(), delete(), activate(), create(limit=1), activate(), activate()])
    assert [describe(one) for one in outcomes] == [
        LimitReached,
        None,
        UnknownLicense,
        (2, 0, 0),
        (2, 1, 1),
        LimitReached,
    ]
    assert contents(storage) == {KEY: (2, 1, 1)}


def test_a_license_that_lived_within_one_batch_leaves_only_its_events(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create("kept"), activate("kept")])
    executor.execute([create(), activate(), activate("kept"), delete(), delete("kept"), create("kept")])
    assert contents(storage) == {"kept": (3, 0, 0)}
    with storage.read() as tx:
        names = [[one.name for one in event_store.list_events(tx, number, limit=9)] for number in (1, 2)]
    assert names[0] == ["license.deleted", "license.activated", "license.activated", "license.created"]
    assert names[1] == ["license.deleted", "license.activated", "license.created"]


def test_a_status_and_a_limit_hold_for_the_commands_after_them(executor: Executor, storage: Storage) -> None:
    outcomes = executor.execute(
        [
            create(limit=1),
            update(status=Status.INACTIVE),
            activate(),
            update(status=Status.ACTIVE),
            activate(),
            activate(),
            update(times_activated_max=2),
            activate(),
            update(times_activated_max=1),
            activate(),
        ]
    )
    refused = [type(one) for one in outcomes if not isinstance(one, LicenseRecord)]
    assert refused == [LicenseInactive, LimitReached, LimitReached]
    assert contents(storage)[KEY][1:] == (2, 2)


def test_a_place_given_up_can_be_taken_by_the_next_command(executor: Executor, storage: Storage) -> None:
    token = executor.execute([create(limit=1), activate()])[1].activations[0].token
    outcomes = executor.execute([deactivate(token), activate(), reactivate(token), deactivate(token)])
    assert [describe(one) for one in outcomes] == [(1, 0, 1), (1, 1, 1), LimitReached, TokenNotActive]
    outcomes = executor.execute([deactivate_all(), deactivate_all(), reactivate(token), reactivate(token)])
    assert [describe(one) for one in outcomes] == [(1, 0, 1), NothingActive, (1, 1, 1), AlreadyActivated]
    assert contents(storage) == {KEY: (1, 1, 1)}


def test_a_record_can_change_twice_in_one_batch(executor: Executor, storage: Storage) -> None:
    token = executor.execute([create(), activate()])[1].activations[0].token
    outcomes = executor.execute([deactivate(token), reactivate(token), deactivate(token), deactivate_all()])
    assert [describe(one) for one in outcomes] == [(1, 0, 1), (1, 1, 1), (1, 0, 1), NothingActive]
    assert contents(storage) == {KEY: (1, 0, 0)}


def test_refused_neighbours_do_not_hurt(executor: Executor, storage: Storage) -> None:
    commands = [command for n in range(60) for command in (create(f"key {n}"), activate("unknown"))]
    outcomes = executor.execute(commands)
    assert [type(one) for one in outcomes] == [LicenseRecord, UnknownLicense] * 60
    assert len(contents(storage)) == 60


def test_one_command_that_the_database_rejects_does_not_hurt_its_neighbours(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create(limit=2)])
    outcomes = executor.execute([activate(), create("bad", order_id=2**63), activate(), activate()])
    assert [describe(one) for one in outcomes] == [(1, 1, 1), RejectedByDatabase, (1, 2, 1), LimitReached]
    assert contents(storage) == {KEY: (1, 2, 2)}


def test_one_command_that_nobody_thought_of_does_not_hurt_its_neighbours(executor: Executor) -> None:
    executor.execute([create()])
    outcomes = executor.execute([activate(), update(no_such_field=1), activate()])
    assert [describe(one) for one in outcomes] == [(1, 1, 1), Fault, (1, 2, 1)]
    outcomes = executor.execute([update(no_such_field=1), activate()])
    assert [describe(one) for one in outcomes] == [Fault, (1, 3, 1)]


def test_one_question_that_nobody_thought_of_does_not_hurt_its_neighbours(executor: Executor) -> None:
    executor.execute([create("a"), create("b")])
    unanswerable = Query()
    outcomes = executor.query([validate("a"), unanswerable, validate("b")])
    assert [describe(one) for one in outcomes] == [(1, 0, 0), Fault, (2, 0, 0)]
    assert [describe(one) for one in executor.query([unanswerable, validate("b")])] == [Fault, (2, 0, 0)]


def test_a_chain_of_renames_is_followed(executor: Executor, storage: Storage) -> None:
    token = executor.execute([create("a", 2), activate("a")])[1].activations[0].token
    outcomes = executor.execute(
        [
            rename("a", "b"),
            activate("a"),
            rename("b", "c"),
            deactivate(token, "c"),
            deactivate(TOKEN, "c"),
            reactivate(token, "c"),
            activate("c"),
            deactivate_all("c"),
            rename("c", "a"),
            reactivate(token, "a"),
        ]
    )
    assert [describe(one) for one in outcomes] == [
        (1, 1, 0),
        UnknownLicense,
        (1, 1, 0),
        (1, 0, 1),
        TokenNotActive,
        (1, 1, 1),
        (1, 2, 1),
        (1, 0, 2),
        (1, 0, 0),
        (1, 1, 1),
    ]
    assert contents(storage) == {"a": (1, 1, 1)}


def test_a_renamed_license_has_its_tokens_with_it_and_not_those_of_the_key_before(
    executor: Executor, storage: Storage
) -> None:
    made = executor.execute([create("a"), activate("a"), create("b"), activate("b")])
    of_a, of_b = made[1].activations[0].token, made[3].activations[0].token
    outcomes = executor.execute(
        [delete("b"), rename("a", "b"), reactivate(of_b, "b"), deactivate(of_a, "b"), deactivate_all("b")]
    )
    assert [describe(one) for one in outcomes] == [None, (1, 1, 0), UnknownToken, (1, 0, 1), NothingActive]
    assert contents(storage) == {"b": (1, 0, 0)}


def test_two_keys_can_be_swapped_in_one_batch(executor: Executor, storage: Storage) -> None:
    executor.execute([create("a"), create("b"), activate("b")])
    outcomes = executor.execute([rename("a", "x"), rename("b", "a"), rename("x", "b"), deactivate_all("a")])
    assert [describe(one) for one in outcomes] == [(1, 0, 0), (2, 1, 0), (1, 0, 0), (2, 0, 1)]
    assert contents(storage) == {"b": (1, 0, 0), "a": (2, 0, 0)}


def test_each_key_that_was_replaced_in_one_batch_is_known_as_such(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create("a")])
    executor.execute([rename("a", "b"), rename("b", "c"), rename("c", "b"), rename("b", "d")])
    with storage.read() as tx:
        found = license_store.find_rotated(tx, ["a", "b", "c", "d"])
    assert {key: one.id for key, one in found.items()} == {"a": 1, "b": 1, "c": 1}


def test_a_key_that_a_rename_set_free_can_be_created_in_one_batch(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create("a"), activate("a")])
    outcomes = executor.execute([create("a"), rename("a", "b"), create("a"), activate("a"), rename("a", "b")])
    new = outcomes[2].license.id
    assert [describe(one) for one in outcomes] == [
        LicenseKeyTaken,
        (1, 1, 0),
        (new, 0, 0),
        (new, 1, 1),
        LicenseKeyTaken,
    ]
    assert contents(storage) == {"a": (new, 1, 1), "b": (1, 1, 1)}


@pytest.mark.databases("sqlite", "postgresql")
def test_a_batch_that_renames_a_license_away_and_creates_its_key_is_one_transaction(storage: Storage) -> None:
    observed = Observed(storage)
    executor = open_executor(cast(Storage, observed))
    executor.execute([create("a")])
    outcomes = executor.execute([rename("a", "b"), create("a")])
    assert [type(one) for one in outcomes] == [LicenseRecord, LicenseRecord]
    assert len(observed.writes) == 2


@pytest.mark.databases("sqlite", "postgresql")
@pytest.mark.parametrize("place", [0, 77, 127])
def test_one_rejected_command_costs_a_batch_two_transactions_for_each_halving(
    storage: Storage, place: int
) -> None:
    observed = Observed(storage)
    executor = open_executor(cast(Storage, observed))
    commands: list[Command] = [create(f"key {n}") for n in range(128)]
    commands[place] = create("bad", order_id=2**63)
    outcomes = executor.execute(commands)
    kinds = [LicenseRecord] * 128
    assert [type(one) for one in outcomes] == [*kinds[:place], RejectedByDatabase, *kinds[place + 1 :]]
    assert len(observed.writes) == 1 + 2 * 7
    assert len(contents(storage)) == 127


def test_a_batch_may_be_about_more_licenses_than_one_query(executor: Executor, storage: Storage) -> None:
    executor.execute([create(f"key {n}", 1) for n in range(300)])
    outcomes = executor.execute([activate(f"key {n % 300}") for n in range(600)])
    assert [type(one) for one in outcomes] == [LicenseRecord] * 300 + [LimitReached] * 300
    assert set(contents(storage)) == {f"key {n}" for n in range(300)}
    assert {one[1:] for one in contents(storage).values()} == {(1, 1)}


def test_questions_asked_together_do_not_mix(executor: Executor) -> None:
    made = executor.execute([create("a"), activate("a"), activate("a"), create("b"), activate("b")])
    tokens = [one.activations[0].token for one in (made[1], made[2], made[4])]
    asked = executor.query(
        [
            validate("a", tokens[0]),
            validate("a"),
            validate("a", tokens[2]),
            validate("b", tokens[2]),
            validate("b", tokens[2]),
            validate("c"),
        ]
    )
    assert [describe(one) for one in asked] == [
        (1, 2, 1),
        (1, 2, 2),
        TokenNotActive,
        (2, 1, 1),
        (2, 1, 1),
        UnknownLicense,
    ]


def test_a_batch_of_nothing_is_nothing(executor: Executor) -> None:
    assert executor.execute([]) == []
    assert executor.query([]) == []


def test_a_rejected_batch_keeps_each_answer_once(executor: Executor) -> None:
    commands = [
        create("a", idempotency=a_retry("a")),
        create("bad", order_id=2**63, idempotency=a_retry("bad")),
    ]
    first = executor.execute(commands)
    assert [type(one) for one in first] == [LicenseRecord, RejectedByDatabase]
    again = executor.execute(commands)
    assert again[0].status == 200
    assert type(again[1]) is RejectedByDatabase


def test_keys_generated_and_created_in_one_batch_are_all_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The recipe has two keys only, so that they meet; and it is tried until chance has found both.
    monkeypatch.setattr(generating, "_DRAWS_PER_KEY", 100)
    for n in range(20):
        make_sqlite_file(url_of(tmp_path / str(n)))
        with closing(a_storage(tmp_path / str(n))) as storage:
            executor = open_executor(storage)
            weak = create_policy(charset="01", chunks=1, chunk_length=1, is_weak_allowed=True)
            number = executor.execute([weak])[0].id
            made, some, more = executor.execute([create("0"), generate(number, 1), generate(number, 1)])
            succeeded = {made.license.key} | {record.license.key for record in some}
            assert succeeded == set(contents(storage)) == {"0", "1"}
            assert not isinstance(more, tuple)
