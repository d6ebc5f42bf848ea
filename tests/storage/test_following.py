"""Projections of events: the search terms of licenses, and daily counts."""

from hashlib import sha256
from typing import Any

import pytest
from sqlalchemy import delete as deleted_from
from sqlalchemy import func, select
from sqlalchemy import update as updated

from keywright.db import Storage, WriteTransaction, run_read, run_write
from keywright.db.schema import (
    checkpoints,
    daily_product_counts,
    events,
    license_updates,
    licenses,
    limit_refusals,
)
from keywright.engine.executor import Executor
from keywright.events import store as event_store
from keywright.licensing.activations import store as activation_store
from keywright.licensing.activations.model import Activation
from keywright.licensing.licenses import store as license_store
from keywright.registry import open_executor
from keywright.search.store import list_daily_counts
from keywright.search.terms_store import label_term, newest_event
from tests.makers import (
    LATER,
    NOW,
    a_license,
    activate,
    an_activation,
    an_event,
    create,
    deactivate,
    deactivate_all,
    delete,
    reactivate,
    refuse_sign_in,
    update,
)
from tests.storage.conftest import Opener
from tests.storage.projected import (
    assert_followed,
    day,
    follow_all,
    lag,
    list_counts,
    list_product_counts,
    list_terms,
    project,
    tally,
)


def activate_license(executor: Executor, key: str = "a", **fields: Any) -> Activation:
    [outcome] = executor.execute([activate(key, **fields)])
    activation: Activation = outcome.activations[0]
    return activation


def terms(storage: Storage) -> list[str]:
    return [term for term, _, _ in list_terms(storage)]


def a_past(storage: Storage, *, licenses: int, activations: int) -> None:
    """Licenses without events: every third has no activations, every third has no free place."""

    def insert_all(tx: WriteTransaction) -> None:
        for number in range(1, licenses + 1):
            limit, taken = [(3, 0), (None, activations), (activations, activations)][number % 3]
            license = a_license(
                id=tx.ids.next("license"),
                key=f"past {number}",
                times_activated=taken,
                times_activated_max=limit,
            )
            license_store.save_new_licenses(tx, [license])
            activation_store.save_new_activations(
                tx, [_a_place(license.id, tx.ids.next("activation")) for _ in range(taken)]
            )
        tx.ids.save()

    run_write(storage, insert_all)


def _a_place(license_id: int, number: int) -> Activation:
    token = sha256(b"%d" % number).hexdigest()[:40]
    return an_activation(id=number, license_id=license_id, token=token, label=f"Label {number}")


def test_a_license_is_found_by_the_token_the_label_and_the_address_of_an_activation(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create("a")])
    one = activate_license(executor, label="Büro LINKS")
    follow_all(executor)
    assert list_terms(storage) == [
        ("i192.0.2.1", 1, one.id),
        ("lbüro links", 1, one.id),
        (f"t{one.token}", 1, one.id),
    ]


def test_a_label_may_be_as_long_as_a_label_and_of_anything(executor: Executor, storage: Storage) -> None:
    executor.execute([create("a")])
    letters = ("x", "İ", "ẞ", "😀", "\\", '"', "'", "%", "\n")
    for letter in letters:
        activate_license(executor, label=letter * 255)
    follow_all(executor)
    assert {("l" + letter.lower() * 255)[:300] for letter in letters} <= {*terms(storage)}


def test_the_beginning_of_a_label_has_the_beginning_of_its_term() -> None:
    label = "İstanbul " * 60
    assert all(label_term(label).startswith(label_term(label[:size])) for size in range(len(label)))


def test_a_license_is_found_after_each_change_by_what_is_true_of_it_then(
    executor: Executor, storage: Storage
) -> None:
    """Full while it has no free place, unused until its first activation; also found by given-up places."""
    executor.execute([create("a", 1), create("b")])
    follow_all(executor)
    assert terms(storage) == ["unused", "unused"]
    one = activate_license(executor, label="")
    activate_license(executor, "b", label=None)
    steps = [
        (None, True),
        (deactivate(one.token, "a"), False),
        (reactivate(one.token, "a"), True),
        (update("a", times_activated_max=2), False),
        (activate("a", label="Left"), True),
        (update("a", times_activated_max=1), True),
        (update("a", times_activated_max=None), False),
        (update("a", times_activated_max=2), True),
        (deactivate_all("a"), False),
    ]
    for command, is_full in steps:
        if command is not None:
            executor.execute([command])
        follow_all(executor)
        assert ("full" in terms(storage)) is is_full, command
        assert_followed(storage)
    assert {term[0] for term in terms(storage)} == set("itl")
    assert "l" not in terms(storage)


