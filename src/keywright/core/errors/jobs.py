"""Refusals about jobs. No call of v2 meets them."""

from keywright.core.errors.root import Refusal


class UnknownJob(Refusal):
    """There is no job with this id."""

    code = "job.unknown"
    problem = "not_found"
    problem_detail = "There is no job {job_id}."
    status = 404
    sentence = "There is no such job."
    v2 = None
    example = (7,)

    job_id: int


class JobOver(Refusal):
    """The job has ended."""

    code = "job.over"
    sentence = "The job has already ended."
    v2 = None


class JobRunning(Refusal):
    """The job has not ended."""

    code = "job.running"
    sentence = "The job is still at work. Wait for its end, or cancel it."
    v2 = None


class JobTakenBack(Refusal):
    """The job has been taken back, or has changed nothing that could be."""

    code = "job.taken_back"
    sentence = "There is nothing to take back: this job has changed nothing, or was taken back before."
    v2 = None


class KeysNotForYou(Refusal):
    """Another user has ordered the job."""

    code = "job.keys_not_for_you"
    status = 403
    sentence = "Only the user who ordered the job can download the keys that it made."
    v2 = None


class KeysFetched(Refusal):
    """The keys were downloaded before."""

    code = "job.keys_fetched"
    sentence = (
        "The keys were downloaded already; that is possible once. Export the licenses of the job instead."
    )
    v2 = None


class TooManyJobs(Refusal):
    """The most jobs that may wait are waiting."""

    code = "job.too_many"
    problem = "busy"
    problem_detail = "Too many jobs are waiting."
    sentence = "Too many jobs are waiting. Let some of them end first."
    v2 = None


class StepOver(Refusal):
    """The step is done or is another process's: the job has ended, or moved on, or was claimed anew."""

    code = "job.step_over"
    sentence = "The job has moved on already."
    v2 = None


class FileGone(Refusal):
    """The job has made no file, or the file has been deleted."""

    code = "job.file_gone"
    status = 404
    sentence = "There is no file here, or no longer: files are kept for 24 hours."
    v2 = None
