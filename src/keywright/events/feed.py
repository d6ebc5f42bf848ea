"""The events as the management API shows them: oldest first, and each once."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from keywright.core.command import Cost, Query
from keywright.events.model import Event

#: The detail that is the id of what an event is about, by the first word of its name.
_IDS: Mapping[str, str] = {
    "api_key": "api_key_id",
    "connection": "number",
    "customer": "number",
    "job": "job_id",
    "mail": "mail",
    "name": "number",
    "order": "event",
    "policy": "policy_id",
    "product": "product_id",
    "user": "user_id",
    "webhook": "endpoint_id",
}


class Subject(NamedTuple):
    """The subject of an event; ``id`` is None where it has none."""

    kind: str
    id: int | None


class Reached(NamedTuple):
    """A place in the events: everything up to this id was seen, at that time in seconds."""

    id: int
    seen_at: int


class FeedEvent(msgspec.Struct, frozen=True):
    """An event and its id; the customer that it is about, and the fields of ``License`` that state the order,
    as they are now: None where the license is gone.
    """

    id: int
    event: Event
    customer_id: int | None = None
    order_id: int | None = None
    order_details: str | None = None


class ListFeed(Query, frozen=True, kw_only=True):
    """The next ``limit`` events, oldest first, after a place; without one, from the oldest that is kept.

    ``name`` is an event's name or, with a dot at its end, the beginning of names. ``since`` is inclusive,
    ``until`` is not. ``only_product_id`` as in ``LicenseCommand``.
    """

    cost = Cost.FEED

    now: datetime
    limit: int
    after: Reached | None = None
    name: str | None = None
    subject: Subject | None = None
    since: datetime | None = None
    until: datetime | None = None
    only_product_id: int | None = None


class Feed(msgspec.Struct, frozen=True):
    """Events, and the place after which to continue. There may be fewer than asked for, or none, although
    there are more: when the time was up.
    """

    events: tuple[FeedEvent, ...]
    reached: Reached


class LookAtFeed(Query, frozen=True, kw_only=True):
    """What came after this id, whatever it is about; without one, only the id up to which all can be seen."""

    cost = Cost.FEED

    after_id: int | None


class Look(msgspec.Struct, frozen=True):
    """Events with their products, and the id up to which all were looked at; ``has_more`` after it."""

    events: tuple[tuple[FeedEvent, int | None], ...]
    reached_id: int
    has_more: bool = False


def subject_of(event: Event) -> Subject:
    """The subject of the event."""
    kind = event.name.partition(".")[0]
    if event.license_id:
        return Subject("license", event.license_id)
    found = (event.details or {}).get(_IDS.get(kind, ""))
    return Subject(kind, found if isinstance(found, int) else None)


def is_wanted(event: Event, query: ListFeed) -> bool:
    """Whether the event meets the query's conditions, but for the product."""
    name, at = query.name, event.occurred_at
    if name is not None and not (event.name.startswith(name) if name.endswith(".") else event.name == name):
        return False
    if (query.since is not None and at < query.since) or (query.until is not None and at >= query.until):
        return False
    return query.subject is None or subject_of(event) == query.subject


def find_settled(settled_id: int, ids: Collection[int]) -> int:
    """The last of the ids that follow on each other from ``settled_id``: events are numbered before they are
    committed, and what is missing may still come.
    """
    for one in ids:
        if one != settled_id + 1:
            break
        settled_id = one
    return settled_id
