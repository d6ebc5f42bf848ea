"""The bodies and answers about webhooks as types; see ``schemas``."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Struct, UnsetType

from keywright.core.fields import Id, Time, about
from keywright.core.nouns import ListQuery
from keywright.delivery.webhooks import fields
from keywright.delivery.webhooks.model import DisabledReason, Payload, State
from keywright.http.v3.fields import Body


class Webhook(Struct):
    """An address that is told of events."""

    id: Annotated[Id, about("Its number.", 1)]
    url: Annotated[str, about("Where deliveries are sent.", "https://crm.example/keywright")]
    description: Annotated[str | None, about("What it is for.", "Our CRM")]
    events: Annotated[list[str], about(fields.TYPES, ["license.*"])]
    product_id: Annotated[Id | None, about("The one product of whose events it is told.", None)]
    payload: Annotated[Payload, about("How much a delivery says.", "full")]
    is_enabled: Annotated[bool, about("Whether deliveries are sent.", True)]
    disabled_reason: Annotated[
        DisabledReason | None,
        about("Why not: by hand, the receiver answered 410, or nothing was taken for five days.", None),
    ]
    failing_since: Annotated[Time | None, about("The first failure since the last delivery.", None)]
    secret: Annotated[str | None, about("Shown once, when it is new; then null.", None)]
    created_at: Annotated[Time, about("When it was made.", "2026-11-22T08:54:00Z")]
    updated_at: Annotated[Time, about("When it was last changed.", "2026-11-22T08:54:00Z")]


class Delivery(Struct):
    """An event for a webhook."""

    id: Annotated[Id, about("Its number.", 9)]
    message_id: Annotated[str, about("The header `webhook-id`, the same for every attempt.", "msg_1_4711")]
    event_id: Annotated[Id, about("The event.", 4711)]
    type: Annotated[str, about("The event's type.", "license.activated")]
    license_id: Annotated[Id | None, about("The license, if it is about one.", 17)]
    state: Annotated[State, about("`given_up`: it was refused for five days.", "delivered")]
    attempts: Annotated[int, about("How often it was sent.", 1)]
    next_attempt_at: Annotated[
        Time | None, about("When it is sent next; null too where it waits for an earlier one.", None)
    ]
    last_attempt_at: Annotated[Time | None, about("When it was sent last.")]
    status: Annotated[int | None, about("The status of the last answer.", 200)]
    answer: Annotated[str | None, about("Its beginning, or why there was none.", "ok")]
    duration_ms: Annotated[int | None, about("How long it took, in milliseconds.", 41)]
    created_at: Annotated[Time, about("When it began to wait.")]
    request: Annotated[
        dict[str, Any] | UnsetType, about("The body that an attempt would send now, of one delivery.")
    ] = UNSET


class NewSecret(Body):
    """A new secret."""

    secret: Annotated[fields.Secret | None, about("Without one, it is made.")] = None


class Resend(Body):
    """A moment."""

    since: Annotated[Time, about("All events from this moment on; of 30 days at most.")]


class DeliveryQuery(ListQuery):
    """Filters of deliveries."""

    state: Annotated[State | None, about("Only those in this state.")] = None
    license_id: Annotated[Id | None, about("Only those about this license.")] = None
    sort: Literal["created_at", "-created_at"] = "-created_at"
