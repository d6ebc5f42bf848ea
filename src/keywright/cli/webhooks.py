"""``keywright webhook …``"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import typer
from msgspec import UNSET

from keywright.cli import output
from keywright.cli.crud import Crud, Texts, with_fields
from keywright.cli.events import parse_past_moment
from keywright.cli.installation import Installation
from keywright.cli.options import AsJson, WrongUsage, command, with_installation
from keywright.cli.tables import Limit, print_list
from keywright.core import parsing
from keywright.delivery.webhooks.addresses import parse_address, parse_url
from keywright.delivery.webhooks.commands import (
    WEBHOOK,
    CreateEndpoint,
    GetDelivery,
    ListDeliveries,
    ResendDelivery,
    ResendSince,
    RotateSecret,
    SendTest,
)
from keywright.delivery.webhooks.fields import NewWebhook, WebhookFields
from keywright.delivery.webhooks.model import Delivery, Endpoint, NewEndpoint, State

_TEXTS = Texts(
    list=("",),
    update=("--event 'license.*' --event 'order.*'", "--enabled"),
    delete="Delete a webhook and its deliveries, including waiting ones.",
)


def _require_allowed(here: Installation, fields: WebhookFields) -> None:
    if fields.url is UNSET:
        return
    try:
        parse_url(fields.url, here.settings.webhook_networks)
    except ValueError as reason:
        raise WrongUsage(f"{fields.url}: {reason}") from None


def _state(endpoint: Endpoint) -> str:
    if endpoint.disabled_at is not None:
        reason = (endpoint.disabled_reason or "").replace("_", " ")
        return f"disabled ({reason}) since {output.format_time(endpoint.disabled_at)}"
    if endpoint.failing_at is not None:
        return f"failing since {output.format_time(endpoint.failing_at)}"
    return "enabled"


def _rows(endpoint: Endpoint) -> dict[str, object]:
    return {
        "url": endpoint.url,
        "description": endpoint.description,
        "events": ", ".join(endpoint.events),
        "product": endpoint.product_id,
        "payload": endpoint.payload.value,
        "state": _state(endpoint),
        "created at": endpoint.created_at,
        "updated at": endpoint.updated_at,
    }


_CRUD = Crud(
    WEBHOOK,
    _TEXTS,
    columns=("id", "url", "events", "product", "state"),
    verbs={"create": "", "update": "edit", "delete": "remove"},
    rows=_rows,
    show=output.webhook_json,
    check=_require_allowed,
    asks=True,
)
app = _CRUD.app
_Id = Annotated[int, typer.Argument(metavar="ID", parser=parsing.parse_integer, help="The webhook's ID.")]
_Url = Annotated[
    str, typer.Argument(metavar="ADDRESS", parser=parse_address, help="Where deliveries are sent.")
]


@command(app, "keywright webhook add https://crm.example/keywright --event 'license.*'")
@with_installation
@with_fields(WebhookFields, is_new=True, without=("url",))
def add(here: Installation, url: _Url, *, fields: Mapping[str, Any], as_json: AsJson = False) -> None:
    """Make a webhook, and print the secret that signs its deliveries.

    The secret is not shown again. Without --event, the webhook gets all events about licenses: license.*.
    """
    new = NewWebhook(**{"url": url, "events": ["license.*"], **fields})
    _require_allowed(here, new)
    made: NewEndpoint = here.change(CreateEndpoint(context=here.context, fields=new))
    _print_new(made, f"Webhook {made.endpoint.id} created.", as_json=as_json)


@command(app, "keywright webhook rotate-secret 1")
@with_installation
def rotate_secret(here: Installation, endpoint_id: _Id, *, as_json: AsJson = False) -> None:
    """Make a new secret for a webhook, and print it.

    For 24 hours, deliveries are signed with both secrets, so that you can update the receiver.
    """
    made: NewEndpoint = here.change(RotateSecret(context=here.context, endpoint_id=endpoint_id))
    _print_new(made, f"Webhook {endpoint_id} has a new secret.", as_json=as_json)


@command(app, "keywright webhook test 1")
@with_installation
def test(here: Installation, endpoint_id: _Id) -> None:
    """Send a webhook.tested event to this webhook only; a running server delivers it."""
    here.change(SendTest(context=here.context, endpoint_id=endpoint_id))
    _print_sent(here, endpoint_id, "The test is queued: `keywright webhook deliveries` shows the result.")


@command(app, "keywright webhook deliveries 1 --state waiting", "keywright webhook deliveries 1 --delivery 9")
@with_installation
def deliveries(
    here: Installation,
    endpoint_id: _Id,
    *,
    delivery_id: Annotated[
        int | None,
        typer.Option(
            "--delivery",
            metavar="ID",
            parser=parsing.parse_integer,
            help="Show only this delivery, with all details.",
        ),
    ] = None,
    state: Annotated[State | None, typer.Option(help="Only deliveries in this state.")] = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List the deliveries of a webhook, oldest first; they are kept for 30 days."""
    if delivery_id is not None:
        _print_delivery(here, endpoint_id, delivery_id, as_json=as_json)
        return
    print_list(
        here,
        lambda paging: ListDeliveries(endpoint_id=endpoint_id, paging=paging, state=state),
        limit=limit,
        as_json=as_json,
        columns=("id", "event", "type", "license", "state", "attempts", "last attempt at", "status"),
        to_row=_delivery_row,
        to_json=output.delivery_json,
    )


