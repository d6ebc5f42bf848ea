"""Jobs and the chunks of their files in the database.

Workers find jobs through a partial index on the unfinished ones.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import (
    Select,
    Table,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    not_,
    or_,
    select,
    update,
)

from keywright.core.errors import UnknownJob
from keywright.db import rows
from keywright.db.bulk import Values, bulk_upsert
from keywright.db.rows import NOW, to_seconds
from keywright.db.schema import job_file_chunks, job_licenses, jobs
from keywright.db.sealed_columns import chunk_associated_data
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.engine.queue import Kind
from keywright.jobs import orders
from keywright.jobs.model import GetJob, Job, JobState
from keywright.licensing.undo.rules import PastChange

_JOBS = rows.Records(jobs, Job)
find_job, lock_job = _JOBS.find, _JOBS.lock
_IS_UNFINISHED = jobs.c.finished_at.is_(None)
_IS_ORDERED = jobs.c.state != JobState.DRAFT.value
#: Chunks of an import with larger numbers contain lines that failed; the others are parts of its table.
FAILED_LINES = 2**40
#: The next job that has chunks: a single index lookup, however many chunks a job has.
_WITH_PIECES = select(jobs.c.id, jobs.c.kind, jobs.c.state, jobs.c.finished_at).where(
    jobs.c.id
    == select(func.min(job_file_chunks.c.job_id))
    .where(job_file_chunks.c.job_id > bindparam("after"))
    .scalar_subquery()
)
#: An upsert, because a license with very many activations is imported in several steps.
_INSERT_JOB_LICENSES = bulk_upsert(job_licenses, ["job_id", "license_id"])
_decode_changes = msgspec.json.Decoder(tuple[PastChange, ...]).decode
#: The number of oldest jobs to search for old ones: more than can be unfinished.
_MAX_OLDEST = 250


#: The queue of unfinished jobs, the one whose claim ended first comes first. A time in the future was written
#: by a clock that was ahead. Each step moves the position.
JOBS = Kind(
    _IS_UNFINISHED,
    jobs.c.claimed_until,
    jobs.c.claimed_by,
    order=(case((jobs.c.claimed_until > NOW, 0), else_=func.coalesce(jobs.c.claimed_until, 0)),),
    columns=_JOBS.columns,
    convert=_JOBS.of_row,
    changes=lambda now: {
        "state": JobState.RUNNING.value,
        "started_at": func.coalesce(jobs.c.started_at, to_seconds(now)),
    },
    detail=jobs.c.position,
)


def save_new_job(tx: WriteTransaction, job: Job) -> int:
    """Insert a job; return its ID."""
    return tx.insert(jobs, _values_of(job))


def save_job(tx: WriteTransaction, job: Job) -> None:
    """Update a job except its parameters."""
    values = _values_of(job)
    del values["parameters"]
    tx.connection.execute(update(jobs).where(jobs.c.id == job.id).values(values))


def save_parameters(tx: WriteTransaction, job: Job) -> None:
    """Update the parameters of a job."""
    values = {"parameters": rows.to_json(job.parameters)}
    tx.connection.execute(update(jobs).where(jobs.c.id == job.id).values(values))


def discard_drafts(tx: WriteTransaction, user_id: int) -> None:
    """Backdate the drafts of a user, so that they and their chunks are purged."""
    drafts = and_(jobs.c.state == JobState.DRAFT.value, jobs.c.created_by == user_id)
    tx.connection.execute(update(jobs).where(drafts).values(finished_at=0))


def list_jobs(tx: ReadTransaction, *, before_id: int | None, limit: int) -> list[Job]:
    """The latest jobs before this ID, latest first."""
    query = _JOBS.all.where(_IS_ORDERED).order_by(jobs.c.id.desc()).limit(limit)
    if before_id is not None:
        query = query.where(jobs.c.id < before_id)
    return [_JOBS.of_row(row) for row in tx.connection.execute(query)]


def list_next_jobs(tx: ReadTransaction, *, after_id: int, limit: int) -> list[Job]:
    """The earliest jobs after this ID, latest first."""
    query = _JOBS.all.where(_IS_ORDERED, jobs.c.id > after_id).order_by(jobs.c.id).limit(limit)
    return [_JOBS.of_row(row) for row in tx.connection.execute(query)][::-1]


def count_unfinished_jobs(tx: ReadTransaction) -> int:
    """The number of jobs that have not ended."""
    query = select(func.count()).select_from(jobs).where(_IS_UNFINISHED)
    return int(tx.connection.execute(query).scalar_one())


def save_job_licenses(
    tx: WriteTransaction, job_id: int, changed: Iterable[tuple[int, tuple[PastChange, ...]]]
) -> None:
    """Store what a job did to licenses, by license ID."""
    rows_of_job = [
        {"job_id": job_id, "license_id": license_id, "changes": msgspec.json.encode(changes).decode()}
        for license_id, changes in changed
    ]
    _INSERT_JOB_LICENSES.execute(tx.connection, rows_of_job)


def list_job_licenses(
    tx: ReadTransaction, job_id: int, *, after_id: int, limit: int
) -> list[tuple[int, tuple[PastChange, ...]]]:
    """The next license IDs after ``after_id`` that a job created or changed, and what it did."""
    column = job_licenses.c
    query = select(column.license_id, column.changes).where(column.job_id == job_id)
    query = query.where(column.license_id > after_id).order_by(column.license_id).limit(limit)
    return [(row.license_id, _decode_changes(row.changes)) for row in tx.connection.execute(query)]


def delete_old_job_licenses(tx: WriteTransaction, before: datetime, *, limit: int) -> int:
    """Delete at most ``limit`` notes of the oldest job with notes that ended before this; return how many."""
    oldest = select(jobs.c.id, jobs.c.finished_at).order_by(jobs.c.id).limit(_MAX_OLDEST).subquery()
    column = job_licenses.c
    first = (
        select(oldest.c.id)
        .where(oldest.c.finished_at < to_seconds(before), exists().where(column.job_id == oldest.c.id))
        .order_by(oldest.c.id)
        .limit(1)
    )
    job_id = tx.connection.execute(first).scalar()
    if job_id is None:
        return 0
    some = select(column.license_id).where(column.job_id == job_id).order_by(column.license_id).limit(limit)
    query = delete(job_licenses).where(column.job_id == job_id, column.license_id.in_(some))
    return tx.connection.execute(query).rowcount


def save_chunks(tx: WriteTransaction, job_id: int, chunks: Iterable[tuple[int, bytes]]) -> None:
    """Store chunks of a file by number, sealed and bound to this job and number."""
    sealed = [
        {
            "job_id": job_id,
            "number": number,
            "sealed_content": tx.sealing.seal(plain, chunk_associated_data(job_id, number)),
        }
        for number, plain in chunks
    ]
    if sealed:
        tx.connection.execute(insert(job_file_chunks), sealed)


def find_chunk(tx: ReadTransaction, job_id: int, *, after: int) -> tuple[int, bytes] | None:
    """The number and content of a job's first chunk after the number ``after``."""
    query = (
        select(job_file_chunks.c.number, job_file_chunks.c.sealed_content)
        .where(job_file_chunks.c.job_id == job_id, job_file_chunks.c.number > after)
        .order_by(job_file_chunks.c.number)
        .limit(1)
    )
    row = tx.connection.execute(query).first()
    if row is None:
        return None
    return row.number, tx.key_ring.unseal(row.sealed_content, chunk_associated_data(job_id, row.number))


