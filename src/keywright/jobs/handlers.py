"""What each command about jobs does.

A step changes licenses and moves the job on in one transaction: whatever happens to the server, each license
is changed once.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from msgspec.structs import asdict, replace

from keywright.core.command import Command, Context, Origin
from keywright.core.errors import (
    ExpiresLater,
    InvalidParameters,
    JobOver,
    NeverExpires,
    NoLimit,
    NothingActive,
    NothingToChange,
    Refusal,
    StepOver,
    TooManyJobs,
    UnknownGenerator,
    UnknownJob,
    UnknownLicense,
)
from keywright.identity.rights import Right, may
from keywright.identity.store import share_user
from keywright.jobs import files, matching, orders
from keywright.jobs import store as stored
from keywright.jobs.commands import (
    CancelJob,
    ChangeStep,
    ClaimJob,
    ExportStep,
    FailJob,
    FetchFile,
    GenerateStep,
    HoldJob,
    JobCommand,
    JobStep,
    PurgeJobFile,
    PurgeJobs,
    StartJob,
)
from keywright.jobs.model import Job, JobState
from keywright.licensing.activations.commands import DeactivateAll
from keywright.licensing.activations.handlers import deactivate_all
from keywright.licensing.licenses.commands import (
    DeleteLicense,
    ExtendLicense,
    LicenseCommand,
    RaiseLimit,
    UpdateLicense,
)
from keywright.licensing.licenses.handlers import delete, extend, raise_limit, update
from keywright.licensing.unit_of_work import LicenseWork
from keywright.provisioning.generators import handlers as generating

#: How many jobs may wait or run.
MOST_UNFINISHED = 100
#: For how long others are kept from a job by whoever has claimed it, and no longer shows up (see ``Claims``).
CLAIM = timedelta(seconds=5)
#: How many refusals a job tells of.
_MAX_MESSAGES = 5
#: How many chunks, or jobs, are deleted at once.
_MOST_FORGOTTEN = 20

_REASONS: dict[type[Refusal], str] = {
    ExpiresLater: "it is good for longer already",
    InvalidParameters: "the limit would be too large",
    NeverExpires: "it has no expiry that could be put off",
    NoLimit: "it has no limit",
    NothingActive: "no place is taken",
    NothingToChange: "it is like that already",
    UnknownLicense: "it is not there any more",
}
_MATCHES_NO_MORE = "it does not match any more"
_KEYWRIGHT = Origin("keywright", "", "")


# --- a job's life ---------------------------------------------------------------------------------


def start(work: LicenseWork, command: StartJob) -> Job:
    """Take an order. Raises ``InvalidParameters``, ``TooManyJobs``, ``UnknownGenerator``."""
    order = orders.order_in(command)
    if isinstance(order, orders.Generate):
        generating.get_generator(work.tx, order.generator_id)
    if stored.count_unfinished_jobs(work.tx) >= MOST_UNFINISHED:
        raise TooManyJobs
    origin, last_id = command.context.origin, stored.last_license_id(work.tx)
    parameters = orders.Parameters(dict(command.parameters), origin.actor, origin.ip_address, last_id)
    job = Job(
        id=0,
        kind=command.kind,
        state=JobState.WAITING,
        parameters=asdict(parameters),
        total=orders.counted(order, command.total),
        done=0,
        refused=0,
        position=0,
        messages=None,
        created_at=command.context.now,
        created_by=command.context.by or 0,
        started_at=None,
        finished_at=None,
        claimed_by=None,
        claimed_until=None,
    )
    job = replace(job, id=stored.save_new_job(work.tx, job))
    work.record_event("job.started", command, {"job_id": job.id, "kind": job.kind, "total": job.total})
    return job


def cancel(work: LicenseWork, command: CancelJob) -> Job:
    """Let a job end where it stands. Raises ``UnknownJob``, ``JobOver``."""
    job = stored.lock_job(work.tx, command.job_id)
    if job is None:
        raise UnknownJob(command.job_id)
    if job.finished_at is not None:
        raise JobOver
    return _end(work, command, job, JobState.CANCELED)


def claim(work: LicenseWork, command: ClaimJob) -> Job | None:
    """A job for whoever has nothing to do: one of those on which the claims were seen to be over, and are so
    still.
    """
    job = stored.lock_free_job(work.tx, command.over, command.context.now)
    if job is None:
        return None
    job = replace(
        job,
        state=JobState.RUNNING,
        started_at=job.started_at or command.context.now,
        claimed_by=command.claimed_by,
        claimed_until=command.context.now + CLAIM,
    )
    stored.save_job(work.tx, job)
    return job


def hold(work: LicenseWork, command: HoldJob) -> Job:
    """Keep the claim, or give it back. Raises ``StepOver``."""
    job = _lock_claimed(work, command)
    if command.is_over:
        job = replace(job, claimed_by=None, claimed_until=command.context.now)
    else:
        job = replace(job, claimed_until=command.context.now + CLAIM)
    stored.save_job(work.tx, job)
    return job


def fail(work: LicenseWork, command: FailJob) -> Job:
    """Give a job up. Raises ``StepOver``."""
    job = _lock_claimed(work, command)
    return _end(work, command, replace(job, messages=_joined(command.reason, job.messages)), JobState.FAILED)


def fetch(work: LicenseWork, command: FetchFile) -> Job:
    """A job whose file can be read. Raises ``UnknownJob``, ``FileGone``."""
    job = files.get_job_with_file(work.tx, command.job_id)
    work.record_event("job.file_fetched", command, {"job_id": job.id, "licenses": job.done})
    return job


def forget(work: LicenseWork, command: PurgeJobFile) -> int:
    """Delete some chunks of a job's file; returns how many they were."""
    return stored.delete_chunks(work.tx, command.job_id, limit=_MOST_FORGOTTEN)


