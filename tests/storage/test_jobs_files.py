"""The file of an export: its contents, its storage, and its deletion."""

import csv
import io
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from keywright.core.errors import FileGone, UnknownJob
from keywright.db import Storage, run_read
from keywright.db.schema import job_file_chunks
from keywright.engine.executor import Executor
from keywright.jobs import files as job_files
from keywright.jobs import store as job_store
from keywright.jobs.files import COLUMNS
from keywright.jobs.model import Job, JobState, PurgeJobFile
from keywright.jobs.orders import Export
from keywright.jobs.planning import ROWS_PER_STEP
from keywright.licensing.licenses.model import Status
from keywright.licensing.notes import Notes, SaveNotes
from keywright.provisioning.products import NameKind, SaveName
from keywright.registry import open_executor
from keywright.search.filters import Search
from keywright.search.license_pages import find_page
from tests.jobs import (
    ALL,
    Work,
    a_change,
    by_user,
    cancel,
    decide,
    run_job,
    start,
)
from tests.makers import LATER, NOW, activate, create, delete
from tests.storage.test_jobs import orderer
from tests.storage.test_secrecy import Everything, everything

DATABASES = ("sqlite",)

__all__ = ["everything", "orderer"]

CANARY = "CANARY-OF-EXPORTS"
KEPT = timedelta(hours=24)


def read(storage: Storage, job_id: int) -> bytes:
    return b"".join(job_files.read_file(lambda question: run_read(storage, question), job_id))


def rows(storage: Storage, search: Search = ALL) -> list[dict[str, str]]:
    """Read the file as a spreadsheet does."""
    return parse(read(storage, exported(storage, search).id))


def parse(file: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.decode("utf-8-sig"), newline=""), strict=True))


def exported(storage: Storage, search: Search = ALL) -> Job:
    return run_job(open_executor(storage), storage, Export(search=search))


def export_selected(storage: Storage, *license_ids: int) -> Job:
    return run_job(open_executor(storage), storage, Export(license_ids=license_ids))


def until_gone(reading: Iterator[bytes]) -> Iterator[bytes]:
    """Read the file until it is gone."""
    with pytest.raises(FileGone):
        yield from reading


def chunks(storage: Storage) -> list[tuple[int, int]]:
    """The job ID and number of each chunk."""
    with storage.read() as tx:
        return [(row.job_id, row.number) for row in tx.connection.execute(select(job_file_chunks))]


def forget(executor: Executor, storage: Storage, before: Any) -> None:
    """Purge old files, as a server regularly does."""
    while (job_id := run_read(storage, lambda tx: job_store.find_job_with_old_file(tx, before))) is not None:
        decide(executor, PurgeJobFile(**by_user(), job_id=job_id))


def name(executor: Executor, kind: NameKind, number: int, name: str) -> None:
    decide(executor, SaveName(**by_user(), kind=kind, number=number, name=name))


def test_a_row_says_what_is_known_of_a_license(executor: Executor, storage: Storage) -> None:
    executor.execute(
        [create("KEY-1", 3, status=Status.SOLD, order_id=1, product_id=2, customer_id=3, expires_at=LATER)]
    )
    executor.execute([create("KEY-2", valid_for_days=365), activate("KEY-1")])
    decide(executor, SaveNotes(**by_user(), license="KEY-1", notes=Notes("Calls on Monday.", ("eu", "vip"))))
    name(executor, NameKind.PRODUCT, 2, "Photo Desk")
    name(executor, NameKind.CUSTOMER, 3, "Ada")
    file = read(storage, exported(storage).id)
    assert file.startswith(b"\xef\xbb\xbfid,license_key,status,")
    assert file.count(b"\r\n") == file.count(b"\n") == 3
    first, second = parse(file)
    assert tuple(first) == COLUMNS
    assert first == {
        "id": "1",
        "license_key": "KEY-1",
        "status": "sold",
        "order_id": "1",
        "product_id": "2",
        "product": "Photo Desk",
        "customer_id": "3",
        "customer": "Ada",
        "times_activated": "1",
        "times_activated_max": "3",
        "created_at": "2026-01-15T12:30:45Z",
        "expires_at": "2026-01-16T08:00:00Z",
        "valid_for_days": "",
        "updated_at": "2026-01-15T12:30:45Z",
        "tags": "eu vip",
        "note": "Calls on Monday.",
    }
    assert {column: value for column, value in second.items() if value} == {
        "id": "2",
        "license_key": "KEY-2",
        "status": "active",
        "times_activated": "0",
        "created_at": "2026-01-15T12:30:45Z",
        "valid_for_days": "365",
        "updated_at": "2026-01-15T12:30:45Z",
    }


