"""Handlers for commands about jobs.

A step changes licenses and the job's position in one transaction, so each license is changed exactly once
even if the server crashes.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import asdict, replace

from keywright.core.command import Command, Context, Origin
from keywright.core.errors import (
    InvalidParameters,
    JobOver,
    NothingToChange,
    Refusal,
    StepOver,
    TooManyJobs,
    UnknownJob,
    UnknownLicense,
    UnknownPolicy,
)
from keywright.engine.queue import CLAIM
from keywright.identity.model import Right, may
from keywright.identity.store import share_api_key, share_user
from keywright.jobs import files, orders, planning, taking_back
from keywright.jobs import store as job_store
from keywright.jobs.model import (
    ApplyPolicy,
    CancelJob,
    ChangeStep,
    ExportStep,
    FailJob,
    FetchFile,
    GenerateStep,
    Job,
    JobCommand,
    JobState,
    JobStep,
    PurgeJobFile,
    PurgeJobs,
    StartJob,
)
from keywright.jobs.orders import Order, TakeBack, reason_of
from keywright.licensing.activations import handlers as activation_handlers
from keywright.licensing.licenses import handlers as license_handlers
from keywright.licensing.licenses.model import LicenseCommand, UpdateLicense
from keywright.licensing.terms.rules import select_terms
from keywright.licensing.undo import handlers as undo_handlers
from keywright.licensing.undo.rules import CREATED, PastChange, changes_of
from keywright.licensing.unit_of_work import LicenseWork
from keywright.provisioning.policies import handlers as policy_handlers
from keywright.provisioning.policies.store import group_by_terms
from keywright.search.filters import Search
from keywright.search.terms_store import newest_license

#: The maximum number of jobs that wait or run.
MAX_UNFINISHED = 100
#: The maximum number of refusal reasons that a job stores; an undo stores more, because what could not be
#: undone needs attention.
_MAX_MESSAGES, _MAX_MESSAGES_OF_OTHERS = {"take_back": 200}, 5
#: The maximum number of chunks, or jobs, to delete per transaction.
_MAX_DELETED = 20
#: The maximum number of notes about licenses to delete per transaction.
_MAX_NOTES_DELETED = 500

#: The handler of each change of one license.
_CHANGE_HANDLERS = license_handlers.HANDLERS | activation_handlers.HANDLERS | undo_handlers.HANDLERS
_MATCHES_NO_LONGER = "it no longer matches"
_KEYWRIGHT = Origin("keywright", "", "")


# --- jobs -----------------------------------------------------------------------------------------


def start_job(work: LicenseWork, command: StartJob) -> Job:
    """Create a job. Raises ``InvalidParameters``, ``TooManyJobs``, ``UnknownPolicy``."""
    order = orders.parse_order(command)
    context = command.context
    if isinstance(order, orders.Generate):
        policy_handlers.get_policy(work.tx, order.policy_id)
    total = orders.count_licenses(order, command.total)
    earlier = taking_back.lock_earlier(work, order) if isinstance(order, orders.TakeBack) else None
    if earlier is not None:
        total = earlier.done - earlier.refused
    if job_store.count_unfinished_jobs(work.tx) >= MAX_UNFINISHED:
        raise TooManyJobs
    origin, last_id = context.origin, newest_license(work.tx)
    parameters = orders.Parameters(dict(command.parameters), origin.actor, origin.ip_address, last_id)
    job = Job(
        id=0,
        kind=command.kind,
        state=JobState.WAITING,
        parameters=asdict(parameters),
        total=total,
        done=0,
        refused=0,
        position=0,
        messages=None,
        created_at=context.now,
        # A user, never an API key.
        created_by=0 if context.api_key_id is not None else context.by or 0,
        started_at=None,
        finished_at=None,
        claimed_by=None,
        claimed_until=None,
    )
    job = replace(job, id=job_store.save_new_job(work.tx, job))
    if earlier is not None:
        taking_back.mark(work, earlier, job)
    work.record_event("job.started", command, {"job_id": job.id, "kind": job.kind, "total": job.total})
    return job


def apply_policy(work: LicenseWork, command: ApplyPolicy) -> Job:
    """Start applying terms of a policy to its licenses. Raises ``UnknownPolicy``, ``TooManyJobs``."""
    policy = policy_handlers.get_policy(work.tx, command.policy_id, command.only_product_id)
    order = orders.Apply(
        policy_id=policy.id,
        terms=select_terms(policy.terms, command.names),
        overwrite=command.overwrite,
        search=Search(policy_id=policy.id, product_id=command.only_product_id),
    )
    total = sum(
        group.licenses for group in group_by_terms(work.tx, policy.id, product_id=command.only_product_id)
    )
    return start_job(work, orders.start_command(order, total=total, context=command.context))


def cancel_job(work: LicenseWork, command: CancelJob) -> Job:
    """End a job at its current position. Raises ``UnknownJob``, ``JobOver``."""
    job = job_store.lock_job(work.tx, command.job_id)
    if job is None:
        raise UnknownJob(command.job_id)
    if job.finished_at is not None:
        raise JobOver
    return end(work, command, job, JobState.CANCELED)


def fail_job(work: LicenseWork, command: FailJob) -> Job:
    """End a job as failed. Raises ``StepOver``."""
    job = _lock_claimed(work, command)
    return end(
        work, command, replace(job, messages=join_lines(command.reason, job.messages)), JobState.FAILED
    )


def fetch_file(work: LicenseWork, command: FetchFile) -> Job:
    """Record a download and return the job. Raises ``UnknownJob``, ``FileGone``."""
    job = files.get_job_with_file(work.tx, command.job_id)
    work.record_event(
        "job.file_fetched",
        command,
        {"job_id": job.id, "licenses": job.refused if job.kind == "import" else job.done},
    )
    return job


def purge_job_file(work: LicenseWork, command: PurgeJobFile) -> int:
    """Delete some chunks of a job's file; return their number."""
    return job_store.delete_chunks(work.tx, command.job_id, limit=_MAX_DELETED)


