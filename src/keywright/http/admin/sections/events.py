"""Events: what happened, newest first, to be searched by what, who, which license and when."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from starlette.responses import Response

from keywright.core import parsing
from keywright.db import ReadTransaction
from keywright.http.admin import event_text as happenings
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import ApiKey, User
from keywright.identity.rights import Right
from keywright.identity.store import list_api_keys, list_users
from keywright.search import event_pages
from keywright.search import store as search_store
from keywright.search.store import EventRecord

_ON_A_PAGE = 50
_MAX_TEXT = 80
#: Who acts without being a user or an API key.
_OTHERS = [
    ("program", "Programs without an API key"),
    ("cli:", "The terminal"),
    ("keywright", "Keywright itself"),
]
#: Whoever comes to the door does nothing but what only administrators see.
_AT_THE_DOOR = ("visitor", "Somebody not signed in")


class Events(Section):
    """What happened."""

    label = "Events"
    path = "/events"
    icon = "clock"
    right = Right.LOOK

    @page("")
    def browse(self, request: PageRequest) -> Response:
        """The newest events that match, or those before one."""
        asked, hidden = _asked(request.query), happenings.hidden_from(request.user)
        found = request.ask(
            lambda tx: event_pages.list_events(
                tx,
                **asked,
                without=hidden,
                before_id=_number(request.query.get("before", "")),
                limit=_ON_A_PAGE,
            )
        )
        names = request.ask(lambda tx: happenings.find_names(tx, [one.event for one in found.events]))
        return request.render(
            "events/list.html",
            events=[happenings.tell(one, names, request.user) for one in found.events],
            before=found.before_id,
            is_incomplete=found.is_incomplete,
            is_first="before" not in request.query,
            query=_said(asked),
            is_filtered=any(value is not None for value in asked.values()),
            what=_what(hidden),
            who=request.ask(lambda tx: _who(tx, asked["actor"], is_all_shown=hidden is None)),
            links=_links(request, found.events),
        )


#: Where a number in an event's details leads, and who may go there.
_LINKS = {"job_id": ("/jobs", Right.LOOK), "user_id": ("/users", Right.ADMINISTER)}


def _links(request: PageRequest, found: Sequence[EventRecord]) -> dict[int, str]:
    """Where each event leads that leads anywhere, by its number. Licenses may be gone."""
    numbers = {one.event.license_id for one in found} - {0}
    there = request.ask(lambda tx: search_store.find_existing_ids(tx, numbers))
    links = {one.id: f"/licenses/{one.event.license_id}" for one in found if one.event.license_id in there}
    for one in found:
        for name, number in (one.event.details or {}).items():
            path, right = _LINKS.get(name, ("", None))
            if right is not None and not one.event.license_id and request.may(right):
                links[one.id] = f"{path}/{number}"
    return links


def _asked(query: Mapping[str, str]) -> dict[str, Any]:
    """What is asked for; what cannot be read is not asked for."""
    return {
        "name": query.get("what", "")[:_MAX_TEXT] or None,
        "actor": query.get("who", "")[:_MAX_TEXT] or None,
        "license_id": _number(query.get("license", "")),
        "day": _day(query.get("day", "")),
    }


def _said(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The same as it stands in the address."""
    return {
        "what": asked["name"],
        "who": asked["actor"],
        "license": asked["license_id"],
        "day": asked["day"],
    }


def _what(hidden: str | None) -> list[tuple[str, list[tuple[str, str]]]]:
    """What can be asked for, by noun: all of it, or one kind of event."""
    return [
        (
            noun,
            [
                (_beginning(named), f"{noun}: everything"),
                *((name, happenings.in_general(name)) for name in named),
            ],
        )
        for noun, named in happenings.EVENTS.items()
        if _beginning(named) != hidden
    ]


def _beginning(named: Mapping[str, str]) -> str:
    return f"{next(iter(named)).partition('.')[0]}."


def _who(
    tx: ReadTransaction, chosen: str | None, *, is_all_shown: bool
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Who can be asked for; and who is, if that is somebody else."""
    users: Sequence[User] = list_users(tx)
    api_keys: Sequence[ApiKey] = list_api_keys(tx)
    groups = [
        ("Users", [(f"user:{one.id}", one.name) for one in users]),
        ("API keys", [(f"api_key:{one.id}", one.name) for one in api_keys]),
        ("Others", [*_OTHERS, _AT_THE_DOOR] if is_all_shown else _OTHERS),
    ]
    known = {value for _, options in groups for value, _ in options}
    if chosen is not None and chosen not in known:
        groups.append(("Somebody else", [(chosen, happenings.actor_in_words(chosen))]))
    return groups


def _number(text: str) -> int | None:
    try:
        return parsing.parse_integer(text) if text else None
    except ValueError:
        return None


def _day(text: str) -> date | None:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    # Nothing happened at the ends of time.
    return found if 1970 <= found.year < 9999 else None
