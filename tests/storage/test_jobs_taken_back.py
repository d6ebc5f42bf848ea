"""A job's licenses can be listed, the job undone, and its new keys downloaded once."""

import csv
import io
from typing import Any

import pytest

from keywright.core.command import Context
from keywright.core.errors import JobRunning, JobTakenBack, KeysFetched, KeysNotForYou, StepOver, UnknownJob
from keywright.db import Storage, run_read
from keywright.engine.executor import Executor
from keywright.jobs import files as job_files
from keywright.jobs import store as job_store
from keywright.jobs.model import FetchKeys, Job, PurgeJobs
from keywright.jobs.orders import TakeBack
from keywright.licensing.licenses.model import Status
from keywright.search.filters import Search
from keywright.search.license_pages import find_page
from tests.jobs import (
    BY,
    Work,
    a_change,
    a_generation,
    by_user,
    cancel,
    decide,
    hold,
    run_job,
    start,
    start_import,
)
from tests.makers import LATER, NOW, activate, an_origin, create, create_policy, update
from tests.storage.stored import licenses_by_id, list_licenses
from tests.storage.test_jobs import orderer

DATABASES = ("sqlite",)

__all__ = ["orderer"]


def of_job(storage: Storage, job: Job) -> list[int]:
    """The licenses listed for a job, oldest first."""
    page = run_read(
        storage, lambda tx: find_page(tx, Search(job_id=job.id), cursor=None, limit=1000, now=NOW)
    )
    assert page.total == len(page.licenses)
    return [one.id for one in page.licenses][::-1]


def make(executor: Executor, amount: int, **fields: Any) -> None:
    defaults: dict[str, Any] = {"limit": 2, "expires_at": LATER}
    for number in range(amount):
        decide(executor, create(f"KEY-{number}", **defaults | fields))


def take_back(storage: Storage, executor: Executor, job: Job) -> Job:
    return run_job(executor, storage, TakeBack(job_id=job.id))


def test_a_bulk_change_is_taken_back_but_for_what_was_changed_since(
    storage: Storage, executor: Executor
) -> None:
    make(executor, 40)
    before = licenses_by_id(storage)
    job = run_job(executor, storage, a_change("extend", 30))
    assert of_job(storage, job) == list(before)
    decide(executor, update(3, expires_at=NOW))
    decide(executor, update(4, order_id=4711))
    undone = take_back(storage, executor, job)
    assert (undone.done, undone.refused, undone.total) == (40, 1, 40)
    assert undone.messages == "License 3: it has been changed since (expires)."
    after = licenses_by_id(storage)
    assert after[3].expires_at == NOW
    assert after[4].order_id == 4711
    assert {id: one.expires_at for id, one in after.items() if id != 3} == {
        id: one.expires_at for id, one in before.items() if id != 3
    }
    # It is possible once; and the undo can be undone.
    with pytest.raises(JobTakenBack):
        take_back(storage, executor, job)
    again = take_back(storage, executor, undone)
    assert (again.done, again.refused) == (39, 0)
    assert licenses_by_id(storage)[5].expires_at != before[5].expires_at


@pytest.mark.parametrize("what", ["disable", "deactivate_all", "set_limit"])
def test_every_change_can_be_taken_back(storage: Storage, executor: Executor, what: str) -> None:
    make(executor, 3)
    for id in (1, 1, 2):
        decide(executor, activate(id))
    before = licenses_by_id(storage)
    job = run_job(executor, storage, a_change(what, 7 if what == "set_limit" else None))
    assert take_back(storage, executor, job).refused == 0
    kept = ("status", "times_activated", "deactivated_count", "times_activated_max")
    for id, one in licenses_by_id(storage).items():
        assert [getattr(one, name) for name in kept] == [getattr(before[id], name) for name in kept]