ODD_KEYS = ["=1+1", "+1", "-1", "@SUM(A1)", 'a"b', "a,b", "a;b", "é", "🔑", "'", "a=b", '=a,"b']


def test_no_cell_is_a_formula_and_every_other_stays_as_it_is(executor: Executor, storage: Storage) -> None:
    executor.execute([create(key, product_id=number) for number, key in enumerate(ODD_KEYS)])
    for number, key in enumerate(ODD_KEYS):
        name(executor, NameKind.PRODUCT, number, key)
    for row, key in zip(rows(storage), ODD_KEYS, strict=True):
        shown = f"'{key}" if key[0] in "=+-@" else key
        assert (row["license_key"], row["product"]) == (shown, shown)


@pytest.mark.parametrize("separator", [";", ",", "\t"])
def test_no_cell_is_a_formula_wherever_lists_are_separated_otherwise(
    executor: Executor, storage: Storage, separator: str
) -> None:
    odd = [f"x{one}{first}1+1" for one in (";", ",", ';"') for first in "=+-@"]
    executor.execute([create(key) for key in odd])
    file = read(storage, exported(storage).id).decode("utf-8-sig")
    for row in csv.reader(io.StringIO(file, newline=""), delimiter=separator):
        assert not [cell for cell in row if cell.startswith(("=", "+", "-", "@"))]


