"""A job continues only while the user who ordered it still has the right for it."""

import pytest
from sqlalchemy import delete

from keywright.db import Storage, run_write
from keywright.db.schema import users
from keywright.engine.executor import Executor
from keywright.identity.model import Role
from keywright.jobs.model import JobState
from keywright.jobs.orders import Export, Order, TakeBack
from keywright.jobs.planning import LICENSES_PER_STEP, ROWS_PER_STEP
from tests.jobs import (
    ALL,
    BY,
    Work,
    a_change,
    a_generation,
    decide,
    events_of,
    make_orderer,
    run_job,
    start,
)
from tests.makers import NOW, change_user, create, create_policy
from tests.storage.stored import list_licenses

DATABASES = ("sqlite",)

LICENSES = 2 * ROWS_PER_STEP
ORDERS: list[Order] = [a_change("delete"), a_generation(LICENSES), Export(search=ALL)]


@pytest.fixture(autouse=True)
def orderer(storage: Storage, executor: Executor) -> None:
    """The user who orders jobs, and licenses for more than one step of any job."""
    make_orderer(storage)
    executor.execute([create_policy(), *(create(f"KEY-{number}") for number in range(LICENSES))])


def test_no_further_license_is_deleted_after_the_user_who_ordered_it_was_disabled(
    executor: Executor, storage: Storage
) -> None:
    decide(executor, start(a_change("delete")))
    work = Work(executor, storage)
    steps = work.steps()
    next(steps)
    decide(executor, change_user(BY, is_disabled=True))
    job = list(steps)[-1]
    assert len(list_licenses(storage)) == LICENSES - LICENSES_PER_STEP
    assert (job.state, job.done, job.claimed_by) == (JobState.STOPPED, LICENSES_PER_STEP, None)
    assert (job.messages, job.finished_at) == ("alice was disabled.", NOW)
    (event,) = [one for one in events_of(storage, 0) if one.name == "job.stopped"]
    assert event.actor == "keywright"
    assert event.details is not None
    assert event.details["reason"] == "alice was disabled."


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: type(order).__name__)
def test_a_step_that_was_prepared_before_is_not_taken_either(
    executor: Executor, storage: Storage, order: Order
) -> None:
    decide(executor, start(order))
    work = Work(executor, storage)
    prepared = work.prepare()
    decide(executor, change_user(BY, is_disabled=True))
    job = decide(executor, prepared)
    assert (job.state, job.done, len(list_licenses(storage))) == (JobState.STOPPED, 0, LICENSES)


@pytest.mark.smoke
def test_a_user_who_may_only_look_by_now_or_is_gone_has_nothing_changed(
    executor: Executor, storage: Storage
) -> None:
    decide(executor, start(a_change("delete")))
    decide(executor, start(a_change("delete")))
    decide(executor, change_user(BY, role=Role.READER))
    (job,) = Work(executor, storage).steps()
    assert (job.state, job.messages) == (JobState.STOPPED, "alice may no longer change licenses.")
    run_write(storage, lambda tx: tx.connection.execute(delete(users)))
    (job,) = Work(executor, storage).steps()
    assert (job.state, job.messages) == (JobState.STOPPED, "The user who started the job no longer exists.")
    assert len(list_licenses(storage)) == LICENSES


def test_who_may_not_delete_many_by_now_does_not_so_by_taking_back(
    executor: Executor, storage: Storage
) -> None:
    job = run_job(executor, storage, a_generation(3))
    decide(executor, start(TakeBack(job_id=job.id)))
    decide(executor, change_user(BY, role=Role.SUPPORT))
    (stopped,) = Work(executor, storage).steps()
    assert (stopped.state, len(list_licenses(storage))) == (JobState.STOPPED, LICENSES + 3)


def test_a_job_goes_on_for_a_user_with_another_password_or_a_higher_role(
    executor: Executor, storage: Storage
) -> None:
    decide(executor, start(a_change("delete")))
    decide(executor, change_user(BY, role=Role.ADMINISTRATOR, password_hash="another"))
    assert [job.state for job in Work(executor, storage).steps()][-1] is JobState.DONE
    assert len(list_licenses(storage)) == 0
