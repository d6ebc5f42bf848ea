"""The feed of events, in order."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from keywright.core.fields import Id, Time, about
from keywright.core.nouns import MAX_LIMIT
from keywright.events.feed import Feed, FeedEvent, ListFeed, Reached, Subject, subject_of
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import lists
from keywright.http.v3.call import Call
from keywright.http.v3.fields import Query
from keywright.http.v3.license_schemas import Order, show_order
from keywright.http.v3.route import Route
from keywright.http.v3.schemas import Page
from keywright.licensing.licenses.model import Order as StoredOrder
from keywright.licensing.licenses.model import read_order

Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT)]
Type = Annotated[str, Meta(max_length=40, pattern=r"^[a-z_]+\.(\*|[a-z_]+)$")]
SubjectName = Annotated[str, Meta(max_length=40, pattern=r"^[a-z_]+:[1-9][0-9]{0,17}$")]
Wait = Annotated[int, Meta(ge=0, le=30)]


class EventSubject(Struct):
    """The thing that an event is about."""

    type: Annotated[str, about("The subject's type.", "license")]
    id: Annotated[Id | None, about("The subject's ID, if it has one.", 17)]


class Event(Struct):
    """Something that happened."""

    id: Annotated[Id, about("The event's ID; later ones are larger.", 4711)]
    type: Annotated[str, about("What happened.", "license.activated")]
    at: Annotated[Time, about("When it happened.")]
    actor: Annotated[str, about("Who did it: a program, an API key, a user, the terminal.", "program")]
    ip_address: Annotated[str, about("The caller's IP address, if it is still stored.", "192.0.2.1")]
    subject: Annotated[EventSubject, about("What the event is about.")]
    license_id: Annotated[Id | None, about("The license, if the event is about one.", 17)]
    customer_id: Annotated[
        Id | None, about("The customer who owns the license, or whom the event is about.", 311)
    ]
    order: Annotated[Order | None, about("The order of the license; null if there is no license.")]
    details: Annotated[Mapping[str, Any], about("More about the event.", {"activation_id": 90})]


class EventQuery(Query):
    """Filters of events, and how long to wait for new ones."""

    limit: Annotated[Limit, about("The maximum number of events in a page.", 50)] = 50
    cursor: Annotated[str | None, about("The `next_cursor` of the previous page.")] = None
    type: Annotated[Type | None, about("Only events of this type; `license.*` means all license events.")] = (
        None
    )
    subject: Annotated[SubjectName | None, about("Only events about this subject, such as `license:17`.")] = (
        None
    )
    since: Annotated[Time | None, about("Only events at this time or later.")] = None
    until: Annotated[Time | None, about("Only events before this time.")] = None
    wait_seconds: Annotated[Wait, about("How many seconds to wait if there is no event.")] = 0


async def list_events(call: Call, query: EventQuery) -> Answer:
    """List events.

    Oldest first, each exactly once. There is always a `next_cursor`: use it in the next call to get newer
    events and, with `wait_seconds`, to wait for them. If few of very many events match, a page may have fewer
    than `limit`. A cursor that is older than the oldest kept event is refused (400, `too_old`). Of
    activations by programs, at most 1,000 events a day are kept per license.
    """
    after = lists.read_cursor(call, tuple[lists.Number, lists.Number])
    asked = ListFeed(
        now=call.now,
        limit=query.limit,
        after=None if after is None else Reached(*after),
        name=None if query.type is None else query.type.removesuffix("*"),
        subject=None if query.subject is None else _parse_subject(query.subject),
        since=query.since,
        until=query.until,
        only_product_id=call.only_product_id,
    )
    feed: Feed
    if query.wait_seconds:
        feed = await call.waiters.find(call, asked, query.wait_seconds)
    else:
        feed = await call.desk.query(asked, call)
    shown = [show(one) for one in feed.events]
    return lists.answer_found(call, Page(shown, None), feed.reached)


def _parse_subject(text: str) -> Subject:
    kind, _, number = text.partition(":")
    return Subject(kind, int(number))


def show(one: FeedEvent) -> Event:
    """The event as v3 shows it."""
    event = one.event
    subject, details = subject_of(event), dict(event.details or {})
    of_place = {} if event.activation_id is None else {"activation_id": event.activation_id}
    return Event(
        one.id,
        event.name,
        event.occurred_at,
        event.actor,
        event.ip_address,
        EventSubject(subject.kind, subject.id),
        event.license_id or None,
        one.customer_id or details.get("customer_id"),
        _show_order(one, details.get("order")) if event.license_id else None,
        of_place | details,
    )


def _show_order(one: FeedEvent, of_deleted: object) -> Order:
    """The order of the license: its current one or, for a deleted license, its last one."""
    if isinstance(of_deleted, dict):
        return show_order(msgspec.convert(of_deleted, StoredOrder))
    return show_order(read_order(one.order_id, one.order_details))


ROUTES = (
    Route(
        "GET",
        "/events",
        Right.READ,
        list_events,
        gives=Page[Event],
        example={"type": "license.*", "limit": "50"},
    ),
)
