"""Long work: what was ordered, how far it is, and the files that came of it."""

from collections.abc import AsyncIterator
from functools import partial
from typing import NamedTuple

from starlette.responses import Response, StreamingResponse

from keywright import accounts, jobs
from keywright.accounts import Right
from keywright.browsing import Search
from keywright.commands import CancelJob, FetchFile
from keywright.errors import UnknownJob
from keywright.http.admin.visit import Area, Visit, page
from keywright.http.jobs import FILES_KEPT
from keywright.jobs import Change, Export, Generate, What
from keywright.model import Job, JobState, NameKind, Status
from keywright.storage import Reading

_PER_PAGE = 25
_TONES = {
    JobState.WAITING: "soft",
    JobState.RUNNING: "plain",
    JobState.DONE: "good",
    JobState.FAILED: "bad",
    JobState.CANCELED: "warn",
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

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.job.finished_at is not None

    @property
    def said(self) -> list[str]:
        """Why it failed, or the first licenses that were left as they are."""
        return (self.job.said or "").splitlines()


class Jobs(Area):
    """The list of jobs, and a page for each."""

    menu_label = "Jobs"
    path = "/jobs"
    icon = "activity"
    right = Right.LOOK

    @page("")
    def browse(self, visit: Visit) -> Response:
        """The latest jobs."""
        text = visit.query.get("before", "")
        before = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
        shown = visit.ask(partial(_list, before=before))
        beyond = shown[_PER_PAGE - 1].job.id if len(shown) > _PER_PAGE else None
        return visit.page("jobs/list.html", shown=shown[:_PER_PAGE], before=before, beyond=beyond)

    @page("/{id:int}")
    def look(self, visit: Visit) -> Response:
        """One job."""
        return visit.page("jobs/job.html", shown=_get(visit), days_kept=FILES_KEPT.days)

    @page("/{id:int}/progress")
    def progress(self, visit: Visit) -> Response:
        """How far it is: the piece of its page that is loaded again and again."""
        return visit.page("jobs/progress.html", shown=_get(visit))

    @page("/{id:int}/cancel", methods=("POST",), right=Right.CHANGE)
    def cancel(self, visit: Visit) -> Response:
        """Do no more of it."""
        job: Job = visit.change(CancelJob(**visit.command_fields(), job_id=visit.path["id"]))
        return visit.back(f"/jobs/{job.id}", "The job is canceled. What it had done stays done.")

    @page("/{id:int}/file", methods=("POST",), right=Right.CHANGE)
    def fetch(self, visit: Visit) -> Response:
        """The file that it has made; not by GET, because this is written down."""
        job: Job = visit.change(FetchFile(**visit.command_fields(), job_id=visit.path["id"]))
        return _file(visit, job)


def _file(visit: Visit, job: Job) -> Response:
    """The file, read piece by piece in the threads of the pages while it is sent."""
    door = visit.frame.door
    pieces = jobs.read_file(door.ask, job.id)

    async def body() -> AsyncIterator[bytes]:
        while (piece := await door.run(partial(next, pieces, None))) is not None:
            yield piece

    headers = {"content-disposition": f'attachment; filename="{jobs.file_name(job)}"'}
    return StreamingResponse(body(), media_type="text/csv; charset=utf-8", headers=headers)


def _list(tx: Reading, before: int | None) -> list[Shown]:
    """A page of jobs, and one more where there is one."""
    return [_shown(tx, job) for job in jobs.list_jobs(tx, before_id=before, limit=_PER_PAGE + 1)]


def _get(visit: Visit) -> Shown:
    number: int = visit.path["id"]

    def question(tx: Reading) -> Shown:
        job = jobs.find_job(tx, number)
        if job is None:
            raise UnknownJob(number)
        return _shown(tx, job)

    return visit.ask(question)


def _shown(tx: Reading, job: Job) -> Shown:
    order = jobs.order_of(job)
    user = accounts.find_user_by_id(tx, job.created_by)
    return Shown(
        job=job,
        title=_title(tx, order),
        about=_about(tx, order),
        by=jobs.origin_of(job).actor if user is None else user.name,
        tone=_TONES[job.state],
        has_file=jobs.has_file(tx, job),
    )


# --- in words -------------------------------------------------------------------------------------


def _title(tx: Reading, order: jobs.Order) -> str:
    match order:
        case Generate():
            generator = tx.find_generator(order.generator_id)
            with_what = f"generator {order.generator_id}" if generator is None else generator.name
            return f"Make {_counted(order.amount, 'license')} with {with_what}"
        case Change():
            return _change_in_words(order)
        case Export():
            return "Export to a file"


def _change_in_words(order: Change) -> str:
    amount = order.amount or 0
    match order.what:
        case What.EXTEND:
            return f"Extend by {_counted(amount, 'day')}" + (" from now" if order.is_from_now else "")
        case What.SET_LIMIT:
            return f"Set the limit to {_counted(amount, 'place')}" if amount else "Take the limit away"
        case What.RAISE_LIMIT:
            return f"Allow {_counted(amount, 'place')} more"
        case What.SET_STATUS:
            return f"Set the status to {Status(amount).name.lower()}"
        case What.DEACTIVATE_ALL:
            return "Deactivate all places"
        case What.DISABLE | What.ENABLE | What.DELETE:
            return order.what.capitalize()


def _about(tx: Reading, order: jobs.Order) -> str:
    """Which licenses."""
    if isinstance(order, Generate):
        words = _numbers_in_words(tx, order)
        return f"For {', '.join(words)}" if words else ""
    if order.license_ids is not None:
        return _counted(len(set(order.license_ids)), "selected license")
    words = [] if order.search is None else _search_in_words(tx, order.search)
    return f"Licenses: {', '.join(words)}" if words else "All licenses"


def _search_in_words(tx: Reading, search: Search) -> list[str]:
    words = [] if search.status is None else [Status(search.status).name.lower()]
    words += _numbers_in_words(tx, search)
    if search.expiring_within_days is not None:
        words.append(f"expiring within {_counted(search.expiring_within_days, 'day')}")
    words += ["full"] * search.is_full + ["never activated"] * search.is_unused
    words += ["found by a search"] * (search.term is not None or search.license_id is not None)
    return words


def _numbers_in_words(tx: Reading, given: Search | Generate) -> list[str]:
    kinds = (("product", NameKind.PRODUCT, given.product_id), ("customer", NameKind.USER, given.user_id))
    words = []
    for kind, name_kind, number in kinds:
        if number is not None:
            name = accounts.names_of(tx, name_kind, [number]).get(number)
            words.append(f"{kind} {number}" if name is None else f"{kind} {name} ({number})")
    if given.order_id is not None:
        words.append(f"order {given.order_id}")
    return words


def _counted(amount: int, what: str) -> str:
    return f"{amount:,} {what}" if amount == 1 else f"{amount:,} {what}s"