def test_a_license_that_is_made_full_and_emptied_before_anybody_looks_is_not_full(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create("a", 1), activate("a"), deactivate_all("a")])
    for _ in range(3):
        project(executor, 1)
    assert "full" not in terms(storage)


def test_a_deleted_license_is_found_no_more(executor: Executor, storage: Storage) -> None:
    executor.execute([create("a", 1), create("b")])
    activate_license(executor, label="one")
    activate_license(executor, "b", label="other")
    follow_all(executor)
    executor.execute([tally(refused={"a": 1})])
    executor.execute([delete("a")])
    follow_all(executor)
    assert {license_id for _, license_id, _ in list_terms(storage)} == {2}
    assert run_read(storage, lambda tx: tx.connection.execute(select(limit_refusals)).all()) == []
    assert_followed(storage)


def test_a_license_that_is_deleted_before_anybody_looks_is_never_found(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create("a"), activate("a")])
    executor.execute([delete("a")])
    for _ in range(3):
        project(executor, 1)
        assert list_terms(storage) == []


def test_events_are_counted_by_day_and_name(executor: Executor, storage: Storage) -> None:
    executor.execute([create("a"), activate("a"), activate("a"), activate("a", now=LATER)])
    executor.execute([refuse_sign_in("mallory")])
    follow_all(executor)
    assert list_counts(storage) == {
        (day(NOW), "license.created"): 1,
        (day(NOW), "license.activated"): 2,
        (day(LATER), "license.activated"): 1,
        (day(NOW), "user.sign_in_refused"): 1,
    }


def test_events_are_counted_by_product(executor: Executor, storage: Storage) -> None:
    """Including those from before the counts began."""
    executor.execute(
        [create("a", product_id=7), create("b", product_id=7), activate("a"), create("of no product")]
    )
    follow_all(executor)
    executor.execute([activate("b", now=LATER), activate("of no product")])
    follow_all(executor)
    expected = {
        (7, day(NOW), "license.created"): 2,
        (7, day(NOW), "license.activated"): 1,
        (7, day(LATER), "license.activated"): 1,
    }
    assert list_product_counts(storage) == expected
    with storage.write() as tx:
        tx.connection.execute(deleted_from(daily_product_counts))
        tx.connection.execute(deleted_from(checkpoints).where(checkpoints.c.name.startswith("products_")))
    follow_all(executor)
    assert list_product_counts(storage) == expected


def test_what_happened_to_a_license_that_was_deleted_is_counted_by_product(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create("a", product_id=7), create("b", product_id=7), create("of no product")])
    follow_all(executor)
    executor.execute([delete("a"), activate("b"), delete("of no product")])
    executor.execute([delete("b")])
    follow_all(executor)
    assert list_product_counts(storage) == {
        (7, day(NOW), "license.created"): 2,
        (7, day(NOW), "license.activated"): 1,
        (7, day(NOW), "license.deleted"): 2,
    }


def test_the_beginnings_of_keys_from_before_are_found(executor: Executor, storage: Storage) -> None:
    executor.execute([create(f"ABCD-EFGH-{number}") for number in range(30)])
    executor.execute([create("short")])

    def find(text: str) -> int | None:
        found = run_read(storage, lambda tx: license_store.find_by_key_start(tx, text, most=40))
        return None if found is None else len(found)

    assert find("abcdefgh") == 30
    with storage.write() as tx:
        tx.connection.execute(updated(licenses).values(key_start=None))
    assert find("abcdefgh") == 0
    follow_all(executor)
    assert (find("abcdefgh"), find("ABCDEFGH-7"), find("abcdefg"), find("short")) == (30, 1, 0, 0)
    assert run_read(storage, lambda tx: license_store.find_by_key_start(tx, "abcdefgh", most=29)) is None


def test_what_is_counted_in_memory_is_added_to_its_product(executor: Executor, storage: Storage) -> None:
    executor.execute([create("a", product_id=7), create("b")])
    validated = tally(validations=9, product_validations={7: 5}, refused={"a": 2, "b": 4})
    executor.execute([validated, validated])
    assert list_product_counts(storage) == {
        (7, day(NOW), "license.validated"): 10,
        (7, day(NOW), "license.refused"): 4,
    }
    counts = run_read(storage, lambda tx: list_daily_counts(tx, ("license.refused",), 0))
    assert counts == {("license.refused", day(NOW)): 12}


def test_each_event_is_followed_once(executor: Executor, storage: Storage) -> None:
    assert (lag(storage).behind, lag(storage).is_complete) == (0, False)
    executor.execute([create("a"), activate("a")])
    follow_all(executor)
    before = list_terms(storage), list_counts(storage)
    assert project(executor).rows == 0
    assert follow_all(executor) == 0
    assert (list_terms(storage), list_counts(storage)) == before


