"""The overview: how many licenses there are, what happens with them, and what to do first."""

from collections.abc import Collection
from typing import NamedTuple

from starlette.responses import Response

from keywright import search
from keywright.db import ReadTransaction
from keywright.http.admin import event_text as happenings
from keywright.http.pages.page import Area, Visit, page
from keywright.identity.rights import Right
from keywright.identity.store import list_api_keys
from keywright.licensing.licenses.model import Status
from keywright.provisioning.generators import store as generator_store
from keywright.search import Overview, projector
from keywright.search.projector import Lag


class Begun(NamedTuple):
    """What a new installation has already."""

    has_generator: bool
    has_api_key: bool


class Shown(NamedTuple):
    """What is on the page."""

    overview: Overview
    names: happenings.Names
    #: The licenses that events tell of, and that are still there.
    there: Collection[int]
    lag: Lag
    begun: Begun | None


class Home(Area):
    """What is first to see."""

    menu_label = "Overview"
    path = "/overview"
    icon = "home"
    right = Right.LOOK

    @page("")
    def show(self, visit: Visit) -> Response:
        """The figures, two charts, and what happened lately; before the first license, what to do next."""
        shown = visit.ask(lambda tx: _look(tx, visit))
        found = shown.overview
        return visit.page(
            "overview/overview.html",
            overview=found,
            lag=shown.lag,
            begun=shown.begun,
            there=shown.there,
            told=[happenings.tell(one, shown.names, visit.user) for one in found.latest_events],
            by_status=[(one.name.lower(), found.by_status.get(one, 0)) for one in Status],
            is_old=found.as_of != visit.now,
            is_counting=not visit.frame.figures.are_recent(visit.now) and found.as_of != visit.now,
        )

    @page("/counted")
    def counted(self, visit: Visit) -> Response:
        """Whether the figures were counted since; asked by pages whose own are old."""
        return visit.page("overview/counted.html", is_over=visit.frame.figures.are_recent(visit.now))


def _look(tx: ReadTransaction, visit: Visit) -> Shown:
    hidden = happenings.hidden_from(visit.user)
    found = search.overview(tx, visit.now, visit.frame.figures, without=hidden)
    events = [one.event for one in found.latest_events]
    names = happenings.find_names(tx, events)
    there = search.licenses_there(tx, {one.license_id for one in events} - {0})
    begun = None
    if not found.total:
        in_force = any(one.revoked_at is None for one in list_api_keys(tx))
        begun = Begun(bool(generator_store.list_generators(tx)), in_force)
    return Shown(found, names, there, projector.lag(tx), begun)
