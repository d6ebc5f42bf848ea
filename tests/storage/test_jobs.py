"""Long work: what can be ordered, who works on it, and what each step does."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from keywright.core.command import Context
from keywright.core.errors import (
    InvalidParameters,
    JobOver,
    Refusal,
    StepOver,
    TooManyJobs,
    UnknownJob,
    UnknownPolicy,
)
from keywright.core.parsing import MAX_COUNT
from keywright.db import Storage, run_read
from keywright.engine.executor import Executor
from keywright.engine.queue import CLAIM, Claims, Item
from keywright.jobs import orders
from keywright.jobs import store as job_store
from keywright.jobs.handlers import MAX_UNFINISHED
from keywright.jobs.model import JobState
from keywright.jobs.orders import MAX_SELECTED, Change, Order
from keywright.jobs.planning import KEYS_PER_STEP, LICENSES_PER_STEP
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import (
    ExtendLicense,
    License,
    LicenseFilter,
    LicenseSource,
    RaiseLimit,
    Status,
)
from keywright.licensing.licenses.rules import END_OF_TIME
from keywright.provisioning.policies.rules import terms_from_first_activation
from keywright.search.filters import Search
from tests.jobs import (
    ACTOR,
    BY,
    Work,
    a_change,
    a_generation,
    cancel,
    claim,
    decide,
    events_of,
    fail,
    get_job,
    hold,
    make_orderer,
    run_job,
    start,
)
from tests.makers import (
    LATER,
    NOW,
    activate,
    create,
    create_policy,
    delete,
    delete_policy,
    find_items,
    rename,
    update,
)
from tests.tables import each_row

DATABASES = ("sqlite",)

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def orderer(storage: Storage) -> None:
    """The user who orders."""
    make_orderer(storage)


def licenses(storage: Storage) -> list[License]:
    """Every license, oldest first."""
    return run_read(
        storage, lambda tx: license_store.list_licenses(tx, LicenseFilter(), after_id=0, limit=100_000)
    )


def fill(executor: Executor, amount: int, **fields: Any) -> None:
    """So many licenses; their numbers begin with 1."""
    for first in range(1, amount + 1, 100):
        some = range(first, min(amount, first + 99) + 1)
        assert not [
            one
            for one in executor.execute([create(f"KEY-{number}", **fields) for number in some])
            if isinstance(one, Exception)
        ]


# --- orders ---------------------------------------------------------------------------------------


def test_an_order_becomes_a_job_that_waits_and_an_event(executor: Executor, storage: Storage) -> None:
    job = decide(executor, start(a_change("disable"), total=12))
    assert get_job(storage, job.id) == job
    assert (job.kind, job.state, job.total, job.done, job.refused) == ("change", JobState.WAITING, 12, 0, 0)
    assert (job.created_at, job.created_by, job.started_at, job.finished_at) == (NOW, BY, None, None)
    assert orders.order_of(job) == a_change("disable")
    (event,) = events_of(storage, 0)
    assert (event.name, event.actor, event.ip_address) == ("job.started", ACTOR, "192.0.2.1")
    assert event.details == {"job_id": job.id, "kind": "change", "total": 12}


def test_an_order_that_says_how_many_is_counted(executor: Executor) -> None:
    executor.execute([create_policy()])
    assert decide(executor, start(a_generation(5000), total=1)).total == 5000
    assert decide(executor, start(a_change("delete", license_ids=(3, 3, 4)), total=1)).total == 2


@each_row(
    ("kind", "parameters", "field"),
    [
        ("repair", {}, "kind"),
        ("generate", {"policy_id": 1, "amount": 0, "status": 3}, "parameters"),
        ("generate", {"policy_id": 1, "amount": 1_000_001, "status": 3}, "parameters"),
        ("generate", {"policy_id": 1, "amount": 1, "status": 6}, "parameters"),
        ("generate", {"policy_id": 1, "amount": 1, "status": 3, "order_id": -1}, "parameters"),
        ("generate", {"policy_id": 1, "amount": 1, "status": 3, "key": "A"}, "parameters"),
        ("change", {"what": "extend", "search": {}}, "amount"),
        ("change", {"what": "raise_limit", "amount": 0, "search": {}}, "parameters"),
        ("change", {"what": "set_limit", "amount": MAX_COUNT + 1, "search": {}}, "parameters"),
        ("change", {"what": "set_status", "amount": 6, "search": {}}, "amount"),
        ("change", {"what": "burn", "search": {}}, "parameters"),
        ("change", {"what": "delete"}, "license_ids"),
        ("change", {"what": "delete", "search": {}, "license_ids": [1]}, "license_ids"),
        ("change", {"what": "delete", "license_ids": []}, "parameters"),
        ("change", {"what": "delete", "license_ids": list(range(MAX_SELECTED + 1))}, "parameters"),
        ("export", {}, "license_ids"),
        ("export", {"search": {}, "license_ids": [1]}, "license_ids"),
        ("export", {"search": {"status": "active"}}, "parameters"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(
    executor: Executor, storage: Storage, kind: str, parameters: dict[str, Any], field: str
) -> None:
    executor.execute([create_policy()])
    command = replace(start(a_change("delete")), kind=kind, parameters=parameters)
    with pytest.raises(InvalidParameters) as refusal:
        decide(executor, command)
    assert list(refusal.value.reasons) == [field]
    assert run_read(storage, lambda tx: job_store.list_jobs(tx, before_id=None, limit=9)) == []


def test_an_order_for_an_unknown_policy_is_refused(executor: Executor) -> None:
    with pytest.raises(UnknownPolicy):
        decide(executor, start(a_generation(5)))


def test_no_more_orders_are_taken_than_can_wait(executor: Executor) -> None:
    outcomes = executor.execute([start(a_change("delete"))] * (MAX_UNFINISHED + 1))
    assert [type(one) for one in outcomes[-2:]] == [type(outcomes[0]), TooManyJobs]
    decide(executor, cancel(outcomes[0].id))
    decide(executor, start(a_change("delete")))


@pytest.mark.smoke
def test_jobs_are_listed_latest_first_piece_by_piece(executor: Executor, storage: Storage) -> None:
    started = executor.execute([start(a_change("delete"))] * 5)[::-1]
    assert run_read(storage, lambda tx: job_store.list_jobs(tx, before_id=None, limit=3)) == started[:3]
    assert (
        run_read(storage, lambda tx: job_store.list_jobs(tx, before_id=started[2].id, limit=3)) == started[3:]
    )


# --- claims ---------------------------------------------------------------------------------------


HELD = CLAIM.total_seconds()


@pytest.mark.smoke
def test_a_claimed_job_is_nobody_elses_until_the_claim_ends(executor: Executor, storage: Storage) -> None:
    job = decide(executor, start(a_change("delete")))
    claimed = decide(executor, claim(storage))
    assert (claimed.id, claimed.state, claimed.started_at) == (job.id, JobState.RUNNING, NOW)
    almost = HELD - 0.1
    assert claim(storage, NOW, "another", waited=almost).item.id == 0
    assert decide(executor, claim(storage, NOW, "another", waited=almost)) is None
    assert decide(executor, claim(storage, waited=almost)).id == job.id
    taken = decide(executor, claim(storage, NOW, "another", waited=HELD))
    assert (taken.claimed_by, taken.started_at) == ("another", NOW)


def test_a_claim_that_is_held_is_a_claim_for_longer(executor: Executor, storage: Storage) -> None:
    job = decide(executor, start(a_change("delete")))
    decide(executor, claim(storage))
    late = claim(storage, NOW, "another", waited=HELD)
    decide(executor, hold(job.id, NOW + timedelta(seconds=1)))
    assert decide(executor, late) is None


def test_how_long_a_claim_lasts_is_not_judged_by_the_time_of_day(
    executor: Executor, storage: Storage
) -> None:
    job = decide(executor, start(a_change("delete")))
    decide(executor, claim(storage, NOW + DAY))
    assert decide(executor, claim(storage, NOW + 9 * DAY, "another")) is None
    assert decide(executor, claim(storage, NOW, "another", waited=HELD)).id == job.id


def test_who_has_slept_finds_no_claim_over_that_was_held_meanwhile() -> None:
    seconds = 0.0
    claims = Claims("me", lambda: seconds)
    first, second = (Item(1, "other", 99, position) for position in (25, 50))
    assert claims.find_over([first]) == ()
    seconds = 2 * HELD
    assert claims.find_over([second]) == ()
    assert claims.find_over([first]) == ()
    seconds += HELD
    assert claims.find_over([first]) == (first,)
    free = Item(2), Item(3, "me", 99)
    assert claims.find_over(free) == free


@pytest.mark.smoke
def test_a_claim_that_is_given_back_is_somebody_elses_at_once(executor: Executor, storage: Storage) -> None:
    job = decide(executor, start(a_change("delete")))
    decide(executor, claim(storage))
    decide(executor, hold(job.id, is_over=True))
    assert decide(executor, claim(storage, NOW, "another")).id == job.id
    assert decide(executor, hold(job.id)) == 0


@pytest.mark.smoke
def test_jobs_take_turns(executor: Executor, storage: Storage) -> None:
    first, second = executor.execute([start(a_change("delete"))] * 2)
    turns = []
    for number in range(5):
        now = NOW + timedelta(seconds=number)
        turns.append(decide(executor, claim(storage, now)).id)
        decide(executor, hold(turns[-1], now, is_over=True))
    assert turns == [first.id, second.id, first.id, second.id, first.id]
    # One that was given back while the clock was ahead is not left alone until then.
    assert decide(executor, claim(storage, now)).id == second.id
    decide(executor, hold(second.id, NOW + DAY, is_over=True))
    assert decide(executor, claim(storage, now)).id == second.id


def test_a_job_that_has_ended_is_not_claimed(executor: Executor, storage: Storage) -> None:
    run_job(executor, storage, a_change("delete"))
    assert find_items(storage, job_store.JOBS) == []
    assert decide(executor, claim(storage, LATER)) is None


# --- the end of a job -----------------------------------------------------------------------------


def test_a_canceled_job_stays_where_it_is(executor: Executor, storage: Storage) -> None:
    fill(executor, 2 * LICENSES_PER_STEP)
    decide(executor, start(a_change("disable")))
    work = Work(executor, storage)
    next(work.steps())
    prepared = work.prepare()
    job = decide(executor, cancel(work.job.id, LATER))
    assert (job.state, job.done, job.finished_at) == (JobState.CANCELED, LICENSES_PER_STEP, LATER)
    with pytest.raises(StepOver):
        decide(executor, prepared)
    assert [one.status for one in licenses(storage)].count(Status.DISABLED) == LICENSES_PER_STEP
    assert decide(executor, claim(storage, LATER)) is None
    event = events_of(storage, 0)[-1]
    assert (event.name, event.actor) == ("job.canceled", ACTOR)
    assert event.details == {"job_id": job.id, "kind": "change", "done": LICENSES_PER_STEP, "refused": 0}


def test_what_has_ended_or_was_never_there_cannot_be_canceled(executor: Executor, storage: Storage) -> None:
    job = run_job(executor, storage, a_change("delete"))
    with pytest.raises(JobOver):
        decide(executor, cancel(job.id))
    with pytest.raises(UnknownJob):
        decide(executor, cancel(99))


def test_a_job_that_is_given_up_says_why(executor: Executor, storage: Storage) -> None:
    job = decide(executor, start(a_change("delete")))
    with pytest.raises(StepOver):
        decide(executor, fail(job.id, "Too bad."))
    decide(executor, claim(storage))
    failed = decide(executor, fail(job.id, "Too bad."))
    assert (failed.state, failed.messages, failed.finished_at) == (JobState.FAILED, "Too bad.", NOW)
    assert events_of(storage, 0)[-1].name == "job.failed"


# --- generating -----------------------------------------------------------------------------------


def test_generating_makes_as_many_licenses_as_were_ordered(executor: Executor, storage: Storage) -> None:
    executor.execute([create_policy(terms=terms_from_first_activation(3, 9))])
    amount = 2 * KEYS_PER_STEP + 3
    order = a_generation(amount, status=Status.SOLD, order_id=1, product_id=2, customer_id=3)
    job = run_job(executor, storage, order)
    assert (job.state, job.done, job.refused, job.total, job.finished_at) == (
        JobState.DONE,
        amount,
        0,
        amount,
        NOW,
    )
    made = licenses(storage)
    assert len({one.key for one in made}) == len(made) == amount
    for one in made:
        assert (one.source, one.status, one.created_by) == (LicenseSource.GENERATOR, Status.SOLD, None)
        assert (one.order_id, one.product_id, one.customer_id) == (1, 2, 3)
        assert (one.times_activated_max, one.valid_for_days) == (3, 9)
        assert [(event.name, event.actor) for event in events_of(storage, one.id)] == [
            ("license.created", ACTOR)
        ]
    assert [event.name for event in events_of(storage, 0)] == ["policy.created", "job.started", "job.done"]


def test_a_job_fails_when_its_policy_is_deleted(executor: Executor, storage: Storage) -> None:
    executor.execute([create_policy()])
    decide(executor, start(a_generation(2 * KEYS_PER_STEP)))
    work = Work(executor, storage)
    next(work.steps())
    executor.execute([delete_policy(1)])
    (job,) = work.steps()
    assert (job.state, job.done, job.messages) == (
        JobState.FAILED,
        KEYS_PER_STEP,
        "The policy has been deleted.",
    )
    assert len(licenses(storage)) == KEYS_PER_STEP


def test_a_job_fails_when_its_policy_can_make_no_more_keys(executor: Executor, storage: Storage) -> None:
    executor.execute([create_policy(charset="0123456789", chunks=1, chunk_length=1, is_weak_allowed=True)])
    job = run_job(executor, storage, a_generation(11))
    assert (job.state, job.done) == (JobState.FAILED, 0)
    assert (job.messages or "").startswith("The policy cannot make that many new keys")
    assert licenses(storage) == []


# --- changing -------------------------------------------------------------------------------------

#: What is done to a license, what it was before, and what is different then.
CHANGES: list[tuple[Change, dict[str, Any], dict[str, Any]]] = [
    (a_change("extend", 30), {"expires_at": NOW + DAY}, {"expires_at": NOW + 31 * DAY}),
    (a_change("extend", 30), {"expires_at": NOW - DAY}, {"expires_at": NOW + 29 * DAY}),
    (a_change("extend", MAX_COUNT), {"expires_at": NOW}, {"expires_at": END_OF_TIME}),
    (a_change("set_limit", 9), {"limit": 3}, {"times_activated_max": 9}),
    (a_change("set_limit"), {"limit": 3}, {"times_activated_max": None}),
    (a_change("raise_limit", 2), {"limit": 3}, {"times_activated_max": 5}),
    (a_change("disable"), {}, {"status": Status.DISABLED}),
    (a_change("enable"), {"status": Status.INACTIVE}, {"status": Status.ACTIVE}),
    (a_change("set_status", Status.DELIVERED), {}, {"status": Status.DELIVERED}),
]


@pytest.mark.parametrize(("order", "before", "changes"), CHANGES)
def test_a_change_changes_what_was_ordered_and_nothing_else(
    executor: Executor,
    storage: Storage,
    order: Change,
    before: dict[str, Any],
    changes: dict[str, Any],
) -> None:
    fill(executor, 2, **before)
    old = licenses(storage)
    job = run_job(executor, storage, order, now=LATER)
    assert (job.state, job.done, job.refused, job.messages) == (JobState.DONE, 2, 0, None)
    new = [replace(one, rule_terms=None) for one in licenses(storage)]
    assert new == [replace(one, **changes, updated_at=LATER, updated_by=None) for one in old]
    for one in old:
        # A later end is an event of its own after it.
        [event] = [each for each in events_of(storage, one.id) if each.name == "license.updated"]
        assert (event.actor, event.occurred_at) == (ACTOR, LATER)
        assert list(event.details or {}) == list(changes)


def test_an_extension_can_begin_now(executor: Executor, storage: Storage) -> None:
    fill(executor, 1, expires_at=NOW - 300 * DAY)
    run_job(executor, storage, a_change("extend", 30, is_from_now=True), now=LATER)
    assert [one.expires_at for one in licenses(storage)] == [LATER + 30 * DAY]


def test_places_are_given_up_and_each_is_an_event(executor: Executor, storage: Storage) -> None:
    fill(executor, 2)
    executor.execute([activate("KEY-1"), activate("KEY-1"), activate("KEY-2")])
    run_job(executor, storage, a_change("deactivate_all"))
    assert [one.times_activated for one in licenses(storage)] == [0, 0]
    names = [event.name for event in events_of(storage, 1) if event.actor == ACTOR]
    assert names == ["license.deactivated"] * 2


def test_licenses_are_deleted_and_each_is_an_event(executor: Executor, storage: Storage) -> None:
    fill(executor, LICENSES_PER_STEP + 1)
    executor.execute([activate("KEY-1")])
    job = run_job(executor, storage, a_change("delete"))
    assert (job.state, job.done) == (JobState.DONE, LICENSES_PER_STEP + 1)
    assert licenses(storage) == []
    for number in range(1, LICENSES_PER_STEP + 2):
        event = events_of(storage, number)[-1]
        assert (event.name, event.actor) == ("license.deleted", ACTOR)


#: What is refused, what the license is, and what is said of it.
REFUSED: list[tuple[Change, dict[str, Any], str]] = [
    (a_change("extend", 30), {}, "it has no expiry that could be extended"),
    (a_change("extend", 30), {"valid_for_days": 365}, "it has no expiry that could be extended"),
    (a_change("extend", 30), {"expires_at": END_OF_TIME}, "it is already valid for longer"),
    (a_change("raise_limit", 1), {}, "it has no limit"),
    (a_change("raise_limit", 1), {"limit": MAX_COUNT}, "the limit would be too large"),
    (a_change("set_limit", 3), {"limit": 3}, "it is already like that"),
    (a_change("set_limit"), {}, "it is already like that"),
    (a_change("enable"), {}, "it is already like that"),
    (a_change("deactivate_all"), {}, "no place is taken"),
]


@pytest.mark.parametrize(("order", "before", "reason"), REFUSED)
def test_what_is_refused_is_counted_and_the_first_are_told(
    executor: Executor, storage: Storage, order: Change, before: dict[str, Any], reason: str
) -> None:
    amount_refused = LICENSES_PER_STEP + 3
    fill(executor, amount_refused, **before)
    old = licenses(storage)
    job = run_job(executor, storage, order, now=LATER)
    assert (job.state, job.done, job.refused) == (JobState.DONE, amount_refused, amount_refused)
    assert (job.messages or "").split("\n") == [f"License {number}: {reason}." for number in range(1, 6)]
    assert licenses(storage) == old
    assert [event.name for one in old for event in events_of(storage, one.id)] == ["license.created"] * len(
        old
    )


def test_an_extension_from_now_never_makes_it_shorter(executor: Executor, storage: Storage) -> None:
    fill(executor, 1, expires_at=NOW + 90 * DAY)
    job = run_job(executor, storage, a_change("extend", 30, is_from_now=True))
    assert (job.refused, job.messages) == (1, "License 1: it is already valid for longer.")


def test_selected_licenses_are_changed_once_each_and_no_others(executor: Executor, storage: Storage) -> None:
    fill(executor, 5, limit=1)
    order = a_change("raise_limit", 1, license_ids=(4, 2, 2, 99, 4))
    job = run_job(executor, storage, order)
    assert [one.times_activated_max for one in licenses(storage)] == [1, 2, 1, 2, 1]
    assert (job.total, job.done, job.refused) == (3, 3, 1)
    assert job.messages == "License 99: it no longer exists."


def test_the_licenses_that_a_search_finds_are_changed_and_no_others(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create(f"KEY-{number}", product_id=number % 2) for number in range(1, 60)])
    job = run_job(executor, storage, a_change("disable", search=Search(product_id=1)))
    assert (job.done, job.refused) == (30, 0)
    assert {(one.product_id, one.status) for one in licenses(storage)} == {
        (0, Status.ACTIVE),
        (1, Status.DISABLED),
    }


def test_a_search_finds_what_was_there_when_the_order_was_given(executor: Executor, storage: Storage) -> None:
    fill(executor, 2)
    decide(executor, start(a_change("disable")))
    executor.execute([create("LATER")])
    work = Work(executor, storage)
    assert [job.done for job in work.steps()] == [2]
    assert [one.status for one in licenses(storage)][-1] == Status.ACTIVE


def test_an_order_about_nothing_is_done_at_once(executor: Executor, storage: Storage) -> None:
    job = run_job(executor, storage, a_change("disable"))
    assert (job.state, job.done, job.total) == (JobState.DONE, 0, 0)


@pytest.mark.parametrize(
    "amount", [LICENSES_PER_STEP - 1, LICENSES_PER_STEP, LICENSES_PER_STEP + 1, 1000, 1001]
)
def test_every_license_is_changed_once_whatever_their_number(
    executor: Executor, storage: Storage, amount: int
) -> None:
    fill(executor, amount, limit=1)
    job = run_job(executor, storage, a_change("raise_limit", 1))
    assert (job.done, job.refused, job.total) == (amount, 0, amount)
    assert {one.times_activated_max for one in licenses(storage)} == {2}


def test_a_license_that_goes_or_gives_its_key_away_is_not_mistaken(
    executor: Executor, storage: Storage
) -> None:
    fill(executor, 3, limit=1)
    decide(executor, start(a_change("raise_limit", 1)))
    work = Work(executor, storage)
    prepared = work.prepare()
    outcomes: Sequence[Any] = executor.execute(
        [delete("KEY-1"), rename("KEY-2", "NEW"), create("KEY-2", limit=1)]
    )
    assert not [one for one in outcomes if isinstance(one, Exception)]
    job = decide(executor, prepared)
    assert (job.done, job.refused) == (3, 1)
    assert {one.key: one.times_activated_max for one in licenses(storage)} == {
        "NEW": 2,
        "KEY-3": 2,
        "KEY-2": 1,
    }


# --- once -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [a_change("raise_limit", 1), a_generation(60)], ids=["change", "generate"])
def test_a_step_that_is_taken_again_does_nothing(executor: Executor, storage: Storage, order: Order) -> None:
    executor.execute([create_policy()])
    fill(executor, 60, limit=1)
    decide(executor, start(order))
    work = Work(executor, storage)
    step = work.prepare()
    (first, again) = executor.execute([step, step])
    before = licenses(storage), get_job(storage, first.id)
    assert isinstance(again, StepOver)
    assert isinstance(executor.execute([step])[0], StepOver)
    assert (licenses(storage), get_job(storage, first.id)) == before
    assert before[1] == first


def test_a_step_is_refused_to_who_has_lost_the_claim(executor: Executor, storage: Storage) -> None:
    fill(executor, 1)
    decide(executor, start(a_change("disable")))
    step = Work(executor, storage).prepare()
    decide(executor, claim(storage, LATER, "another", waited=HELD))
    with pytest.raises(StepOver):
        decide(executor, step)
    assert [one.status for one in licenses(storage)] == [Status.ACTIVE]


def test_a_step_that_the_database_undoes_leaves_nothing(executor: Executor, storage: Storage) -> None:
    fill(executor, 2, limit=1)
    decide(executor, start(a_change("raise_limit", 1)))
    work = Work(executor, storage)
    before = work.job
    # The last of these is rejected by the database, and all are undone: then each is decided alone.
    broken = create("KEY-9", order_id=2**70)
    outcome, fault = executor.execute([work.prepare(), broken])
    assert isinstance(fault, Exception)
    assert not isinstance(fault, Refusal)
    assert (outcome.done, outcome.position) == (before.done + 2, 2)
    assert [one.times_activated_max for one in licenses(storage)] == [2, 2]


def test_a_step_and_a_call_about_the_same_license_meet_in_a_batch(
    executor: Executor, storage: Storage
) -> None:
    fill(executor, 2, limit=1, expires_at=NOW + DAY)
    decide(executor, start(a_change("extend", 30)))
    step = Work(executor, storage).prepare()
    outcomes = executor.execute(
        [activate("KEY-1"), step, activate("KEY-2"), update("KEY-1", customer_id=5), activate("KEY-1")]
    )
    assert [type(one).__name__ for one in outcomes][-1] == "LimitReached"
    assert [one.times_activated for one in licenses(storage)] == [1, 1]
    assert [one.expires_at for one in licenses(storage)] == [NOW + 31 * DAY] * 2
    assert [one.customer_id for one in licenses(storage)] == [5, None]


def test_one_license_can_be_extended_and_its_limit_raised_by_a_command(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create(limit=1, expires_at=NOW)])
    fields: dict[str, Any] = {
        "context": Context(LATER, start(a_change("delete")).context.origin, BY),
        "license": "KEY-1",
    }
    executor.execute([ExtendLicense(**fields, days=1), RaiseLimit(**fields, places=2)])
    (license,) = licenses(storage)
    assert (license.expires_at, license.times_activated_max) == (NOW + DAY, 3)