def test_a_step_follows_no_more_events_than_it_is_told(executor: Executor, storage: Storage) -> None:
    follow_all(executor)
    executor.execute([create("a"), *(activate("a", now=LATER) for _ in range(5))])
    assert (lag(storage).behind, lag(storage).oldest_at) == (6, NOW)
    step = project(executor, 4)
    assert (step.rows, step.lag.behind, step.lag.oldest_at) == (4, 2, LATER)
    assert lag(storage) == step.lag
    assert not step.lag.is_complete
    step = project(executor, 4)
    assert (step.rows, step.lag.behind, step.lag.oldest_at, step.lag.is_complete) == (2, 0, None, True)
    assert_followed(storage)


@pytest.mark.parametrize("limit", [1, 2, 500])
def test_what_an_older_server_has_followed_is_found_by_its_change(
    executor: Executor, storage: Storage, limit: int
) -> None:
    executor.execute([create("a"), create("b"), create("c")])
    follow_all(executor)
    executor.execute([activate("a", now=LATER), activate("b", now=LATER), delete("c")])
    with storage.write() as tx:
        newest = tx.connection.execute(select(func.max(events.c.id))).scalar_one()
        by_older = updated(checkpoints).where(checkpoints.c.name == "events").values(last_id=newest)
        tx.connection.execute(by_older)
    assert lag(storage).behind == 3
    follow_all(executor, limit)
    rows = run_read(storage, lambda tx: tx.connection.execute(select(license_updates)).all())
    assert {tuple(row) for row in rows} == {(number, LATER.timestamp()) for number in (1, 2)}


def test_what_was_there_before_following_began_is_found(executor: Executor, storage: Storage) -> None:
    a_past(storage, licenses=7, activations=3)
    assert lag(storage).past_share == 0
    executor.execute([create("a"), activate("a"), create("b", 1), activate("b")])
    follow_all(executor)
    assert_followed(storage)
    assert lag(storage).past_share == 1
    assert len(terms(storage)) > 7 * 3


@pytest.mark.parametrize("limit", range(1, 9))
def test_the_past_is_gone_through_in_small_steps(executor: Executor, storage: Storage, limit: int) -> None:
    a_past(storage, licenses=5, activations=6)
    executor.execute([create("a"), activate("a"), create("b", 1), activate("b")])
    shares = []
    for _ in range(1000):
        step = project(executor, limit)
        shares.append(step.lag.past_share)
        if step.lag.is_complete:
            break
    assert shares == sorted(shares)
    assert_followed(storage)


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_what_happens_while_the_past_is_gone_through_is_found(
    executor: Executor, storage: Storage, limit: int
) -> None:
    a_past(storage, licenses=9, activations=4)
    commands = [
        *(activate(f"past {one}", label=f"New {one}") for one in range(1, 10)),
        *(delete(f"past {one}") for one in range(1, 10)),
        create("a"),
        activate("a"),
    ]
    for command in commands:
        project(executor, limit)
        executor.execute([command])
        project(executor, limit)
    follow_all(executor, limit)
    assert len({license_id for _, license_id, _ in list_terms(storage)}) == 1
    assert_followed(storage)


def test_a_license_that_is_deleted_while_its_many_activations_are_gone_through_hides_no_other(
    executor: Executor, storage: Storage
) -> None:
    a_past(storage, licenses=5, activations=8)
    for _ in range(40):
        project(executor, 3)
        if 0 < lag(storage).past_share < 0.99:
            break
    executor.execute([delete("past 2")])
    follow_all(executor, 3)
    assert_followed(storage)


def test_following_goes_on_where_it_was_left(open_again: Opener, storage: Storage) -> None:
    a_past(storage, licenses=4, activations=3)
    open_executor(storage).execute([create("a", 1), activate("a"), create("b"), activate("b")])
    for _ in range(20):
        project(open_executor(open_again()), 2)
    assert_followed(storage)


def test_events_that_are_gone_are_no_reason_to_stop(executor: Executor, storage: Storage) -> None:
    executor.execute([create("a"), activate("a"), create("b")])
    run_write(storage, lambda tx: tx.connection.execute(deleted_from(events).where(events.c.id.in_([1, 3]))))
    follow_all(executor)
    executor.execute([create("c"), create("d"), activate("d")])
    run_write(storage, lambda tx: tx.connection.execute(deleted_from(events).where(events.c.id.in_([4, 5]))))
    follow_all(executor)
    assert sum(term.startswith("t") for term in terms(storage)) == 2
    assert lag(storage).behind == 0


def test_an_event_of_no_license_adds_no_search_term(executor: Executor, storage: Storage) -> None:
    follow_all(executor)
    run_write(storage, lambda tx: event_store.save_events(tx, [an_event(license_id=99, activation_id=5)]))
    follow_all(executor)
    assert list_terms(storage) == []
    assert run_read(storage, newest_event) == 1
