"""Webhooks and their deliveries."""

import json
from typing import Annotated, Any, Literal

from msgspec import UNSET, Struct, UnsetType

from keywright.core.errors import FieldError, InvalidBody
from keywright.core.fields import Id, Time, about, copy_as
from keywright.core.nouns import ListQuery
from keywright.delivery.webhooks import commands, fields, model
from keywright.delivery.webhooks.addresses import parse_url
from keywright.delivery.webhooks.commands import WEBHOOK
from keywright.delivery.webhooks.fields import WebhookFields
from keywright.delivery.webhooks.model import DisabledReason, Payload, State
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import lists
from keywright.http.v3.answers import no_content, ok
from keywright.http.v3.call import Call
from keywright.http.v3.crud import Shown, Texts, crud_routes
from keywright.http.v3.fields import Body
from keywright.http.v3.route import Route
from keywright.http.v3.schemas import Page


class Webhook(Struct):
    """A URL that is notified of events."""

    id: Annotated[Id, about("The webhook's ID.", 1)]
    url: Annotated[str, about("The URL to which deliveries are sent.", "https://crm.example/keywright")]
    description: Annotated[str | None, about("What the webhook is for.", "Our CRM")]
    events: Annotated[list[str], about(fields.TYPES, ["license.*"])]
    product_id: Annotated[Id | None, about("The only product whose events are delivered.", None)]
    payload: Annotated[Payload, about("How much a delivery contains.", "full")]
    is_enabled: Annotated[bool, about("Whether deliveries are sent.", True)]
    disabled_reason: Annotated[
        DisabledReason | None,
        about(
            "Why the webhook was disabled: by hand, the receiver answered 410, or it accepted nothing for "
            "five days.",
            None,
        ),
    ]
    failing_since: Annotated[
        Time | None, about("When the first attempt since the last successful delivery failed.", None)
    ]
    secret: Annotated[
        str | None,
        about("The secret that signs deliveries; shown once when it is new, and null later.", None),
    ]
    created_at: Annotated[Time, about("When the webhook was created.", "2026-11-22T08:54:00Z")]
    updated_at: Annotated[Time, about("When the webhook was last changed.", "2026-11-22T08:54:00Z")]


class Delivery(Struct):
    """The delivery of an event to a webhook."""

    id: Annotated[Id, about("The webhook's ID.", 9)]
    message_id: Annotated[
        str, about("The header `webhook-id`, which is the same for every attempt.", "msg_1_4711")
    ]
    event_id: Annotated[Id, about("The event.", 4711)]
    type: Annotated[str, about("The event's type.", "license.activated")]
    license_id: Annotated[Id | None, about("The license, if the event is about one.", 17)]
    state: Annotated[
        State, about("The state; `given_up` means that deliveries failed for five days.", "delivered")
    ]
    attempts: Annotated[int, about("How often the delivery was sent.", 1)]
    next_attempt_at: Annotated[
        Time | None,
        about("When the next attempt is due; null also while an earlier delivery must be sent first.", None),
    ]
    last_attempt_at: Annotated[Time | None, about("When the last attempt was made.")]
    status: Annotated[int | None, about("The HTTP status of the last answer.", 200)]
    answer: Annotated[str | None, about("The beginning of the last answer, or why there was none.", "ok")]
    duration_ms: Annotated[int | None, about("How long the last attempt took, in milliseconds.", 41)]
    created_at: Annotated[Time, about("When the delivery was queued.")]
    request: Annotated[
        dict[str, Any] | UnsetType,
        about("The body that an attempt would send now; only for a single delivery."),
    ] = UNSET


class NewSecret(Body):
    """The new secret of a webhook."""

    secret: Annotated[fields.Secret | None, about("The new secret; without one, Keywright makes it.")] = None


class Resend(Body):
    """The time from which events are sent again."""

    since: Annotated[Time, about("The time of the first event to send again; at most 30 days ago.")]


class DeliveryQuery(ListQuery):
    """Filters and sort order of a list of deliveries."""

    state: Annotated[State | None, about("Only deliveries in this state.")] = None
    license_id: Annotated[Id | None, about("Only deliveries about this license.")] = None
    sort: Literal["created_at", "-created_at"] = "-created_at"


def show(one: model.Endpoint | model.NewEndpoint) -> Webhook:
    """The webhook as v3 shows it, with its secret only if that is new."""
    endpoint = one.endpoint if isinstance(one, model.NewEndpoint) else one
    return copy_as(
        Webhook,
        endpoint,
        is_enabled=endpoint.disabled_at is None,
        failing_since=endpoint.failing_at,
        secret=one.secret if isinstance(one, model.NewEndpoint) else None,
    )


