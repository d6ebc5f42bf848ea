"""The job that imports an uploaded table: exactly once, and the table is deleted."""

from datetime import timedelta

import msgspec
import pytest
from sqlalchemy import select

from keywright.core.errors import StepOver, UnknownJob
from keywright.db import Storage, run_read
from keywright.db.schema import job_file_chunks
from keywright.engine.executor import Executor
from keywright.identity.model import Role
from keywright.jobs import files as job_files
from keywright.jobs import store as job_store
from keywright.jobs.model import JobState
from keywright.jobs.orders import parameters_of
from tests.jobs import (
    BY,
    Work,
    by_user,
    cancel,
    decide,
    get_job,
    import_of,
    start_import,
    upload,
)
from tests.makers import NOW, change_user, find_items
from tests.storage.stored import list_licenses
from tests.storage.test_jobs import orderer
from tests.storage.test_secrecy import Everything, everything

DATABASES = ("sqlite",)

__all__ = ["everything", "orderer"]

#: More lines than a step processes.
LINES = 230
CANARY = "CANARY-OF-IMPORTS"
TABLE = "Key,Limit\n" + "".join(f"{CANARY}-{number},{number + 1}\n" for number in range(LINES))


def begin(executor: Executor, storage: Storage, content: str = TABLE) -> Work:
    start_import(executor, content, "key", "times_activated_max")
    return Work(executor, storage)


def chunks(storage: Storage) -> int:
    with storage.read() as tx:
        return len(tx.connection.execute(select(job_file_chunks.c.number)).all())


@pytest.mark.smoke
def test_every_line_is_imported_in_steps_and_the_table_is_deleted_at_the_end(
    executor: Executor, storage: Storage
) -> None:
    work = begin(executor, storage)
    assert chunks(storage) > 2
    done = [job.done for job in work.steps()]
    assert (done[0], done[-1], work.job.state) == (100, LINES, JobState.DONE)
    assert parameters_of(work.job).outcomes == {"new": LINES}
    assert {one.key: one.times_activated_max for one in list_licenses(storage)} == {
        f"{CANARY}-{number}": number + 1 for number in range(LINES)
    }
    assert chunks(storage) == 0


def test_again_nothing_changes(executor: Executor, storage: Storage) -> None:
    list(begin(executor, storage).steps())
    before = list_licenses(storage)
    work = begin(executor, storage)
    list(work.steps())
    assert parameters_of(work.job).outcomes == {"same": LINES}
    assert list_licenses(storage) == before


def test_a_step_that_is_taken_again_is_refused(executor: Executor, storage: Storage) -> None:
    work = begin(executor, storage)
    step = work.prepare()
    assert decide(executor, step).done == 100
    with pytest.raises(StepOver):
        decide(executor, step)
    assert len(list_licenses(storage)) == 100


def test_lines_that_fail_are_counted_and_kept_to_be_mended(executor: Executor, storage: Storage) -> None:
    bad = {0: ",1", 150: "SOME-KEY,many", LINES - 1: "SOME-KEY,3,4"}
    lines = TABLE.splitlines()
    for place, text in bad.items():
        lines[place + 1] = text
    work = begin(executor, storage, "\n".join(lines))
    list(work.steps())
    assert (work.job.done, work.job.refused) == (LINES, 3)
    assert parameters_of(work.job).outcomes["left_out"] == 3
    assert (work.job.messages or "").startswith("Line 2: license_key is missing.\nLine 152: ")
    file = b"".join(job_files.read_file(lambda question: run_read(storage, question), work.job.id))
    written = file.decode("utf-8-sig").splitlines()
    assert written[0] == "Key,Limit,error"
    assert [line.startswith(text) for line, text in zip(written[1:], bad.values(), strict=True)] == [True] * 3


def test_nothing_is_imported_after_the_user_may_only_look(executor: Executor, storage: Storage) -> None:
    work = begin(executor, storage)
    prepared = work.prepare()
    decide(executor, change_user(BY, role=Role.READER))
    assert decide(executor, prepared).state is JobState.STOPPED
    assert list_licenses(storage) == []


@pytest.mark.smoke
def test_a_draft_is_no_work_and_in_no_list_and_goes_after_a_day(executor: Executor, storage: Storage) -> None:
    draft = upload(executor, TABLE)
    assert find_items(storage, job_store.JOBS) == []
    with storage.read() as tx:
        assert job_store.list_jobs(tx, before_id=None, limit=10) == []
        assert job_store.list_next_jobs(tx, after_id=0, limit=10) == []
        assert job_store.find_job_with_old_file(tx, NOW) is None
        assert job_store.find_job_with_old_file(tx, NOW + timedelta(seconds=1)) == draft.id


def test_a_new_upload_ends_the_one_before(executor: Executor, storage: Storage) -> None:
    first, second = upload(executor, TABLE), upload(executor, TABLE)
    with storage.read() as tx:
        assert job_store.find_job_with_old_file(tx, NOW - timedelta(days=1)) == first.id
    decide(executor, import_of(second, "key"))
    assert get_job(storage, second.id).state is JobState.WAITING


def test_only_the_user_who_uploaded_it_starts_the_import_and_only_once(
    executor: Executor, storage: Storage
) -> None:
    draft = upload(executor, TABLE)
    other = by_user()["context"]
    with pytest.raises(UnknownJob):
        decide(executor, import_of(draft, "key", context=msgspec.structs.replace(other, by=BY + 1)))
    decide(executor, import_of(draft, "key"))
    with pytest.raises(UnknownJob):
        decide(executor, import_of(draft, "key"))


def test_a_canceled_import_leaves_its_table_to_the_clean_up(executor: Executor, storage: Storage) -> None:
    work = begin(executor, storage)
    next(work.steps())
    decide(executor, cancel(work.job.id))
    with storage.read() as tx:
        assert job_store.find_job_with_old_file(tx, NOW - timedelta(days=1)) == work.job.id


def test_a_stolen_database_tells_no_key_of_an_uploaded_table(
    executor: Executor, everything: Everything
) -> None:
    upload(executor, TABLE)
    assert not [name for name, content in everything().items() if CANARY.encode() in content]
