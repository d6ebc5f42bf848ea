"""The events as the management API shows them: oldest first, each exactly once."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from keywright.core.command import Cost, Query
from keywright.events.model import Event

#: The detail with the ID of an event's subject, by the first word of the event's name.
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
    """The subject of an event; ``id`` is None if the event states none."""

    kind: str
    id: int | None


class Reached(NamedTuple):
    """A position in the events: all up to this ID had been seen at that time, in seconds."""

    id: int
    seen_at: int


class FeedEvent(msgspec.Struct, frozen=True):
    """An event and its ID; its customer, and the fields of ``License`` that state the order, as they are now:
    None if the license no longer exists.
    """

    id: int
    event: Event
    customer_id: int | None = None
    order_id: int | None = None
    order_details: str | None = None


class ListFeed(Query, frozen=True, kw_only=True):
    """Return the next ``limit`` events, oldest first, after a position; without one, from the oldest stored
    on.

    ``name`` is an event's name or, with a trailing dot, a prefix of names. ``since`` is inclusive, ``until``
    exclusive. ``only_product_id`` as in ``LicenseCommand``.
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
    """Events, and the position to continue after. There may be fewer than requested, or none, although more
    exist: if the time budget was used up.
    """

    events: tuple[FeedEvent, ...]
    reached: Reached


class LookAtFeed(Query, frozen=True, kw_only=True):
    """All events after this ID, about any subject; without one, only the ID up to which all are visible."""

    cost = Cost.FEED

    after_id: int | None


class Look(msgspec.Struct, frozen=True):
    """Events with their products, and the ID up to which all were read; ``has_more`` after it."""

    events: tuple[tuple[FeedEvent, int | None], ...]
    reached_id: int
    has_more: bool = False


def subject_of(event: Event) -> Subject:
    """Return the subject of the event."""
    kind = event.name.partition(".")[0]
    if event.license_id:
        return Subject("license", event.license_id)
    found = (event.details or {}).get(_IDS.get(kind, ""))
    return Subject(kind, found if isinstance(found, int) else None)


def is_wanted(event: Event, query: ListFeed) -> bool:
    """Whether the event meets the query's conditions, except for the product."""
    name, at = query.name, event.occurred_at
    if name is not None and not (event.name.startswith(name) if name.endswith(".") else event.name == name):
        return False
    if (query.since is not None and at < query.since) or (query.until is not None and at >= query.until):
        return False
    return query.subject is None or subject_of(event) == query.subject


def find_settled(settled_id: int, ids: Collection[int]) -> int:
    """Return the last of the consecutive IDs after ``settled_id``: IDs are assigned before the commit, so a
    missing one may still appear.
    """
    for one in ids:
        if one != settled_id + 1:
            break
        settled_id = one
    return settled_id
