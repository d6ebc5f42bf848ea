"""Long work: what was ordered, how far it is, and the files that came of it."""

from functools import partial
from typing import NamedTuple

from starlette.responses import Response

from keywright.background.job_clean_up import FILES_KEPT, JOBS_KEPT
from keywright.core.errors import UnknownJob
from keywright.db import ReadTransaction
from keywright.http.pages.error_messages import counted
from keywright.http.pages.inputs import number_of
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.http.pages.urls import url
from keywright.identity.rights import Right
from keywright.identity.store import find_user_by_id
from keywright.jobs import files as job_files
from keywright.jobs import orders
from keywright.jobs import store as job_store
from keywright.jobs.commands import CancelJob, FetchFile
from keywright.jobs.model import Job, JobState
from keywright.jobs.orders import Change, Export, Generate, Order, What
from keywright.licensing.licenses.model import Status
from keywright.provisioning.catalog.model import NameKind
from keywright.provisioning.catalog.store import names_of
from keywright.provisioning.generators import store as generator_store
from keywright.search.filters import Search

_PER_PAGE = 25
_TONES = {
    JobState.WAITING: "soft",
    JobState.RUNNING: "plain",
    JobState.DONE: "good",
    JobState.FAILED: "bad",
    JobState.CANCELED: "warn",
    JobState.STOPPED: "bad",
}


class Shown(NamedTuple):
    """A job, and what is said of it."""

    job: Job
    #: What was ordered, and for which licenses.
    title: str
    about: str
    by: str
    tone: str
    #: Whether there is a file, which can be fetched until it is forgotten.
    has_file: bool
    #: The list in which the licenses are that it has made; empty where it has made none.
    made: str

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.job.finished_at is not None

    @property
    def messages(self) -> list[str]:
        """Why it failed or was stopped, or the first licenses that were left as they are."""
        return (self.job.messages or "").splitlines()


class Listed(NamedTuple):
    """A page of the list, latest first; and the jobs after and before which the pages beside it are."""

    shown: list[Shown]
    newer: int | None
    older: int | None


class Jobs(Section):
    """The list of jobs, and a page for each."""

    label = "Jobs"
    path = "/jobs"
    icon = "activity"
    right = Right.LOOK

    @page("")
    def browse(self, request: PageRequest) -> Response:
        """The latest jobs, or those before or after one."""
        before, after = _number_in(request, "before"), _number_in(request, "after")
        listed = request.ask(partial(_list, before=before, after=after))
        return request.render("jobs/list.html", **listed._asdict(), days_kept=JOBS_KEPT.days)

    @page("/{id:number}")
    def look(self, request: PageRequest) -> Response:
        """One job."""
        return request.render("jobs/job.html", shown=_get(request), days_kept=FILES_KEPT.days)

    @page("/{id:number}/progress")
    def progress(self, request: PageRequest) -> Response:
        """How far it is: the piece of its page that is loaded again and again."""
        return request.render("jobs/progress.html", shown=_get(request))

    @page("/{id:number}/cancel", methods=("POST",), right=Right.CHANGE)
    def cancel(self, request: PageRequest) -> Response:
        """Do no more of it."""
        number = number_of(request.path_params["id"])
        job: Job = request.change(CancelJob(context=request.context, job_id=number))
        return request.redirect(f"/jobs/{job.id}", "The job is canceled. What it had done stays done.")

    @page("/{id:number}/file", methods=("POST",), right=Right.CHANGE)
    def fetch(self, request: PageRequest) -> Response:
        """The file that it has made; not by GET, because this is written down."""
        number = number_of(request.path_params["id"])
        job: Job = request.change(FetchFile(context=request.context, job_id=number))
        # It is read piece by piece while it is sent.
        return request.download(job_files.file_name(job), job_files.read_file(request.ask, job.id))


