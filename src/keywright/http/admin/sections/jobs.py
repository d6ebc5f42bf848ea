"""Jobs: their progress, and the files that they create."""

from functools import partial
from typing import NamedTuple

from starlette.responses import Response

from keywright.background.clean_up import FILES_KEPT, JOBS_KEPT, LICENSE_FILES_KEPT
from keywright.core.errors import Refusal, UnknownJob
from keywright.db import ReadTransaction
from keywright.http.admin.job_text import describe_outcomes, scope_of, title_of, translate_message
from keywright.http.admin.undo import ONLY_ADMINISTRATORS, may_undo
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.formats import N_, _
from keywright.http.pages.forms import parse_number, require_id
from keywright.http.pages.once import Redirect, change_once
from keywright.http.pages.page import Section, page
from keywright.http.pages.render import url
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.identity.store import find_user_by_id
from keywright.jobs import files as job_files
from keywright.jobs import orders
from keywright.jobs import store as job_store
from keywright.jobs.model import CancelJob, FetchFile, FetchKeys, Job, JobState
from keywright.jobs.orders import Change, Export, Import, MakeFiles, Notify, Order, TakeBack, What
from keywright.jobs.taking_back import can_be_taken_back, has_keys_for
from keywright.provisioning.importers.model import Verdict
from keywright.provisioning.ownership.model import ClaimCounts, CountClaims
from keywright.provisioning.ownership.store import count_claims

_PAGE_SIZE = 25
_TONES = {
    JobState.DRAFT: "soft",
    JobState.WAITING: "soft",
    JobState.RUNNING: "plain",
    JobState.DONE: "good",
    JobState.FAILED: "bad",
    JobState.CANCELED: "warn",
    JobState.STOPPED: "bad",
}


class JobView(NamedTuple):
    """A job as a page shows it."""

    job: Job
    title: str
    #: The licenses that it concerns, in words.
    scope: str
    user: str
    tone: str
    #: Whether it has a file that can be downloaded.
    has_file: bool
    #: The address of the list of licenses that it has made or changed; "" if there are none.
    licenses_url: str
    #: The number of licenses that it has made or changed.
    changed: int
    can_be_taken_back: bool
    #: Whether the user may download the keys that it made.
    has_keys: bool
    #: The ID of the job that takes it back, if any.
    taken_back_by: int | None
    #: The progress of an import, in words.
    outcomes: list[str]
    #: For an ended job that makes licenses: how many of them were claimed and activated.
    claims: ClaimCounts | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self.job.finished_at is not None

    @property
    def messages(self) -> list[str]:
        """Why it failed or was stopped, or the first licenses that it did not change."""
        return [translate_message(one) for one in (self.job.messages or "").splitlines()]


class JobList(NamedTuple):
    """A page of the list, newest first. ``newer`` and ``older`` are the IDs from which the adjacent pages are
    read; None if there is none.
    """

    views: list[JobView]
    newer: int | None
    older: int | None


class Jobs(Section):
    """The jobs."""

    label = N_("Jobs")
    path = "/jobs"
    group = N_("Activity")
    icon = "activity"
    right = Right.LOOK

    @page("")
    def list_page(self, request: PageRequest) -> Response:
        """A page of the list."""
        query = request.query
        before, after = parse_number(query.get("before", "")), parse_number(query.get("after", ""))
        jobs_page = request.ask(partial(_read_list, before=before, after=after))
        return request.render("jobs/list.html", **jobs_page._asdict(), days_kept=JOBS_KEPT.days)

    @page("/{id:number}")
    def show(self, request: PageRequest) -> Response:
        """One job."""
        view = _get(request)
        if view.job.kind == "generate" and view.has_ended:
            query = CountClaims(job_id=view.job.id)
            view = view._replace(claims=request.ask(lambda tx: count_claims(tx, query)))
        return request.render(
            "jobs/job.html",
            view=view,
            may_take_back=_may_take_back(request, view.job),
            days_kept=FILES_KEPT.days,
            license_files_kept=LICENSE_FILES_KEPT.days,
        )

    @page("/{id:number}/progress")
    def progress(self, request: PageRequest) -> Response:
        """The progress of a job; polled by admin.js."""
        return request.render("jobs/progress.html", view=_get(request))

    @page("/{id:number}/cancel", methods=("POST",), right=Right.CHANGE)
    def cancel(self, request: PageRequest) -> Response:
        """Cancel a job."""
        number = require_id(request.path_params["id"])
        job: Job = request.change(CancelJob(context=request.context, job_id=number))
        return request.redirect(f"/jobs/{job.id}", _("The job was canceled. Its changes so far remain."))

    @page("/{id:number}/take-back", methods=("POST",), right=Right.CHANGE)
    def take_back(self, request: PageRequest) -> Response:
        """Start a job that undoes another one."""
        earlier = _get(request).job
        if not _may_take_back(request, earlier):
            return request.redirect(f"/jobs/{earlier.id}", _(ONLY_ADMINISTRATORS), is_error=True)
        command = orders.start_command(TakeBack(job_id=earlier.id), context=request.context)
        try:
            return change_once(request, command, lambda job: Redirect(f"/jobs/{job.id}"))
        except Refusal as refusal:
            sentence = message_for(refusal).sentence
            return request.redirect(f"/jobs/{earlier.id}", sentence, is_error=True)

    @page("/{id:number}/keys", methods=("POST",), right=Right.CHANGE)
    def fetch_keys(self, request: PageRequest) -> Response:
        """Download the license keys that a job made. Only the user who ordered it may, and only once."""
        number = require_id(request.path_params["id"])
        if not request.takes_pieces:
            return request.refuse_pieces()
        job: Job = request.change(FetchKeys(context=request.context, job_id=number))
        is_csv = request.form.get("format", "") != "txt"
        chunks = job_files.read_keys(request.ask, job, is_csv=is_csv)
        media_type = f"text/{'csv' if is_csv else 'plain'}; charset=utf-8"
        return request.download(job_files.keys_name(job, is_csv=is_csv), chunks, media_type=media_type)

    @page("/{id:number}/file", methods=("POST",), right=Right.CHANGE)
    def fetch(self, request: PageRequest) -> Response:
        """Download the file of a job; by POST, because an event is recorded."""
        number = require_id(request.path_params["id"])
        if not request.takes_pieces:
            return request.refuse_pieces()
        job: Job = request.change(FetchFile(context=request.context, job_id=number))
        # The file is read while it is sent.
        name = job_files.file_name(job)
        media_type = "text/csv; charset=utf-8" if name.endswith(".csv") else "application/jsonl"
        return request.download(name, job_files.read_file(request.ask, job.id), media_type=media_type)