def test_only_a_job_that_has_ended_and_has_changed_something_can_be_taken_back(
    storage: Storage, executor: Executor
) -> None:
    make(executor, 2, expires_at=None)
    with pytest.raises(UnknownJob):
        decide(executor, start(TakeBack(job_id=77)))
    waiting = decide(executor, start(a_change("disable")))
    with pytest.raises(JobRunning):
        decide(executor, start(TakeBack(job_id=waiting.id)))
    decide(executor, cancel(waiting.id))
    nothing = run_job(executor, storage, a_change("extend", 3))
    for job in (waiting, nothing):
        with pytest.raises(JobTakenBack):
            decide(executor, start(TakeBack(job_id=job.id)))


def test_a_job_that_was_killed_in_between_is_taken_back_exactly_once(
    storage: Storage, executor: Executor
) -> None:
    make(executor, 60)
    before = licenses_by_id(storage)
    job = run_job(executor, storage, a_change("raise_limit", 1))
    decide(executor, start(TakeBack(job_id=job.id)))
    work = Work(executor, storage)
    step = work.prepare()
    decide(executor, step)
    # The worker dies before the response; the next one continues, and the late step changes nothing.
    decide(executor, hold(work.job.id, is_over=True))
    assert isinstance(executor.execute([step])[0], StepOver)
    for _ in Work(executor, storage).steps():
        pass
    assert {one.id: one.times_activated_max for one in list_licenses(storage)} == dict.fromkeys(before, 2)


def test_the_keys_of_a_job_are_downloaded_once_by_who_ordered_it(
    storage: Storage, executor: Executor
) -> None:
    decide(executor, create_policy())
    make(executor, 1)
    job = run_job(executor, storage, a_generation(60))
    other = Context(NOW, an_origin(actor="user:8"), BY + 1)
    with pytest.raises(KeysNotForYou):
        decide(executor, FetchKeys(context=other, job_id=job.id))
    fetched = decide(executor, FetchKeys(**by_user(), job_id=job.id))
    new = {one.key for one in list_licenses(storage) if one.key != "KEY-0"}

    def content(*, is_csv: bool) -> str:
        read = job_files.read_keys(lambda question: run_read(storage, question), fetched, is_csv=is_csv)
        return b"".join(read).decode("utf-8-sig")

    assert set(content(is_csv=False).split()) == new
    assert {row["license_key"] for row in csv.DictReader(io.StringIO(content(is_csv=True)))} == new
    assert len(of_job(storage, job)) == len(new) == 60
    with pytest.raises(KeysFetched):
        decide(executor, FetchKeys(**by_user(), job_id=job.id))


def test_new_licenses_are_taken_back_while_they_are_untouched(storage: Storage, executor: Executor) -> None:
    decide(executor, create_policy())
    job = run_job(executor, storage, a_generation(30))
    decide(executor, activate(7))
    decide(executor, update(9, status=Status.SOLD, now=LATER))
    undone = take_back(storage, executor, job)
    assert sorted(licenses_by_id(storage)) == [7, 9]
    assert undone.refused == 2


@pytest.mark.smoke
def test_notes_go_with_their_job(storage: Storage, executor: Executor) -> None:
    make(executor, 3)
    job = run_job(executor, storage, a_change("disable"))
    purge = PurgeJobs(context=Context(LATER, an_origin()), before=LATER)
    assert [decide(executor, purge) for _ in range(3)] == [3, 1, 0]
    assert run_read(storage, lambda tx: job_store.find_job(tx, job.id)) is None
    assert run_read(storage, lambda tx: job_store.list_job_licenses(tx, job.id, after_id=0, limit=9)) == []


@pytest.mark.smoke
def test_the_licenses_of_an_import_are_those_that_it_brought(storage: Storage, executor: Executor) -> None:
    make(executor, 1)
    start_import(executor, "Key,Status\nKEY-0,active\nNEW-1,active\nNEW-2,sold\n", "license_key", "status")
    work = Work(executor, storage)
    for _ in work.steps():
        pass
    brought = {licenses_by_id(storage)[id].key for id in of_job(storage, work.job)}
    assert {"NEW-1", "NEW-2"} <= brought
    with pytest.raises(JobTakenBack):
        take_back(storage, executor, work.job)