def purge_jobs(work: LicenseWork, command: PurgeJobs) -> int:
    """Delete some notes of old jobs or, once none are left, some of these jobs; return the number deleted."""
    notes = job_store.delete_old_job_licenses(work.tx, command.before, limit=_MAX_NOTES_DELETED)
    return notes or job_store.delete_old_jobs(work.tx, command.before, limit=_MAX_DELETED)


# --- steps ----------------------------------------------------------------------------------------


def generate_step(work: LicenseWork, step: GenerateStep) -> Job:
    """Generate some more licenses; the job fails if its policy cannot continue. Raises ``StepOver``."""
    job = lock_step(work, step)
    if job.finished_at is not None:
        return job
    try:
        made = policy_handlers.generate(work, step.generate)
    except UnknownPolicy:
        return end(work, step, replace(job, messages="The policy has been deleted."), JobState.FAILED)
    except InvalidParameters:
        reason = "The policy cannot make that many new keys: almost all possible keys exist already."
        return end(work, step, replace(job, messages=reason), JobState.FAILED)
    new = PastChange(CREATED, step.context.now)
    job_store.save_job_licenses(work.tx, job.id, [(one.license.id, (new,)) for one in made])
    amount = step.generate.amount
    return save_progress(work, step, job, amount=amount, position=job.position + amount)


def change_step(work: LicenseWork, step: ChangeStep) -> Job:
    """Change some more licenses; count refusals and licenses that no longer match. Raises ``StepOver``."""
    job = lock_step(work, step)
    if job.finished_at is not None:
        return job
    unmatched = _find_unmatched(work, step, job)
    refusals, changed = [], []
    for command in step.changes:
        seen = len(work.events)
        reason = _MATCHES_NO_LONGER if command.license in unmatched else _try_change(work, command)
        if reason is None:
            changed.append((int(command.license), changes_of(work.events[seen:])))
        else:
            refusals.append(f"License {command.license}: {reason}.")
    job_store.save_job_licenses(work.tx, job.id, changed)
    return save_progress(work, step, job, amount=len(step.changes), position=step.last_id, refusals=refusals)


def export_step(work: LicenseWork, step: ExportStep) -> Job:
    """Store a chunk of a file. Raises ``StepOver``."""
    job = lock_step(work, step)
    if job.finished_at is not None:
        return job
    if step.last_id > job.position:
        job_store.save_chunks(work.tx, job.id, [(step.last_id, step.chunk)])
    return save_progress(work, step, job, amount=step.amount, position=step.last_id)


def _lock_claimed(work: LicenseWork, command: JobCommand) -> Job:
    job = job_store.lock_job(work.tx, command.job_id)
    if job is None or job.finished_at is not None or job.claimed_by != command.claimed_by:
        raise StepOver
    return job


