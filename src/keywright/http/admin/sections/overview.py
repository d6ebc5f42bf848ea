"""The overview: how many licenses there are, what happens with them, and what to do first."""

from collections.abc import Collection
from typing import NamedTuple

from starlette.responses import Response

from keywright.db import ReadTransaction
from keywright.http.admin import event_text as happenings
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.rights import Right
from keywright.identity.store import list_api_keys
from keywright.licensing.licenses.model import Status
from keywright.provisioning.generators import store as generator_store
from keywright.search import projector, statistics
from keywright.search import store as search_store
from keywright.search.projector import Lag


class Begun(NamedTuple):
    """What a new installation has already."""

    has_generator: bool
    has_api_key: bool


class Shown(NamedTuple):
    """What is on the page."""

    overview: statistics.Overview
    names: happenings.Names
    #: The licenses that events tell of, and that are still there.
    there: Collection[int]
    lag: Lag
    begun: Begun | None


class Start(Section):
    """The address that users type."""

    path = "/"
    in_menu = False
    right = Right.LOOK

    @page("")
    def start(self, request: PageRequest) -> Response:
        """Go to the overview."""
        return request.redirect(Overview.path)


class Overview(Section):
    """What is first to see."""

    label = "Overview"
    path = "/overview"
    icon = "home"
    right = Right.LOOK

    @page("")
    def show(self, request: PageRequest) -> Response:
        """The figures, two charts, and what happened lately; before the first license, what to do next."""
        shown = request.ask(lambda tx: _look(tx, request))
        found = shown.overview
        return request.render(
            "overview/overview.html",
            overview=found,
            lag=shown.lag,
            begun=shown.begun,
            there=shown.there,
            told=[happenings.tell(one, shown.names, request.user) for one in found.latest_events],
            by_status=[(one.name.lower(), found.by_status.get(one, 0)) for one in Status],
            is_old=found.as_of != request.now,
            is_counting=not request.site.figures.are_recent(request.now) and found.as_of != request.now,
        )

    @page("/counted")
    def counted(self, request: PageRequest) -> Response:
        """Whether the figures were counted since; asked by pages whose own are old."""
        return request.render("overview/counted.html", is_over=request.site.figures.are_recent(request.now))


def _look(tx: ReadTransaction, request: PageRequest) -> Shown:
    hidden = happenings.hidden_from(request.user)
    found = statistics.overview(tx, request.now, request.site.figures, without=hidden)
    events = [one.event for one in found.latest_events]
    names = happenings.find_names(tx, events)
    there = search_store.find_existing_ids(tx, {one.license_id for one in events} - {0})
    begun = None
    if not found.total:
        in_force = any(one.revoked_at is None for one in list_api_keys(tx))
        begun = Begun(bool(generator_store.list_generators(tx)), in_force)
    return Shown(found, names, there, projector.lag(tx), begun)
