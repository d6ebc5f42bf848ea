"""Jobs: long work in steps."""

from typing import Annotated

from msgspec import Struct

from keywright.core.fields import Id, Time, about
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3.answers import ok
from keywright.http.v3.call import Call
from keywright.http.v3.route import Route
from keywright.jobs import model
from keywright.jobs.model import GetJob, JobState


class JobResult(Struct):
    """The result of a job that has ended."""

    changed: Annotated[
        int, about("The licenses that it made, changed or wrote, or the customers that it mails.", 120)
    ]
    skipped: Annotated[int, about("Those that needed no change, or could not be changed.", 3)]
    messages: Annotated[list[str], about("Why it failed, or the first of those.", [])]


class Job(Struct):
    """Long work in steps."""

    id: Annotated[Id, about("Its ID.", 7)]
    kind: Annotated[str, about("What it does.", "apply")]
    state: Annotated[JobState, about("Where it stands.", "running")]
    done: Annotated[int, about("The licenses, or customers, that it is through with.", 50)]
    total: Annotated[int | None, about("How many there are; null where they were not counted.", 123)]
    result: Annotated[JobResult | None, about("What came of it; null until it has ended.", None)]
    created_at: Annotated[Time, about("When it was ordered.", "2026-11-22T08:54:00Z")]
    finished_at: Annotated[Time | None, about("When it ended.", None)]


def show(job: model.Job) -> Job:
    """The job as its answer."""
    result = None
    if job.finished_at is not None:
        result = JobResult(job.done - job.refused, job.refused, (job.messages or "").splitlines())
    return Job(job.id, job.kind, job.state, job.done, job.total, result, job.created_at, job.finished_at)


async def get_job(call: Call) -> Answer:
    """Get a job.

    Ask again every few seconds until `result` is there.
    """
    query = GetJob(job_id=call.path["job_id"], only_product_id=call.only_product_id)
    return await call.ask(query, lambda job: ok(show(job)))


ROUTES = (Route("GET", "/jobs/{job_id}", Right.READ, get_job, gives=Job),)
