"""The events that shops send to their connections."""

from typing import Annotated, Literal

from msgspec import Struct

from keywright.core.fields import Id, Time, about, copy_as
from keywright.core.nouns import ListQuery
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import lists, schemas
from keywright.http.v3.answers import ok
from keywright.http.v3.call import Call
from keywright.http.v3.fields import Body
from keywright.http.v3.route import Route
from keywright.provisioning.shops.commands import ListShopEvents, TryAgain
from keywright.provisioning.shops.model import EventState, Reason, StoredEvent

_EVENTS = "/connections/{connection_id}/events"


class ShopEvent(Struct):
    """An event that a shop sent."""

    id: Annotated[Id, about("The event's ID.", 12)]
    connection_id: Annotated[Id, about("The connection.", 1)]
    event_id: Annotated[str, about("The shop's ID for the event.", "evt_1Pro")]
    name: Annotated[str, about("The shop's name for the event.", "checkout.session.completed")]
    order: Annotated[str | None, about("The order or the subscription.", "pi_1Pro")]
    state: Annotated[EventState, about("The event's state.", "unmatched")]
    reason: Annotated[
        Reason | None,
        about("The reason for the state, unless the event was simply processed.", "unknown_product"),
    ]
    detail: Annotated[str | None, about("More about the reason.", "price_1Pro")]
    happened_at: Annotated[Time, about("When it happened, according to the shop.", "2026-11-22T08:54:00Z")]
    received_at: Annotated[Time, about("When the event was received.", "2026-11-22T08:54:01Z")]
    attempts: Annotated[int, about("How often processing was attempted.", 1)]
    next_attempt_at: Annotated[Time | None, about("When the next attempt is due.", None)]


class EventQuery(ListQuery):
    """Filters and sort order of a list of shop events."""

    state: Annotated[EventState | None, about("Only events in this state.")] = None
    sort: Literal["received_at", "-received_at"] = "-received_at"


def show_event(event: StoredEvent) -> ShopEvent:
    """The event as v3 shows it."""
    return copy_as(ShopEvent, event, order=event.order_ref)


async def list_shop_events(call: Call, query: EventQuery) -> Answer:
    """List the events of a connection.

    Newest first. Events in the state `unmatched` need a decision by you.
    """
    asked = ListShopEvents(
        connection_id=call.path["connection_id"], state=query.state, paging=lists.read_paging(call)
    )
    return await call.ask(asked, lambda page: lists.answer_items(call, page, show_event))


class Retry(Body):
    """How to retry an event."""

    overwrite: Annotated[bool, about("Whether to overwrite changes made by hand.", True)] = False


async def retry_shop_event(call: Call, body: Retry) -> Answer:
    """Retry a shop event.

    Use this for an event in the state `unmatched`, after you have corrected the mapping. An event that would
    undo manual changes (`changed_by_hand`) does so only with `overwrite`. The event is processed shortly
    afterwards. The body is optional.
    """
    command = TryAgain(
        context=call.context,
        connection_id=call.path["connection_id"],
        event_id=call.path["event_id"],
        overwrite=body.overwrite,
    )
    return await call.change(command, lambda event: ok(show_event(event)))


ROUTES = (
    Route(
        "GET", _EVENTS, Right.READ, list_shop_events, gives=schemas.Page[ShopEvent], needs_all_products=True
    ),
    Route(
        "POST",
        f"{_EVENTS}/{{event_id}}/retry",
        Right.WRITE,
        retry_shop_event,
        needs_body=False,
        gives=ShopEvent,
        needs_all_products=True,
    ),
)
