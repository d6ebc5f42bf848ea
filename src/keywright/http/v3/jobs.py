"""Jobs: long-running work that is done in steps."""

from typing import Annotated

from msgspec import UNSET, Struct, UnsetType

from keywright.core.fields import Id, Time, about
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3.answers import accepted, ok
from keywright.http.v3.call import Call
from keywright.http.v3.fields import Body
from keywright.http.v3.route import Route
from keywright.jobs import model
from keywright.jobs.mailings_store import FilesPreview
from keywright.jobs.making_files import PreviewFiles
from keywright.jobs.model import GetJob, JobState
from keywright.jobs.orders import MakeFiles, start_command
from keywright.search.filters import Search


class JobResult(Struct):
    """The result of a finished job."""

    changed: Annotated[
        int,
        about(
            "How many licenses were made, changed, exported or given files, or how many customers are "
            "mailed.",
            120,
        ),
    ]
    skipped: Annotated[int, about("How many needed no change or could not be changed.", 3)]
    messages: Annotated[
        list[str], about("Why the job failed, its outcome, or the first reasons for skipping.", [])
    ]


class Job(Struct):
    """A long-running operation."""

    id: Annotated[Id, about("The job's ID.", 7)]
    kind: Annotated[str, about("What the job does.", "apply")]
    state: Annotated[JobState, about("The job's state.", "running")]
    done: Annotated[int, about("How many licenses or customers have been processed.", 50)]
    total: Annotated[int | None, about("How many there are to process; null if they were not counted.", 123)]
    result: Annotated[JobResult | None, about("The result; null until the job has finished.", None)]
    created_at: Annotated[Time, about("When the job was created.", "2026-11-22T08:54:00Z")]
    finished_at: Annotated[Time | None, about("When the job finished.", None)]


class FilesBody(Body):
    """The licenses to create files for, and when the files expire."""

    product_id: Annotated[Id | None, about("Only for licenses of this product.", 17)] = None
    ends_at: Annotated[
        Time | None, about("When the files expire; null means when the license does.", None)
    ] = None
    mail: Annotated[bool, about("Whether to mail the files to the customers.")] = True
    dry_run: Annotated[bool, about("Whether to only count, and make nothing.")] = False


class MadeFiles(Struct):
    """The job that creates the files or, with `dry_run`, a preview of it."""

    job: Annotated[Job | UnsetType, about("The job.")] = UNSET
    preview: Annotated[FilesPreview | UnsetType, about("What files would be made for.")] = UNSET


def show(job: model.Job) -> Job:
    """The job as v3 shows it."""
    result = None
    if job.finished_at is not None:
        result = JobResult(job.done - job.refused, job.refused, (job.messages or "").splitlines())
    return Job(job.id, job.kind, job.state, job.done, job.total, result, job.created_at, job.finished_at)


async def get_job(call: Call) -> Answer:
    """Get a job.

    Poll it every few seconds until `result` is not null.
    """
    query = GetJob(**call.named("job_id"))
    return await call.ask(query, lambda job: ok(show(job)))


async def make_license_files(call: Call, body: FilesBody) -> Answer:
    """Create license files for all licenses.

    Use this before you shut this server down. Starts a job that creates a license file for each license and
    device that may have one, and mails each file to its customer once. The files are valid as long as the
    license, or until `ends_at`, regardless of `offline_days`. With `dry_run`, the call only counts them.
    Download a file with all of them from the job's page, or with `keywright license fetch-files`.
    """
    product_id = body.product_id if call.only_product_id is None else call.only_product_id
    if body.dry_run:
        query = PreviewFiles(product_id=product_id, now=call.context.now)
        return await call.ask(query, lambda found: ok(MadeFiles(preview=found)))
    order = MakeFiles(
        alg=call.signatures.alg,
        ends_at=body.ends_at,
        is_mailed=body.mail,
        search=Search(product_id=product_id),
    )

    def write(job: model.Job) -> Answer:
        return accepted(MadeFiles(job=show(job)), f"{call.root}/jobs/{job.id}")

    return await call.change(start_command(order, context=call.context), write)


ROUTES = (
    Route("GET", "/jobs/{job_id}", Right.READ, get_job, gives=Job),
    Route(
        "POST",
        "/license-files",
        Right.WRITE,
        make_license_files,
        body=FilesBody,
        gives=MadeFiles,
        status=202,
        also=(200,),
        refusals=("invalid",),
        example={"mail": True, "dry_run": True},
    ),
)