@pytest.mark.parametrize("amount", [0, 1, ROWS_PER_STEP, ROWS_PER_STEP + 1, 1000, 1001])
def test_a_file_of_many_chunks_has_every_license_once(
    executor: Executor, storage: Storage, amount: int
) -> None:
    for first in range(0, amount, 500):
        executor.execute([create(f"KEY-{number}") for number in range(first, min(amount, first + 500))])
    job = exported(storage)
    assert (job.state, job.done, job.total) == (JobState.DONE, amount, amount)
    assert [row["license_key"] for row in parse(read(storage, job.id))] == [f"KEY-{n}" for n in range(amount)]
    assert len(chunks(storage)) == -(-amount // ROWS_PER_STEP)


@pytest.mark.smoke
def test_the_file_says_what_the_list_says(executor: Executor, storage: Storage) -> None:
    executor.execute([create(f"KEY-{n}", n or None, product_id=n % 2, status=n % 5 + 1) for n in range(60)])
    executor.execute([activate("KEY-3"), activate("KEY-13"), activate("KEY-13")])
    search = Search(product_id=1, status=Status.INACTIVE)
    page = run_read(storage, lambda tx: find_page(tx, search, cursor=None, limit=100, now=NOW))
    listed = sorted(page.licenses, key=lambda one: one.id)
    assert [
        (row["id"], row["license_key"], row["times_activated"], row["times_activated_max"], row["status"])
        for row in rows(storage, search)
    ] == [
        (str(one.id), one.key, str(one.times_activated), str(one.times_activated_max), "inactive")
        for one in listed
    ]
    assert len(listed) == 6


def test_only_what_was_selected_is_in_the_file(executor: Executor, storage: Storage) -> None:
    executor.execute([create(f"KEY-{number}") for number in range(1, 10)])
    job = export_selected(storage, 7, 3, 99, 3)
    assert (job.total, job.done) == (2, 2)
    assert [row["license_key"] for row in parse(read(storage, job.id))] == ["KEY-3", "KEY-7"]
    assert job_files.file_name(job) == "licenses-selected-2026-01-15-1230.csv"


def test_a_license_that_goes_meanwhile_is_left_out(executor: Executor, storage: Storage) -> None:
    executor.execute([create(f"KEY-{number}") for number in range(ROWS_PER_STEP + 2)])
    decide(executor, start(Export(search=ALL)))
    work = Work(executor, storage)
    next(work.steps())
    executor.execute([delete(f"KEY-{ROWS_PER_STEP + number}") for number in range(2)])
    assert [job.done for job in work.steps()] == [ROWS_PER_STEP]
    assert len(parse(read(storage, work.job.id))) == ROWS_PER_STEP


def test_no_key_can_be_read_where_the_file_is_kept(
    executor: Executor, storage: Storage, everything: Everything
) -> None:
    executor.execute([create(CANARY), create("OTHER", order_id=1)])
    name(executor, NameKind.PRODUCT, 1, "a product")
    job = exported(storage)
    assert CANARY.encode() in read(storage, job.id)
    for file, content in everything().items():
        assert CANARY.encode() not in content, file
        assert b"OTHER,active" not in content, file


@pytest.mark.smoke
@pytest.mark.parametrize("other", [{"job_id": 1, "number": 1}, {"job_id": 2, "number": 9}])
def test_a_chunk_is_read_as_its_jobs_own_chunk_only(
    executor: Executor, storage: Storage, other: dict[str, int]
) -> None:
    executor.execute([create()])
    jobs_done = [exported(storage), exported(storage)]
    with storage.write() as tx:
        tx.connection.execute(job_file_chunks.delete().where(job_file_chunks.c.job_id == 1))
        tx.connection.execute(update(job_file_chunks).values(**other))
    with pytest.raises((ValueError, FileGone)):
        read(storage, jobs_done[other["job_id"] - 1].id)


def test_a_file_is_forgotten_a_day_after_it_was_made(executor: Executor, storage: Storage) -> None:
    executor.execute([create(f"KEY-{number}") for number in range(25 * ROWS_PER_STEP)])
    job = exported(storage)
    assert job.finished_at == NOW
    forget(executor, storage, NOW)
    # More on a slow machine, because slow steps are made smaller.
    assert len(chunks(storage)) >= 25
    reading = job_files.read_file(lambda question: run_read(storage, question), job.id)
    next(reading)
    forget(executor, storage, NOW + timedelta(seconds=1))
    assert chunks(storage) == []
    with pytest.raises(FileGone):
        next(reading)
    with pytest.raises(FileGone):
        read(storage, job.id)


def test_a_file_that_goes_while_it_is_read_ends_too_early_and_has_no_gap(
    executor: Executor, storage: Storage
) -> None:
    executor.execute([create(f"KEY-{number:05d}") for number in range(25 * ROWS_PER_STEP)])
    job = exported(storage)
    reading = job_files.read_file(lambda question: run_read(storage, question), job.id)
    file = next(reading) + next(reading)
    assert decide(executor, PurgeJobFile(**by_user(), job_id=job.id)) == 20
    file += b"".join(until_gone(reading))
    assert [row["license_key"] for row in parse(file)] == [f"KEY-{n:05d}" for n in range(5 * ROWS_PER_STEP)]


def test_what_a_job_made_that_is_not_done_is_forgotten_at_once(executor: Executor, storage: Storage) -> None:
    executor.execute([create(f"KEY-{number}") for number in range(ROWS_PER_STEP + 1)])
    done = exported(storage)
    decide(executor, start(Export(search=ALL)))
    work = Work(executor, storage)
    next(work.steps())
    forget(executor, storage, NOW - KEPT)
    assert len(chunks(storage)) == 3
    decide(executor, cancel(work.job.id))
    forget(executor, storage, NOW - KEPT)
    assert {job_id for job_id, _ in chunks(storage)} == {done.id}
    with pytest.raises(FileGone):
        read(storage, work.job.id)


def test_there_is_no_file_before_the_job_is_done_and_none_of_other_jobs(
    executor: Executor, storage: Storage
) -> None:
    changed = run_job(executor, storage, a_change("delete"))
    waiting = decide(executor, start(Export(search=ALL)))
    for job_id in (waiting.id, changed.id):
        with pytest.raises(FileGone):
            read(storage, job_id)
    with pytest.raises(UnknownJob):
        read(storage, 99)


@pytest.mark.parametrize(
    ("search", "name"),
    [
        (Search(), "licenses-all-2026-01-15-1230.csv"),
        (Search(status=5, product_id=7), "licenses-disabled-product-7-2026-01-15-1230.csv"),
        (Search(order_id=0, customer_id=8), "licenses-order-0-customer-8-2026-01-15-1230.csv"),
        (Search(expiring_within_days=30), "licenses-expiring-in-30-days-2026-01-15-1230.csv"),
        (Search(is_full=True), "licenses-full-2026-01-15-1230.csv"),
        (Search(is_unused=True, term="lsomebody"), "licenses-unused-found-2026-01-15-1230.csv"),
        (Search(is_expired=True, tag="Anna"), "licenses-expired-tagged-2026-01-15-1230.csv"),
        (Search(unseen_for_days=90), "licenses-unseen-for-90-days-2026-01-15-1230.csv"),
        (Search(order_ref="Anna-7", made_by=4), "licenses-order-key-4-2026-01-15-1230.csv"),
        (Search(policy_id=3, job_id=5), "licenses-policy-3-job-5-2026-01-15-1230.csv"),
        (
            Search(expires=(None, NOW), created=(NOW, None)),
            "licenses-expiring-before-2026-01-15-created-after-2026-01-15-2026-01-15-1230.csv",
        ),
    ],
)
def test_the_name_of_a_file_says_what_and_when_but_nothing_that_was_typed(
    executor: Executor, search: Search, name: str
) -> None:
    assert job_files.file_name(decide(executor, start(Export(search=search)))) == name