def _number_in(request: PageRequest, name: str) -> int | None:
    """A number of a job in the address; None for what can be none."""
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _list(tx: ReadTransaction, before: int | None, after: int | None) -> Listed:
    """The page after a job, or before one; the first page where that is the first, or would be empty."""
    if after is not None:
        found = job_store.list_next_jobs(tx, after_id=after, limit=_PER_PAGE + 1)
        if len(found) > _PER_PAGE:
            some = found[-_PER_PAGE:]
            return Listed([_shown(tx, job) for job in some], some[0].id, some[-1].id)
    found = job_store.list_jobs(tx, before_id=before, limit=_PER_PAGE + 1)
    if before is not None and not found:
        return _list(tx, None, None)
    some = found[:_PER_PAGE]
    return Listed(
        shown=[_shown(tx, job) for job in some],
        newer=None if before is None else some[0].id,
        older=some[-1].id if len(found) > _PER_PAGE else None,
    )


def _get(request: PageRequest) -> Shown:
    number = number_of(request.path_params["id"])

    def question(tx: ReadTransaction) -> Shown:
        job = job_store.find_job(tx, number)
        if job is None:
            raise UnknownJob(number)
        return _shown(tx, job)

    return request.ask(question)


def _shown(tx: ReadTransaction, job: Job) -> Shown:
    order = orders.order_of(job)
    user = find_user_by_id(tx, job.created_by)
    return Shown(
        job=job,
        title=_title(tx, order),
        about=_about(tx, order),
        by=orders.origin_of(job).actor if user is None else user.name,
        tone="warn" if job.state is JobState.DONE and 0 < job.done == job.refused else _TONES[job.state],
        has_file=job_files.has_file(tx, job),
        made=_list_of(order) if isinstance(order, Generate) and job.done else "",
    )


def _list_of(order: Generate) -> str:
    """The newest licenses for the same product, order and customer."""
    return url("/licenses", product=order.product_id, order=order.order_id, customer=order.customer_id)


# --- in words -------------------------------------------------------------------------------------


def _title(tx: ReadTransaction, order: Order) -> str:
    match order:
        case Generate():
            generator = generator_store.find_generator(tx, order.generator_id)
            with_what = f"generator {order.generator_id}" if generator is None else generator.name
            return f"Make {counted(order.amount, 'license')} with {with_what}"
        case Change():
            return _change_in_words(order)
        case Export():
            return "Export to a file"


def _change_in_words(order: Change) -> str:
    amount = order.amount or 0
    match order.what:
        case What.EXTEND:
            return f"Extend by {counted(amount, 'day')}" + (" from now" if order.is_from_now else "")
        case What.SET_LIMIT:
            return f"Set the limit to {counted(amount, 'place')}" if amount else "Take the limit away"
        case What.RAISE_LIMIT:
            return f"Allow {counted(amount, 'place')} more"
        case What.SET_STATUS:
            return f"Set the status to {Status(amount).name.lower()}"
        case What.DEACTIVATE_ALL:
            return "Deactivate all places"
        case What.DISABLE | What.ENABLE | What.DELETE:
            return order.what.capitalize()


def _about(tx: ReadTransaction, order: Order) -> str:
    """Which licenses."""
    if isinstance(order, Generate):
        words = _numbers_in_words(tx, order)
        return f"For {', '.join(words)}" if words else ""
    if order.license_ids is not None:
        return counted(len(set(order.license_ids)), "selected license")
    words = [] if order.search is None else _search_in_words(tx, order.search)
    return f"Licenses: {', '.join(words)}" if words else "All licenses"


def _search_in_words(tx: ReadTransaction, search: Search) -> list[str]:
    words = [] if search.status is None else [Status(search.status).name.lower()]
    words += _numbers_in_words(tx, search)
    if search.expiring_within_days is not None:
        words.append(f"expiring within {counted(search.expiring_within_days, 'day')}")
    words += ["full"] * search.is_full + ["never activated"] * search.is_unused
    words += ["found by a search"] * (search.term is not None or search.license_id is not None)
    return words


def _numbers_in_words(tx: ReadTransaction, given: Search | Generate) -> list[str]:
    kinds = (
        ("product", NameKind.PRODUCT, given.product_id),
        ("customer", NameKind.CUSTOMER, given.customer_id),
    )
    words = []
    for kind, name_kind, number in kinds:
        if number is not None:
            name = names_of(tx, name_kind, [number]).get(number)
            words.append(f"{kind} {number}" if name is None else f"{kind} {name} ({number})")
    if given.order_id is not None:
        words.append(f"order {given.order_id}")
    return words
