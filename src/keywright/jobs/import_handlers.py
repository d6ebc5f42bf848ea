"""Handlers for importing tables: upload a table, order its import, import its licenses in steps."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from msgspec.structs import asdict, replace

from keywright.core.command import Command
from keywright.core.errors import FileGone, TooManyJobs, UnknownJob
from keywright.jobs import orders
from keywright.jobs import store as job_store
from keywright.jobs.files import HEADER
from keywright.jobs.handlers import MAX_UNFINISHED, lock_step, save_progress
from keywright.jobs.model import AddToUpload, ImportStep, Job, JobState, StartImport, StartJob, StartUpload
from keywright.licensing.undo.rules import PastChange
from keywright.licensing.unit_of_work import LicenseWork
from keywright.provisioning.importers.handlers import IMPORTED, import_licenses
from keywright.provisioning.importers.model import Imported

_KIND = "import"


def start_upload(work: LicenseWork, command: StartUpload) -> Job:
    """Create an empty draft. It counts as ended, so that workers ignore it and it is purged like any job."""
    now, by, origin = command.context.now, command.context.by or 0, command.context.origin
    job_store.discard_drafts(work.tx, by)
    order = orders.parse_order(StartJob(context=command.context, kind=_KIND, parameters=command.order))
    job = Job(
        id=0,
        kind=_KIND,
        state=JobState.DRAFT,
        parameters=asdict(orders.Parameters(dict(command.order), origin.actor, origin.ip_address, 0)),
        total=orders.count_licenses(order, None),
        done=0,
        refused=0,
        position=0,
        messages=None,
        created_at=now,
        created_by=by,
        started_at=None,
        finished_at=now,
        claimed_by=None,
        claimed_until=None,
    )
    return replace(job, id=job_store.save_new_job(work.tx, job))


def add_to_upload(work: LicenseWork, command: AddToUpload) -> Job:
    """Add parts to a draft. Raises ``UnknownJob``."""
    job = _lock_draft(work, command, command.job_id)
    job_store.save_chunks(work.tx, job.id, command.parts_of_table)
    if command.total is not None:
        job = replace(job, total=command.total)
        job_store.save_job(work.tx, job)
    return job


def start_import(work: LicenseWork, command: StartImport) -> Job:
    """Turn a draft into a waiting job. Raises ``UnknownJob``, ``FileGone``, ``TooManyJobs``."""
    job = _lock_draft(work, command, command.job_id)
    if job.total is None or not job_store.has_chunks(work.tx, job.id):
        raise FileGone
    if job_store.count_unfinished_jobs(work.tx) >= MAX_UNFINISHED:
        raise TooManyJobs
    orders.parse_order(StartJob(context=command.context, kind=_KIND, parameters=command.order))
    origin = command.context.origin
    parameters = orders.Parameters(dict(command.order), origin.actor, origin.ip_address, 0)
    job = replace(
        job,
        state=JobState.WAITING,
        finished_at=None,
        created_at=command.context.now,
        parameters=asdict(parameters),
    )
    job_store.save_job(work.tx, job)
    job_store.save_parameters(work.tx, job)
    work.record_event("job.started", command, {"job_id": job.id, "kind": job.kind, "total": job.total})
    return job


def import_step(work: LicenseWork, step: ImportStep) -> Job:
    """Import some more licenses, and store the unusable lines. Raises ``StepOver``."""
    job = lock_step(work, step)
    if job.finished_at is not None:
        return job
    licenses = step.command.licenses
    seen = len(work.events)
    imported = import_licenses(work, step.command) if licenses else Imported(())
    imported_ids = dict.fromkeys(one.license_id for one in work.events[seen:] if one.name == IMPORTED)
    note = (PastChange(IMPORTED, step.context.now),)
    job_store.save_job_licenses(work.tx, job.id, [(license_id, note) for license_id in imported_ids])
    job = _count_outcomes(job, imported, step)
    job_store.save_parameters(work.tx, job)
    if step.rejects:
        number = job_store.FAILED_LINES + step.next_position
        job_store.save_chunks(work.tx, job.id, [(number, step.rejects)])
    # The first chunk may be the header line, which the next step needs.
    first = HEADER if step.is_last else HEADER + 1
    job_store.delete_parts(work.tx, job.id, first, step.next_position)
    amount = len(licenses) + len(step.reasons)
    return save_progress(work, step, job, amount=amount, position=step.next_position, refusals=step.reasons)


def _lock_draft(work: LicenseWork, command: Command, job_id: int) -> Job:
    """Lock the draft. Raises ``UnknownJob`` if it is not this user's."""
    job = job_store.lock_job(work.tx, job_id)
    if job is None or job.state is not JobState.DRAFT or job.created_by != (command.context.by or 0):
        raise UnknownJob(job_id)
    return job


def _count_outcomes(job: Job, imported: Imported, step: ImportStep) -> Job:
    parameters = orders.parameters_of(job)
    counts = Counter(parameters.outcomes)
    for one in imported.outcomes:
        prefix = "" if one.kind == "license" else f"{one.kind}."
        counts[prefix + one.verdict.value] += one.amount
    for notice in imported.notices:
        counts[f"odd.{notice.code}"] += 1
    if step.reasons:
        counts["left_out"] += len(step.reasons)
        counts["last_failed"] = step.next_position
    return replace(job, parameters=asdict(replace(parameters, outcomes=dict(counts))))


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    StartUpload: start_upload,
    AddToUpload: add_to_upload,
    StartImport: start_import,
    ImportStep: import_step,
}