def forget_jobs(work: LicenseWork, command: PurgeJobs) -> int:
    """Delete some jobs that ended long ago; returns how many they were."""
    return stored.delete_old_jobs(work.tx, command.before, limit=_MOST_FORGOTTEN)


# --- steps ----------------------------------------------------------------------------------------


def generate_some(work: LicenseWork, step: GenerateStep) -> Job:
    """Make some more licenses; a job whose generator cannot go on has failed. Raises ``StepOver``."""
    job = _lock_step(work, step)
    if job.finished_at is not None:
        return job
    try:
        generating.generate(work, step.generate)
    except UnknownGenerator:
        return _end(work, step, replace(job, messages="The generator has been deleted."), JobState.FAILED)
    except InvalidParameters:
        reason = "The generator cannot make that many new keys: almost all that it can make exist already."
        return _end(work, step, replace(job, messages=reason), JobState.FAILED)
    amount = step.generate.amount
    return _move_on(work, step, job, amount=amount, position=job.position + amount)


def change_some(work: LicenseWork, step: ChangeStep) -> Job:
    """Change some more licenses; what is refused is counted, and so is what does not match any more. Raises
    ``StepOver``.
    """
    job = _lock_step(work, step)
    if job.finished_at is not None:
        return job
    lost = _not_any_more(work, step, job)
    refusals = []
    for command in step.changes:
        reason = _MATCHES_NO_MORE if command.license in lost else _tried(work, command)
        if reason is not None:
            refusals.append(f"License {command.license}: {reason}.")
    return _move_on(work, step, job, amount=len(step.changes), position=step.last_id, refusals=refusals)


def save_file_chunk(work: LicenseWork, step: ExportStep) -> Job:
    """Keep a chunk of a file. Raises ``StepOver``."""
    job = _lock_step(work, step)
    if job.finished_at is not None:
        return job
    if step.last_id > job.position:
        stored.save_chunk(work.tx, job.id, step.last_id, step.chunk)
    return _move_on(work, step, job, amount=step.amount, position=step.last_id)


def _lock_claimed(work: LicenseWork, command: JobCommand) -> Job:
    job = stored.lock_job(work.tx, command.job_id)
    if job is None or job.finished_at is not None or job.claimed_by != command.claimed_by:
        raise StepOver
    return job