def delete_parts(tx: WriteTransaction, job_id: int, first: int, last: int) -> None:
    """Delete the imported parts of a table with numbers from ``first`` to ``last``."""
    chunks = job_file_chunks.c
    tx.connection.execute(
        delete(job_file_chunks).where(chunks.job_id == job_id, chunks.number.between(first, last))
    )


def has_chunks(tx: ReadTransaction, job_id: int) -> bool:
    """Whether this job's file has any chunk."""
    query = select(job_file_chunks.c.number).where(job_file_chunks.c.job_id == job_id).limit(1)
    return tx.connection.execute(query).first() is not None


def find_job_with_old_file(
    tx: ReadTransaction, before: datetime, before_mailed: datetime | None = None
) -> int | None:
    """The ID of a job whose file is no longer needed: it ended before ``before`` (a job that makes license
    files: ``before_mailed``, if given), or it failed, was canceled or was stopped.
    """
    number: int = 0
    while (found := tx.connection.execute(_WITH_PIECES, {"after": number}).first()) is not None:
        number = found.id
        until = before_mailed if before_mailed is not None and found.kind == "make_files" else before
        is_old = found.finished_at is not None and found.finished_at < to_seconds(until)
        if is_old or found.state in (JobState.FAILED, JobState.CANCELED, JobState.STOPPED):
            return number
    return None


def delete_chunks(tx: WriteTransaction, job_id: int, *, limit: int) -> int:
    """Delete at most ``limit`` of a job's chunks, last ones first; return their number.

    A concurrent reader may hit an early end, but never a gap.
    """
    number = job_file_chunks.c.number
    some = select(number).where(job_file_chunks.c.job_id == job_id).order_by(number.desc()).limit(limit)
    query = delete(job_file_chunks).where(job_file_chunks.c.job_id == job_id, number.in_(some))
    return tx.connection.execute(query).rowcount


def has_old_jobs(tx: ReadTransaction, before: datetime) -> bool:
    """Whether any job ended before this moment and has no chunks."""
    return tx.connection.execute(_old_jobs(before, 1, without=(job_file_chunks,))).first() is not None


def delete_old_jobs(tx: WriteTransaction, before: datetime, *, limit: int) -> int:
    """Delete at most ``limit`` jobs that ended before this and have no chunks or notes; return how many."""
    query = delete(jobs).where(jobs.c.id.in_(_old_jobs(before, limit)))
    return tx.connection.execute(query).rowcount


def _old_jobs(
    before: datetime, limit: int, *, without: Collection[Table] = (job_file_chunks, job_licenses)
) -> Select[Any]:
    """Search the smallest IDs, which belong to the oldest jobs: the time of the end has no index."""
    oldest = select(jobs.c.id, jobs.c.finished_at).order_by(jobs.c.id).limit(_MAX_OLDEST).subquery()
    is_old = oldest.c.finished_at < to_seconds(before)
    has_any = or_(*(exists().where(one.c.job_id == oldest.c.id) for one in without))
    return select(oldest.c.id).where(is_old, not_(has_any)).order_by(oldest.c.id).limit(limit)


def _values_of(job: Job) -> Values:
    return rows.to_columns(job) | {"parameters": rows.to_json(job.parameters)}


def get_job(read: Any, query: GetJob) -> Job:
    """Get a job. Raises ``UnknownJob``."""
    job = find_job(read.tx, query.job_id)
    if job is None or job.state is JobState.DRAFT:
        raise UnknownJob(query.job_id)
    search = orders.search_of(job)
    if query.only_product_id is not None and (search is None or search.product_id != query.only_product_id):
        raise UnknownJob(query.job_id)
    return job
