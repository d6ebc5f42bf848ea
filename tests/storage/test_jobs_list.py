"""The list of jobs is read in pages; old jobs are purged in steps."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import insert

from keywright.core.errors import UnknownJob
from keywright.db import Storage, run_read
from keywright.db.schema import jobs as table
from keywright.engine.executor import Executor
from keywright.jobs import store
from keywright.jobs.handlers import MAX_UNFINISHED
from keywright.jobs.model import Job, JobState, PurgeJobFile, PurgeJobs
from keywright.jobs.orders import Export
from tests.jobs import ALL, a_change, by_user, cancel, decide, events_of, run_job, start
from tests.makers import LATER, NOW, create
from tests.storage.test_jobs import orderer

DATABASES = ("sqlite",)

__all__ = ["orderer"]

SOON = NOW + timedelta(seconds=1)


def test_the_page_before_one_has_the_next_jobs_latest_first(executor: Executor, storage: Storage) -> None:
    started = executor.execute([start(a_change("delete"))] * 5)[::-1]

    def list_next(job: Job) -> list[Job]:
        return run_read(storage, lambda tx: store.list_next_jobs(tx, after_id=job.id, limit=3))

    assert list_next(started[4]) == started[1:4]
    assert list_next(started[1]) == started[:1]
    assert list_next(started[0]) == []


def forget(executor: Executor, before: datetime) -> int:
    """Purge some old jobs; return how many."""
    number: int = decide(executor, PurgeJobs(**by_user(), before=before))
    return number


def is_there(storage: Storage, job: Job) -> bool:
    return run_read(storage, lambda tx: store.find_job(tx, job.id)) is not None


def has_old(storage: Storage) -> bool:
    return run_read(storage, lambda tx: store.has_old_jobs(tx, SOON))


def test_a_job_is_forgotten_that_ended_before_and_no_other(executor: Executor, storage: Storage) -> None:
    old = run_job(executor, storage, a_change("disable"))
    canceled = decide(executor, start(a_change("disable")))
    decide(executor, cancel(canceled.id))
    new = run_job(executor, storage, a_change("disable"), now=LATER)
    waiting = decide(executor, start(a_change("disable")))
    assert not run_read(storage, lambda tx: store.has_old_jobs(tx, NOW))
    assert forget(executor, NOW) == 0
    assert has_old(storage)
    assert forget(executor, SOON) == 2
    assert not has_old(storage)
    assert [is_there(storage, one) for one in (old, canceled, new, waiting)] == [False, False, True, True]
    assert [event.name for event in events_of(storage, 0)].count("job.started") == 4


def test_the_number_of_a_forgotten_job_is_given_to_no_other(executor: Executor, storage: Storage) -> None:
    old = run_job(executor, storage, a_change("disable"))
    forget(executor, SOON)
    with pytest.raises(UnknownJob):
        decide(executor, cancel(old.id))
    assert decide(executor, start(a_change("disable"))).id > old.id


@pytest.mark.smoke
def test_a_job_stays_as_long_as_it_has_a_file(executor: Executor, storage: Storage) -> None:
    executor.execute([create()])
    job = run_job(executor, storage, Export(search=ALL))
    assert not has_old(storage)
    assert forget(executor, SOON) == 0
    decide(executor, PurgeJobFile(**by_user(), job_id=job.id))
    assert forget(executor, SOON) == 1


@pytest.mark.smoke
def test_some_are_forgotten_at_a_time_and_all_in_the_end(executor: Executor, storage: Storage) -> None:
    """Regardless of their number, and even if the maximum of waiting jobs is older."""
    job = run_job(executor, storage, a_change("disable"))
    with storage.write() as tx:
        row = tx.connection.execute(table.select().where(table.c.id == job.id)).one()
        ended = dict(row._mapping)
        waiting = ended | {"state": JobState.WAITING, "finished_at": None}
        tx.connection.execute(table.delete())
        for number in range(1, 400):
            like = waiting if number <= MAX_UNFINISHED else ended
            tx.connection.execute(insert(table).values(like | {"id": number}))
    forgotten = []
    while has_old(storage):
        forgotten.append(forget(executor, SOON))
    assert sum(forgotten) == 399 - MAX_UNFINISHED
    assert max(forgotten) < 50
    assert not run_read(storage, lambda tx: store.list_next_jobs(tx, after_id=MAX_UNFINISHED, limit=1))
    assert len(run_read(storage, lambda tx: store.list_jobs(tx, before_id=None, limit=500))) == MAX_UNFINISHED