def _lock_step(work: LicenseWork, step: JobStep) -> Job:
    """The job, to be moved on; or stopped, where the user who ordered it may not do that any more."""
    job = _lock_claimed(work, step)
    if job.position != step.position:
        raise StepOver
    reason = _why_to_stop(work, job)
    if reason is None:
        return job
    job = replace(job, messages=_joined(reason, job.messages))
    return _end(
        work,
        replace(step, context=Context(step.context.now, _KEYWRIGHT)),
        job,
        JobState.STOPPED,
        reason=reason,
    )


def _why_to_stop(work: LicenseWork, job: Job) -> str | None:
    """Why the user who ordered the job could not order it now. What no user ordered goes on."""
    if not job.created_by:
        return None
    # Locked: when a user has been disabled, no step is still on its way.
    user = share_user(work.tx, job.created_by)
    if user is None:
        return "The user who ordered it is not there any more."
    if user.disabled_at is not None:
        return f"{user.name} was disabled."
    return None if may(user.role, Right.CHANGE) else f"{user.name} may not change licenses any more."


def _move_on(
    work: LicenseWork, step: JobStep, job: Job, *, amount: int, position: int, refusals: Sequence[str] = ()
) -> Job:
    messages = job.messages
    if refusals and job.refused < _MAX_MESSAGES:
        messages = _joined(messages, *refusals[: _MAX_MESSAGES - job.refused])
    job = replace(
        job,
        done=job.done + amount,
        refused=job.refused + len(refusals),
        position=position,
        messages=messages,
        claimed_until=step.context.now + CLAIM,
    )
    if step.is_last:
        return _end(work, step, replace(job, total=job.done), JobState.DONE)
    stored.save_job(work.tx, job)
    return job


def _end(work: LicenseWork, command: Command, job: Job, state: JobState, **more: str) -> Job:
    job = replace(job, state=state, finished_at=command.context.now, claimed_by=None, claimed_until=None)
    stored.save_job(work.tx, job)
    details = {"job_id": job.id, "kind": job.kind, "done": job.done, "refused": job.refused}
    work.record_event(f"job.{state}", command, details | more)
    return job


def _joined(*texts: str | None) -> str:
    return "\n".join(text for text in texts if text)


# --- one license's share --------------------------------------------------------------------------


def _not_any_more(work: LicenseWork, step: ChangeStep, job: Job) -> set[int]:
    """The licenses that do not match any more. They are locked, so whatever was acknowledged is seen."""
    search = orders.search_of(job)
    if search is None:
        return set()
    there = []
    for command in step.changes:
        with suppress(UnknownLicense):
            there.append(work.get_license(command))
    return matching.not_any_more(work.tx, search, there, job.created_at)


def _tried(work: LicenseWork, command: LicenseCommand) -> str | None:
    """Change one license; why not, where that is refused."""
    try:
        _change_one(work, command)
    except Refusal as refusal:
        return _REASONS.get(type(refusal), refusal.code)
    return None


def _change_one(work: LicenseWork, command: LicenseCommand) -> None:
    license = work.get_license(command)
    changes = command.changes.items() if isinstance(command, UpdateLicense) else ()
    if changes and all(getattr(license, name) == value for name, value in changes):
        raise NothingToChange
    _ONE[type(command)](work, command)


#: What one license's share in a change can be.
_ONE: dict[type[LicenseCommand], Callable[[LicenseWork, Any], Any]] = {
    UpdateLicense: update,
    DeleteLicense: delete,
    DeactivateAll: deactivate_all,
    ExtendLicense: extend,
    RaiseLimit: raise_limit,
}

#: Which function decides which command.
HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {
    StartJob: start,
    CancelJob: cancel,
    ClaimJob: claim,
    HoldJob: hold,
    FailJob: fail,
    FetchFile: fetch,
    PurgeJobFile: forget,
    PurgeJobs: forget_jobs,
    GenerateStep: generate_some,
    ChangeStep: change_some,
    ExportStep: save_file_chunk,
}