def _may_take_back(request: PageRequest, job: Job) -> bool:
    has_right = request.may(orders.right_to_take_back(orders.order_of(job)))
    return has_right and may_undo(request, job.created_by)


def _read_list(tx: ReadTransaction, before: int | None, after: int | None) -> JobList:
    """The page of jobs newer than ``after`` or older than ``before``; the first page if it would be empty, or
    if the newer jobs fit into it.
    """
    if after is not None:
        rows = job_store.list_next_jobs(tx, after_id=after, limit=_PAGE_SIZE + 1)
        if len(rows) > _PAGE_SIZE:
            shown = rows[-_PAGE_SIZE:]
            return JobList([_to_view(tx, job) for job in shown], shown[0].id, shown[-1].id)
    rows = job_store.list_jobs(tx, before_id=before, limit=_PAGE_SIZE + 1)
    if before is not None and not rows:
        return _read_list(tx, None, None)
    shown = rows[:_PAGE_SIZE]
    return JobList(
        views=[_to_view(tx, job) for job in shown],
        newer=None if before is None else shown[0].id,
        older=shown[-1].id if len(rows) > _PAGE_SIZE else None,
    )


def _get(request: PageRequest) -> JobView:
    number = require_id(request.path_params["id"])

    def question(tx: ReadTransaction) -> JobView:
        job = job_store.find_job(tx, number)
        if job is None or job.state is JobState.DRAFT:
            raise UnknownJob(number)
        return _to_view(tx, job, request.user.id)

    return request.ask(question)


def _to_view(tx: ReadTransaction, job: Job, user_id: int = 0) -> JobView:
    order = orders.order_of(job)
    user = find_user_by_id(tx, job.created_by)
    return JobView(
        job=job,
        title=title_of(tx, job),
        scope=scope_of(tx, order),
        user=orders.origin_of(job).actor if user is None else user.name,
        tone="warn" if job.state is JobState.DONE and 0 < job.done == job.refused else _TONES[job.state],
        has_file=job_files.has_file(tx, job),
        licenses_url=_licenses_url(job, order),
        changed=_count_changed(job, order),
        can_be_taken_back=can_be_taken_back(job),
        has_keys=has_keys_for(job, user_id),
        taken_back_by=orders.parameters_of(job).taken_back_by,
        outcomes=describe_outcomes(orders.parameters_of(job).outcomes),
    )


def _licenses_url(job: Job, order: Order) -> str:
    """The address of the list of the licenses that the job has made or changed; "" if there is none."""
    is_deletion = isinstance(order, Change) and order.what is What.DELETE
    if isinstance(order, Export | Notify | MakeFiles) or is_deletion or not _count_changed(job, order):
        return ""
    return url("/licenses", job=job.id)


def _count_changed(job: Job, order: Order) -> int:
    """The number of licenses that the job has made or changed."""
    if isinstance(order, Import):
        outcomes = orders.parameters_of(job).outcomes
        return sum(outcomes.get(one, 0) for one in (Verdict.NEW, Verdict.NEWER_THERE))
    return job.done - job.refused
