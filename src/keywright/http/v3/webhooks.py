"""Webhooks: the addresses that are told of events, and what came of it."""

import json
from typing import Any

from msgspec import structs

from keywright.core.errors import FieldError, InvalidBody
from keywright.core.fields import list_changes
from keywright.delivery.webhooks import model, rules
from keywright.delivery.webhooks.addresses import parse_url
from keywright.delivery.webhooks.commands import (
    CreateEndpoint,
    DeleteEndpoint,
    GetDelivery,
    GetEndpoint,
    ListDeliveries,
    ListEndpoints,
    ResendDelivery,
    ResendSince,
    RotateSecret,
    SendTest,
    UpdateEndpoint,
)
from keywright.http.answer import Answer
from keywright.http.middleware.routing import Right
from keywright.http.v3 import lists
from keywright.http.v3.answers import created, etag_of, no_content, ok
from keywright.http.v3.call import Call
from keywright.http.v3.route import Route
from keywright.http.v3.schemas import Page
from keywright.http.v3.webhook_schemas import (
    Delivery,
    DeliveryQuery,
    NewSecret,
    NewWebhook,
    Since,
    Webhook,
    WebhookChanges,
    WebhookQuery,
)


def show(endpoint: model.Endpoint, secret: str | None = None) -> Webhook:
    """The endpoint as its answer."""
    return Webhook(
        endpoint.id,
        endpoint.url,
        endpoint.description,
        list(endpoint.events),
        endpoint.product_id,
        endpoint.payload,
        endpoint.disabled_at is None,
        endpoint.disabled_reason,
        endpoint.failing_at,
        secret,
        endpoint.created_at,
        endpoint.updated_at,
    )


def show_delivery(one: model.Delivery) -> Delivery:
    """The delivery as its answer."""
    return Delivery(
        one.id,
        one.message_id,
        one.event_id,
        one.name,
        one.license_id or None,
        one.state,
        one.attempts,
        one.next_attempt_at,
        one.last_attempt_at,
        one.status,
        one.answer,
        one.duration_ms,
        one.created_at,
    )


def _etag(endpoint: model.Endpoint) -> bytes:
    return etag_of(show(endpoint), failing_since=None)


def _write(endpoint: model.Endpoint) -> Answer:
    return ok(show(endpoint), etag=_etag(endpoint))


def _require_allowed(call: Call, url: str) -> None:
    try:
        parse_url(url, call.settings.webhook_networks)
    except ValueError as reason:
        raise InvalidBody([FieldError("/url", "invalid", str(reason))]) from None


async def create_webhook(call: Call, body: NewWebhook) -> Answer:
    """Create a webhook.

    It is told of events from now on; `secret` is shown in this answer alone. Deliveries follow [Standard
    Webhooks](https://www.standardwebhooks.com): `webhook-id`, `webhook-timestamp`, `webhook-signature`.
    """
    _require_allowed(call, body.url)
    fields = structs.asdict(body) | {"events": rules.normalize_events(body.events)}
    command = CreateEndpoint(context=call.context, **fields)

    def write(made: model.NewEndpoint) -> Answer:
        endpoint = made.endpoint
        place = f"{call.root}/webhooks/{endpoint.id}"
        return created(show(endpoint, made.secret), place, etag=_etag(endpoint))

    return await call.change(command, write)


async def list_webhooks(call: Call, _query: WebhookQuery) -> Answer:
    """List webhooks.

    The newest first.
    """
    asked = ListEndpoints(paging=lists.read_paging(call))
    return await call.ask(asked, lambda page: lists.answer_items(call, page, show))


async def get_webhook(call: Call) -> Answer:
    """Get a webhook.

    One webhook, without its secret.
    """
    return await call.ask(GetEndpoint(endpoint_id=call.path["webhook_id"]), _write)


async def update_webhook(call: Call, body: WebhookChanges) -> Answer:
    """Change a webhook.

    What is not sent stays.
    """
    changes = list_changes(body)
    if "url" in changes:
        _require_allowed(call, changes["url"])
    if "events" in changes:
        changes["events"] = rules.normalize_events(changes["events"])
    command = UpdateEndpoint(
        context=call.context,
        endpoint_id=call.path["webhook_id"],
        changes=changes,
        precondition=call.precondition(_etag),
    )
    return await call.change(command, _write)


async def delete_webhook(call: Call) -> Answer:
    """Delete a webhook.

    Its deliveries are deleted with it, including those that wait.
    """
    command = DeleteEndpoint(
        context=call.context, endpoint_id=call.path["webhook_id"], precondition=call.precondition(_etag)
    )
    return await call.change(command, no_content)