def show_delivery(one: model.Delivery) -> Delivery:
    """The delivery as v3 shows it."""
    return copy_as(Delivery, one, type=one.name, license_id=one.license_id or None, request=UNSET)


def _require_allowed(call: Call, body: WebhookFields) -> None:
    if body.url is UNSET:
        return
    try:
        parse_url(body.url, call.settings.webhook_networks)
    except ValueError as reason:
        raise InvalidBody([FieldError("/url", "invalid", str(reason))]) from None


async def rotate_webhook_secret(call: Call, body: NewSecret) -> Answer:
    """Rotate a webhook's secret.

    The new secret is shown only in this answer. For 24 hours, deliveries are signed with both secrets.
    """
    command = commands.RotateSecret(
        context=call.context, endpoint_id=call.path["webhook_id"], secret=body.secret
    )
    return await call.change(command, lambda made: ok(show(made)))


async def send_webhook_test(call: Call) -> Answer:
    """Test a webhook.

    Sends an event `webhook.tested` to this webhook only. Its delivery is listed with the others.
    """
    command = commands.SendTest(context=call.context, endpoint_id=call.path["webhook_id"])
    return await call.change(command, no_content)


async def resend_since(call: Call, body: Resend) -> Answer:
    """Resend events.

    Sends all events since a given time again, in order, including those that were delivered. Events of the
    last 30 days are available.
    """
    command = commands.ResendSince(
        context=call.context, endpoint_id=call.path["webhook_id"], since=body.since
    )
    return await call.change(command, no_content)


async def list_deliveries(call: Call, query: DeliveryQuery) -> Answer:
    """List deliveries.

    Newest first. Deliveries are kept for 30 days.
    """
    asked = commands.ListDeliveries(
        endpoint_id=call.path["webhook_id"],
        paging=lists.read_paging(call),
        state=query.state,
        license_id=query.license_id,
    )
    return await call.ask(asked, lambda page: lists.answer_items(call, page, show_delivery))


async def get_delivery(call: Call) -> Answer:
    """Get a delivery.

    Includes the body that an attempt would send now, unless the event is no longer kept.
    """
    asked = commands.GetDelivery(
        endpoint_id=call.path["webhook_id"], delivery_id=call.path["delivery_id"], now=call.now
    )

    def write(found: tuple[model.Delivery, bytes | None]) -> Answer:
        delivery, body = found
        shown = show_delivery(delivery)
        if body is not None:
            shown.request = json.loads(body)
        return ok(shown)

    return await call.ask(asked, write)


async def resend_delivery(call: Call) -> Answer:
    """Resend a delivery.

    Sends it at once, whatever its state, without waiting for other deliveries.
    """
    command = commands.ResendDelivery(
        context=call.context, endpoint_id=call.path["webhook_id"], delivery_id=call.path["delivery_id"]
    )
    return await call.change(command, no_content)


_ONE = "/webhooks/{webhook_id}"
_DELIVERIES = f"{_ONE}/deliveries"
_OF_ALL: dict[str, Any] = {"needs_all_products": True}
_TEXTS = Texts(
    create="Events are delivered from now on; `secret` is shown only in this answer. Deliveries follow "
    "[Standard Webhooks](https://www.standardwebhooks.com): `webhook-id`, `webhook-timestamp`, "
    "`webhook-signature`.",
    get="Returns the webhook without its secret.",
    delete="Also deletes its deliveries, including those that are waiting.",
)

ROUTES = (
    *crud_routes(
        WEBHOOK,
        _TEXTS,
        example={"url": "https://crm.example/keywright", "events": ["license.*"]},
        change={"events": ["license.*", "order.*"]},
        refusals={
            "POST": ("still_in_use",),
            "PATCH": ("changed_meanwhile",),
            "DELETE": ("changed_meanwhile",),
        },
        shown=Shown(Webhook, show, {"failing_since": None, "secret": None}),
        check=_require_allowed,
    ),
    Route("POST", f"{_ONE}/rotate-secret", Right.WRITE, rotate_webhook_secret, gives=Webhook, **_OF_ALL),
    Route("POST", f"{_ONE}/test", Right.WRITE, send_webhook_test, status=204, **_OF_ALL),
    Route(
        "POST",
        f"{_ONE}/resend",
        Right.WRITE,
        resend_since,
        status=204,
        example={"since": "2026-11-22T08:54:00Z"},
        **_OF_ALL,
    ),
    Route("GET", _DELIVERIES, Right.READ, list_deliveries, gives=Page[Delivery], **_OF_ALL),
    Route("GET", f"{_DELIVERIES}/{{delivery_id}}", Right.READ, get_delivery, gives=Delivery, **_OF_ALL),
    Route(
        "POST", f"{_DELIVERIES}/{{delivery_id}}/resend", Right.WRITE, resend_delivery, status=204, **_OF_ALL
    ),
)
