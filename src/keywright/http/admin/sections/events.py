"""The event log, newest first, with filters for event, actor, license and day."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from starlette.responses import Response

from keywright.db import ReadTransaction
from keywright.http.admin import event_text
from keywright.http.pages.inputs import parse_number
from keywright.http.pages.languages import N_
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import ApiKey, User
from keywright.identity.rights import Right
from keywright.identity.store import list_api_keys, list_users
from keywright.search import event_pages
from keywright.search import store as search_store
from keywright.search.store import EventRecord

_PAGE_SIZE = 50
_MAX_FILTER_LENGTH = 80
#: Actors that are neither users nor API keys.
_OTHER_ACTORS = [
    ("program", "Programs without an API key"),
    ("cli:", "The terminal"),
    ("keywright", "Keywright itself"),
]
#: Visitors appear only in events that administrators alone may see.
_VISITOR = ("visitor", "Visitors not signed in")


class Events(Section):
    """The event log."""

    label = N_("Events")
    path = "/events"
    icon = "clock"
    right = Right.LOOK

    @page("")
    def list_page(self, request: PageRequest) -> Response:
        """A page of the events that match the filter."""
        filters, hidden = _read_filters(request.query), event_text.hidden_prefix(request.user)
        records = request.ask(
            lambda tx: event_pages.list_events(
                tx,
                **filters,
                without=hidden,
                before_id=parse_number(request.query.get("before", "")),
                limit=_PAGE_SIZE,
            )
        )
        names = request.ask(lambda tx: event_text.find_names(tx, [one.event for one in records.events]))
        return request.render(
            "events/list.html",
            events=[event_text.to_view(one, names, request.user) for one in records.events],
            before=records.before_id,
            is_incomplete=records.is_incomplete,
            is_first="before" not in request.query,
            query=_to_query(filters),
            is_filtered=any(value is not None for value in filters.values()),
            event_options=_event_options(hidden),
            actor_options=request.ask(
                lambda tx: _actor_options(tx, filters["actor"], is_all_shown=hidden is None)
            ),
            links=_find_links(request, records.events),
        )


#: The pages of numbers in the details of events, and the rights that these pages need.
_DETAIL_PAGES = {"job_id": ("/jobs", Right.LOOK), "user_id": ("/users", Right.ADMINISTER)}


def _find_links(request: PageRequest, records: Sequence[EventRecord]) -> dict[int, str]:
    """The pages that events link to, by the number of the event. Deleted licenses have no records."""
    numbers = {one.event.license_id for one in records} - {0}
    existing_ids = request.ask(lambda tx: search_store.find_existing_ids(tx, numbers))
    links = {
        one.id: f"/licenses/{one.event.license_id}" for one in records if one.event.license_id in existing_ids
    }
    for one in records:
        for name, number in (one.event.details or {}).items():
            path, right = _DETAIL_PAGES.get(name, ("", None))
            if right is not None and not one.event.license_id and request.may(right):
                links[one.id] = f"{path}/{number}"
    return links


def _read_filters(query: Mapping[str, str]) -> dict[str, Any]:
    """The filters in the query; those that cannot be parsed are ignored."""
    return {
        "name": query.get("what", "")[:_MAX_FILTER_LENGTH] or None,
        "actor": query.get("who", "")[:_MAX_FILTER_LENGTH] or None,
        "license_id": parse_number(query.get("license", "")),
        "day": _parse_day(query.get("day", "")),
    }


def _to_query(filters: Mapping[str, Any]) -> dict[str, Any]:
    """The filters as a query."""
    return {
        "what": filters["name"],
        "who": filters["actor"],
        "license": filters["license_id"],
        "day": filters["day"],
    }


def _event_options(hidden: str | None) -> list[tuple[str, list[tuple[str, str]]]]:
    """The choices of events, by noun: all of its events, or one kind."""
    return [
        (
            noun,
            [
                (_prefix(texts), f"{noun}: all"),
                *((name, event_text.describe_kind(name)) for name in texts),
            ],
        )
        for noun, texts in event_text.EVENTS.items()
        if _prefix(texts) != hidden
    ]


def _prefix(texts: Mapping[str, str]) -> str:
    """The prefix that the names of these events have in common."""
    return f"{next(iter(texts)).partition('.')[0]}."


def _actor_options(
    tx: ReadTransaction, chosen: str | None, *, is_all_shown: bool
) -> list[tuple[str, list[tuple[str, str]]]]:
    """The choices of actors, with the chosen one."""
    users: Sequence[User] = list_users(tx)
    api_keys: Sequence[ApiKey] = list_api_keys(tx)
    groups = [
        ("Users", [(f"user:{one.id}", one.name) for one in users]),
        ("API keys", [(f"api_key:{one.id}", one.name) for one in api_keys]),
        ("Others", [*_OTHER_ACTORS, _VISITOR] if is_all_shown else _OTHER_ACTORS),
    ]
    known = {value for _, options in groups for value, _ in options}
    if chosen is not None and chosen not in known:
        groups.append(("Another actor", [(chosen, event_text.describe_actor(chosen))]))
    return groups


def _parse_day(text: str) -> date | None:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    # Days at the ends of the calendar would overflow.
    return day if 1970 <= day.year < 9999 else None