async def rotate_webhook_secret(call: Call, body: NewSecret) -> Answer:
    """Rotate a webhook's secret.

    The answer shows the new one, this once. For 24 hours, deliveries are signed with both.
    """
    command = RotateSecret(context=call.context, endpoint_id=call.path["webhook_id"], secret=body.secret)
    return await call.change(command, lambda made: ok(show(made.endpoint, made.secret)))


async def send_webhook_test(call: Call) -> Answer:
    """Test a webhook.

    Sends an event `webhook.tested` to this webhook alone; its delivery is listed with the others.
    """
    command = SendTest(context=call.context, endpoint_id=call.path["webhook_id"])
    return await call.change(command, no_content)


async def resend_since(call: Call, body: Since) -> Answer:
    """Send events again.

    All events since a moment, in their order, also those that were delivered; 30 days are kept.
    """
    command = ResendSince(context=call.context, endpoint_id=call.path["webhook_id"], since=body.since)
    return await call.change(command, no_content)


async def list_deliveries(call: Call, query: DeliveryQuery) -> Answer:
    """List deliveries.

    The newest first; they are kept for 30 days.
    """
    asked = ListDeliveries(
        endpoint_id=call.path["webhook_id"],
        paging=lists.read_paging(call),
        state=query.state,
        license_id=query.license_id,
    )
    return await call.ask(asked, lambda page: lists.answer_items(call, page, show_delivery))


async def get_delivery(call: Call) -> Answer:
    """Get a delivery.

    With the body that an attempt would send now; without one where the event is kept no longer.
    """
    asked = GetDelivery(
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
    """Send a delivery again.

    At once, whatever came of it before, and without waiting for others.
    """
    command = ResendDelivery(
        context=call.context, endpoint_id=call.path["webhook_id"], delivery_id=call.path["delivery_id"]
    )
    return await call.change(command, no_content)


_EXAMPLE: dict[str, Any] = {"url": "https://crm.example/keywright", "events": ["license.*"]}
_ALL, _ONE = "/webhooks", "/webhooks/{webhook_id}"
_DELIVERIES = f"{_ONE}/deliveries"
_OF_ALL: dict[str, Any] = {"needs_all_products": True}

ROUTES = (
    Route(
        "POST",
        _ALL,
        "create_webhook",
        Right.WRITE,
        create_webhook,
        body=NewWebhook,
        gives=Webhook,
        status=201,
        refusals=("still_in_use",),
        example=_EXAMPLE,
        **_OF_ALL,
    ),
    Route(
        "GET",
        _ALL,
        "list_webhooks",
        Right.READ,
        list_webhooks,
        query=WebhookQuery,
        gives=Page[Webhook],
        **_OF_ALL,
    ),
    Route("GET", _ONE, "get_webhook", Right.READ, get_webhook, gives=Webhook, **_OF_ALL),
    Route(
        "PATCH",
        _ONE,
        "update_webhook",
        Right.WRITE,
        update_webhook,
        body=WebhookChanges,
        gives=Webhook,
        refusals=("changed_meanwhile",),
        example={"events": ["license.*", "order.*"]},
        **_OF_ALL,
    ),
    Route(
        "DELETE",
        _ONE,
        "delete_webhook",
        Right.WRITE,
        delete_webhook,
        status=204,
        refusals=("changed_meanwhile",),
        **_OF_ALL,
    ),
    Route(
        "POST",
        f"{_ONE}/rotate-secret",
        "rotate_webhook_secret",
        Right.WRITE,
        rotate_webhook_secret,
        body=NewSecret,
        gives=Webhook,
        **_OF_ALL,
    ),
    Route("POST", f"{_ONE}/test", "send_webhook_test", Right.WRITE, send_webhook_test, status=204, **_OF_ALL),
    Route(
        "POST",
        f"{_ONE}/resend",
        "resend_since",
        Right.WRITE,
        resend_since,
        body=Since,
        status=204,
        example={"since": "2026-11-22T08:54:00Z"},
        **_OF_ALL,
    ),
    Route(
        "GET",
        _DELIVERIES,
        "list_deliveries",
        Right.READ,
        list_deliveries,
        query=DeliveryQuery,
        gives=Page[Delivery],
        **_OF_ALL,
    ),
    Route(
        "GET",
        f"{_DELIVERIES}/{{delivery_id}}",
        "get_delivery",
        Right.READ,
        get_delivery,
        gives=Delivery,
        **_OF_ALL,
    ),
    Route(
        "POST",
        f"{_DELIVERIES}/{{delivery_id}}/resend",
        "resend_delivery",
        Right.WRITE,
        resend_delivery,
        status=204,
        **_OF_ALL,
    ),
)
