"""Undo a job, and download the license keys that a job generated."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import asdict, replace

from keywright.core.command import Command
from keywright.core.errors import (
    FileGone,
    JobRunning,
    JobTakenBack,
    KeysFetched,
    KeysNotForYou,
    UnknownJob,
)
from keywright.jobs import orders
from keywright.jobs import store as job_store
from keywright.jobs.model import FetchKeys, Job, JobState
from keywright.jobs.orders import Apply, Change, Generate, TakeBack
from keywright.licensing.unit_of_work import LicenseWork


def can_be_taken_back(job: Job) -> bool:
    """Whether a job has ended, has changed something, and was not undone."""
    is_change = isinstance(orders.order_of(job), Generate | Change | Apply | TakeBack)
    is_done = job.finished_at is not None and job.done > job.refused
    return is_change and is_done and orders.parameters_of(job).taken_back_by is None


def has_keys_for(job: Job, user_id: int) -> bool:
    """Whether the user may download the license keys that the job generated."""
    is_made = job.kind == "generate" and job.finished_at is not None and job.done > 0
    return is_made and job.created_by == user_id and not orders.parameters_of(job).are_keys_fetched


def lock_earlier(work: LicenseWork, order: TakeBack) -> Job:
    """Lock the job to undo. Raises ``UnknownJob``, ``JobRunning``, ``JobTakenBack``."""
    job = job_store.lock_job(work.tx, order.job_id)
    if job is None or job.state is JobState.DRAFT:
        raise UnknownJob(order.job_id)
    if job.finished_at is None:
        raise JobRunning
    if not can_be_taken_back(job):
        raise JobTakenBack
    return job


def mark(work: LicenseWork, earlier: Job, by: Job) -> None:
    """Note that a job is undone by another one."""
    _change_parameters(work, earlier, taken_back_by=by.id)


def fetch_keys(work: LicenseWork, command: FetchKeys) -> Job:
    """Record that a job's new keys are downloaded, which is possible once. Raises ``UnknownJob``,
    ``FileGone``, ``JobRunning``, ``KeysNotForYou``, ``KeysFetched``.
    """
    job = job_store.lock_job(work.tx, command.job_id)
    if job is None:
        raise UnknownJob(command.job_id)
    if job.kind != "generate" or not job.done:
        raise FileGone
    if job.finished_at is None:
        raise JobRunning
    if not job.created_by or job.created_by != command.context.by:
        raise KeysNotForYou
    if not has_keys_for(job, job.created_by):
        raise KeysFetched
    _change_parameters(work, job, are_keys_fetched=True)
    work.record_event("job.keys_fetched", command, {"job_id": job.id, "licenses": job.done})
    return job


def _change_parameters(work: LicenseWork, job: Job, **changes: Any) -> None:
    parameters = replace(orders.parameters_of(job), **changes)
    job_store.save_parameters(work.tx, replace(job, parameters=asdict(parameters)))


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {FetchKeys: fetch_keys}