@command(app, "keywright webhook resend 1 --delivery 9", "keywright webhook resend 1 --since 2h")
@with_installation
def resend(
    here: Installation,
    endpoint_id: _Id,
    *,
    delivery_id: Annotated[
        int | None,
        typer.Option(
            "--delivery", metavar="ID", parser=parsing.parse_integer, help="Send this delivery again."
        ),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            metavar="TIME",
            parser=parse_past_moment,
            help="Send all deliveries since this time again: yesterday, today, 30m, 2h, 7d, or a time (UTC).",
        ),
    ] = None,
) -> None:
    """Send one delivery again, or all events since a time, in order; at most those of 30 days."""
    if (delivery_id is None) == (since is None):
        raise WrongUsage("Give either --delivery or --since")
    if delivery_id is not None:
        context = here.context
        here.change(ResendDelivery(context=context, endpoint_id=endpoint_id, delivery_id=delivery_id))
        _print_sent(here, endpoint_id, f"Delivery {delivery_id} is queued again.")
    elif since is not None:
        here.change(ResendSince(context=here.context, endpoint_id=endpoint_id, since=since))
        text = f"The events since {output.format_time(since)} (UTC) are queued again."
        _print_sent(here, endpoint_id, text)


def _print_sent(here: Installation, endpoint_id: int, text: str) -> None:
    """Print this, unless the webhook is disabled, so that nothing is sent now."""
    endpoint: Endpoint = here.ask(WEBHOOK.get(id=endpoint_id))
    if endpoint.disabled_at is not None:
        text = f"Webhook {endpoint_id} is disabled: this is sent once it is enabled."
    output.print_line(text)


def _print_new(made: NewEndpoint, heading: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json(output.webhook_json(made.endpoint) | {"secret": made.secret})
        return
    _CRUD.print_one(made.endpoint, heading, as_json=False)
    output.print_line(f"\nThe webhook's secret, shown only now:\n  {made.secret}")


def _print_delivery(here: Installation, endpoint_id: int, delivery_id: int, *, as_json: bool) -> None:
    found: tuple[Delivery, bytes | None] = here.ask(
        GetDelivery(endpoint_id=endpoint_id, delivery_id=delivery_id, now=here.now)
    )
    delivery, body = found
    delivered = {"request": None if body is None else body.decode()}
    if as_json:
        output.print_json(output.delivery_json(delivery) | delivered)
    else:
        output.print_heading(f"Delivery {delivery.id}")
        output.print_fields(list((output.delivery_json(delivery) | delivered).items()))


def _delivery_row(one: Delivery) -> tuple[object, ...]:
    last: datetime | None = one.last_attempt_at
    came = one.status or one.answer
    place = one.license_id or None
    return (
        *(one.id, one.event_id, one.name, place, one.state.value, one.attempts),
        *(output.format_time(last), came),
    )
