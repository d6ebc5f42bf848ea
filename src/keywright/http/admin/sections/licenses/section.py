"""Licenses: the list, what somebody looks for in it, and the page of one license with its history."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.responses import Response

from keywright.core.errors import UnknownLicense
from keywright.db import ReadTransaction
from keywright.http.admin import event_text as happenings
from keywright.http.admin.sections.licenses import filter as licenses_filter
from keywright.http.admin.sections.licenses.bulk import OFFERED, Bulk
from keywright.http.admin.sections.licenses.changes import Changes
from keywright.http.admin.sections.licenses.filter import USUAL_DAYS, Filter, Names
from keywright.http.admin.sections.licenses.forms import get_license
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.rights import Right
from keywright.licensing.licenses.commands import ShowKey
from keywright.licensing.licenses.model import License, Status
from keywright.search import event_pages, license_details, license_pages, projector, query_parser
from keywright.search.filters import Search
from keywright.search.license_details import LicenseDetails
from keywright.search.license_pages import Page
from keywright.search.projector import Lag
from keywright.search.query_parser import Interpretation

#: How many licenses, events, and licenses of something that was looked for are on a page.
_PER_PAGE = 50
_MOST_POSSIBLE = 5


class Listed(NamedTuple):
    """A page of the list, and what is said around it."""

    asked: Filter
    page: Page
    names: Names
    offered: Names
    lag: Lag


class Possible(NamedTuple):
    """What a typed text may mean: its first licenses, and where all of them are."""

    kind: str
    licenses: tuple[License, ...]
    has_more: bool
    texts: Mapping[str, str]


class Licenses(Bulk, Changes, Section):
    """The licenses, and all that can be done with them."""

    label = "Licenses"
    path = "/licenses"
    icon = "key"
    right = Right.LOOK

    @page("")
    def browse(self, request: PageRequest) -> Response:
        """The list, narrowed to what the address asks for."""
        listed = request.ask(lambda tx: _list(tx, request))
        return request.render(
            "licenses/list.html",
            status=422 if listed.asked.errors else 200,
            **listed._asdict(),
            chips=listed.asked.chips(listed.names),
            status_options=[(one.name.lower(), one.name.capitalize()) for one in Status],
            expiring_options=_expiring_options(listed.asked),
            chosen=_chosen(listed.asked),
            whats_offered=OFFERED,
        )

    @page("/search", methods=("POST",))
    def search(self, request: PageRequest) -> Response:
        """Go to the license, or to the list, that somebody looks for."""
        text = request.form.get("text", "")
        if not text:
            return request.redirect("/licenses")
        possible, names, lag = request.ask(lambda tx: _look_for(tx, request, request.form.raw("text")))
        numbers = {license.id for one in possible for license in one.licenses}
        if len(numbers) == 1 and not any(one.has_more for one in possible):
            return request.redirect(f"/licenses/{numbers.pop()}")
        if len(possible) == 1:
            return request.redirect(licenses_filter.path_of(possible[0].texts))
        return request.render("licenses/found.html", text=text, possible=possible, names=names, lag=lag)

    @page("/{id:number}")
    def show(self, request: PageRequest) -> Response:
        """A license with its activations."""
        found, names = request.ask(lambda tx: _details(tx, request.path_params["id"]))
        return request.render("licenses/show.html", license=found.license, found=found, names=names)

    @page("/{id:number}/key", methods=("POST",), right=Right.CHANGE)
    def show_key(self, request: PageRequest) -> Response:
        """The whole key; that somebody looked at it is an event."""
        license = get_license(request)
        shown: License = request.change(ShowKey(context=request.context, license=license.id))
        if request.is_from_script:
            return request.text(shown.key)
        return request.render("licenses/key.html", license=shown)

    @page("/{id:number}/history")
    def history(self, request: PageRequest) -> Response:
        """What happened to a license, latest first."""
        told = request.ask(lambda tx: _tell_history(tx, request))
        return request.render("licenses/history.html", is_later=_number_before(request) is not None, **told)


def _number_before(request: PageRequest) -> int | None:
    """Before which event a page of the history begins."""
    text = request.query.get("before", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _tell_history(tx: ReadTransaction, request: PageRequest) -> dict[str, Any]:
    details, _ = _details(tx, request.path_params["id"])
    page = event_pages.list_events(
        tx, license_id=details.license.id, before_id=_number_before(request), limit=_PER_PAGE
    )
    names = happenings.find_names(tx, [one.event for one in page.events])
    labels = {one.id: one.label or f"{one.token[:8]}…" for one in details.activations}
    told = [
        (happenings.tell(one, names, request.user), labels.get(one.event.activation_id or 0, ""))
        for one in page.events
    ]
    return {"license": details.license, "told": told, "before_id": page.before_id}


def _list(tx: ReadTransaction, request: PageRequest) -> Listed:
    asked = licenses_filter.read(tx, request.query)
    if asked.errors:
        found = Page((), None, None, None, total_is_least=False, is_incomplete=False)
    else:
        found = license_pages.find_page(
            tx,
            asked.search,
            cursor=request.query.get("cursor"),
            limit=_PER_PAGE,
            now=request.now,
            by_status=_by_status(tx, request, asked.search),
        )
    names = licenses_filter.names_of(tx, found.licenses, asked.search)
    return Listed(asked, found, names, licenses_filter.offered_names(tx), projector.lag(tx))


def _expiring_options(asked: Filter) -> list[tuple[str, str]]:
    within = asked.search.expiring_within_days
    days = sorted({*USUAL_DAYS} if within is None else {*USUAL_DAYS, within})
    return [("", "Any"), *((str(one), licenses_filter.in_days(one)) for one in days)]


def _chosen(asked: Filter) -> Mapping[str, str]:
    """The texts of the filter as the choices have them, however the address says it: ``3`` is ``active``."""
    search, chosen = asked.search, dict(asked.texts)
    if search.status is not None:
        chosen["status"] = Status(search.status).name.lower()
    if search.expiring_within_days is not None:
        chosen["expiring"] = str(search.expiring_within_days)
    return chosen


def _by_status(tx: ReadTransaction, request: PageRequest, search: Search) -> Mapping[int, int] | None:
    """Counts of all licenses, where they can be a total."""
    rest = (search.product_id, search.order_id, search.customer_id, search.expiring_within_days, search.term)
    if any(one is not None for one in rest) or search.is_full or search.is_unused:
        return None
    return request.site.figures.get(tx, request.now).by_status


def _look_for(tx: ReadTransaction, request: PageRequest, text: str) -> tuple[list[Possible], Names, Lag]:
    possible = [_possible(tx, request, one) for one in query_parser.interpret(tx, text)]
    licenses = [license for one in possible for license in one.licenses]
    return possible, licenses_filter.names_of(tx, licenses), projector.lag(tx)


def _possible(tx: ReadTransaction, request: PageRequest, meant: Interpretation) -> Possible:
    found = license_pages.find_page(tx, meant.search, cursor=None, limit=_MOST_POSSIBLE, now=request.now)
    texts = licenses_filter.texts_of(tx, meant) if meant.search.license_id is None else {}
    return Possible(meant.kind, found.licenses, found.next is not None, texts)


def _details(tx: ReadTransaction, license_id: int) -> tuple[LicenseDetails, Names]:
    found = license_details.get_license(tx, license_id)
    if found is None:
        raise UnknownLicense(str(license_id))
    return found, licenses_filter.names_of(tx, [found.license])