def lock_step(work: LicenseWork, step: JobStep) -> Job:
    """Lock the job; end it as stopped if the user or API key that ordered it is no longer allowed to."""
    job = _lock_claimed(work, step)
    if job.position != step.position:
        raise StepOver
    reason = _why_to_stop(work, job)
    if reason is None:
        return job
    job = replace(job, messages=join_lines(reason, job.messages))
    return end(
        work,
        replace(step, context=Context(step.context.now, _KEYWRIGHT)),
        job,
        JobState.STOPPED,
        reason=reason,
    )


def _why_to_stop(work: LicenseWork, job: Job) -> str | None:
    """Why the user or API key that ordered the job could not order it now, else None. A job ordered by
    neither continues.
    """
    api_key_id = orders.api_key_of(job)
    if api_key_id is not None:
        api_key = share_api_key(work.tx, api_key_id)
        is_revoked = api_key is None or api_key.revoked_at is not None
        return "The API key that started the job was revoked." if is_revoked else None
    if not job.created_by:
        return None
    # Locked, so that no step can commit after the user is disabled.
    user = share_user(work.tx, job.created_by)
    if user is None:
        return "The user who started the job no longer exists."
    if user.disabled_at is not None:
        return f"{user.name} was disabled."
    right = _right_for(work, orders.order_of(job))
    return None if may(user.role, right) else f"{user.name} may no longer change licenses."


def _right_for(work: LicenseWork, order: Order) -> Right:
    """The right needed now to order this."""
    earlier = job_store.find_job(work.tx, order.job_id) if isinstance(order, TakeBack) else None
    return orders.right_for(order) if earlier is None else orders.right_to_take_back(orders.order_of(earlier))


def save_progress(
    work: LicenseWork, step: JobStep, job: Job, *, amount: int, position: int, refusals: Sequence[str] = ()
) -> Job:
    """Save the job after a step, with the first reasons for refusals."""
    messages = job.messages
    most = _MAX_MESSAGES.get(job.kind, _MAX_MESSAGES_OF_OTHERS)
    if refusals and job.refused < most:
        messages = join_lines(messages, *refusals[: most - job.refused])
    job = replace(
        job,
        done=job.done + amount,
        refused=job.refused + len(refusals),
        position=position,
        messages=messages,
        claimed_until=step.context.now + CLAIM,
    )
    if step.is_last:
        return end(work, step, replace(job, total=job.done), JobState.DONE)
    job_store.save_job(work.tx, job)
    return job


def end(work: LicenseWork, command: Command, job: Job, state: JobState, **more: str) -> Job:
    """End the job in this state, and record that."""
    job = replace(job, state=state, finished_at=command.context.now, claimed_by=None, claimed_until=None)
    job_store.save_job(work.tx, job)
    details = {"job_id": job.id, "kind": job.kind, "done": job.done, "refused": job.refused}
    work.record_event(f"job.{state}", command, details | more)
    return job


def join_lines(*texts: str | None) -> str:
    """The texts that are not empty, one per line."""
    return "\n".join(text for text in texts if text)


# --- one license ----------------------------------------------------------------------------------


def _find_unmatched(work: LicenseWork, step: ChangeStep, job: Job) -> set[int]:
    """The IDs of licenses that no longer match. They are locked, so all acknowledged changes are visible."""
    search = orders.search_of(job)
    if search is None:
        return set()
    there = []
    for command in step.changes:
        with suppress(UnknownLicense):
            there.append(work.get_license(command))
    return planning.find_unmatched(work.tx, search, there, job.created_at)


def _try_change(work: LicenseWork, command: LicenseCommand) -> str | None:
    """Change one license; return the reason if the change is refused, else None."""
    try:
        if isinstance(command, UpdateLicense):
            license = work.get_license(command)
            if all(getattr(license, name) == value for name, value in command.changes.items()):
                raise NothingToChange
        _CHANGE_HANDLERS[type(command)](work, command)
    except Refusal as refusal:
        return reason_of(refusal)
    return None


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    StartJob: start_job,
    ApplyPolicy: apply_policy,
    CancelJob: cancel_job,
    FailJob: fail_job,
    FetchFile: fetch_file,
    PurgeJobFile: purge_job_file,
    PurgeJobs: purge_jobs,
    GenerateStep: generate_step,
    ChangeStep: change_step,
    ExportStep: export_step,
}
