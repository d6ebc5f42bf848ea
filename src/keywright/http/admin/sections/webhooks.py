"""Webhooks: the endpoints that are notified of events, and the outcome of each delivery."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from starlette.responses import Response

from keywright.core import parsing
from keywright.core.errors import NotFound
from keywright.core.nouns import Paging, Position, position_of
from keywright.db import ReadTransaction
from keywright.delivery.webhooks import queries, rules, store
from keywright.delivery.webhooks.addresses import parse_url
from keywright.delivery.webhooks.commands import (
    CreateEndpoint,
    DeleteEndpoint,
    GetDelivery,
    ListDeliveries,
    ListEndpoints,
    ResendDelivery,
    ResendSince,
    RotateSecret,
    SendTest,
    UpdateEndpoint,
)
from keywright.delivery.webhooks.fields import NewWebhook, WebhookFields
from keywright.delivery.webhooks.model import Endpoint, NewEndpoint, Payload, State
from keywright.http.admin.event_views import reader_zone
from keywright.http.admin.name_suggestions import number_parser, suggest_names, write_number
from keywright.http.admin.periods import build_chips
from keywright.http.pages.formats import N_, _
from keywright.http.pages.forms import Inputs, parse_choice, require_id
from keywright.http.pages.page import Section, page
from keywright.http.pages.request import PageRequest
from keywright.identity.model import Right
from keywright.provisioning.products import NameKind
from keywright.provisioning.store import names_of

#: A label and a description for each payload.
PAYLOADS: dict[Payload, tuple[str, str]] = {
    Payload.FULL: (
        N_("Everything"),
        N_("The event with its details, and the license with its key masked."),
    ),
    Payload.WITH_EMAIL: (
        N_("Everything, with addresses"),
        N_("The same, with the customer's name and e-mail address."),
    ),
    Payload.THIN: (N_("Only IDs"), N_("The event, with only the IDs of its subjects.")),
}
STATES = {
    State.WAITING: (N_("Waiting"), "warn"),
    State.DELIVERED: (N_("Delivered"), "good"),
    State.GIVEN_UP: (N_("Given up"), "bad"),
}
REASONS = {
    "by_hand": N_("The webhook was disabled by hand."),
    "gone": N_("The receiver answered 410 (Gone)."),
    "failing": N_("The receiver accepted nothing for five days."),
}
_ROWS = 50
_NO_EVENTS: list[str] = []
_POSITION = re.compile(r"[0-9]{1,12}-[0-9]{1,18}")


class Webhooks(Section):
    """The endpoints and their deliveries."""

    label = N_("Webhooks")
    path = "/webhooks"
    group = N_("Connections")
    icon = "send"
    right = Right.ADMINISTER

    @page("")
    def list_all(self, request: PageRequest) -> Response:
        """All endpoints."""
        asked = ListEndpoints(paging=Paging(limit=rules.MAX_ENDPOINTS))
        found = request.ask(lambda tx: store.WEBHOOKS.list_page(tx, asked))
        return request.render("webhooks/list.html", endpoints=found.items)

    @page("/new", methods=("GET", "POST"))
    def create(self, request: PageRequest) -> Response:
        """Create an endpoint, and show its secret."""
        inputs = Inputs(request.form)
        if request.is_post:
            fields = _read_fields(request, inputs)
            if not inputs.errors:
                made = request.change(CreateEndpoint(context=request.context, fields=NewWebhook(**fields)))
                return _show_secret(request, made)
        form = dict(request.form) if request.is_post else {"events": "license.*", "payload": "full"}
        return _render_form(request, inputs, form, None)

    @page("/{id:number}")
    def show(self, request: PageRequest) -> Response:
        """An endpoint and its deliveries, the newest first."""
        endpoint = _get(request)
        state = next((one for one in State if one.value == request.query.get("state")), None)
        paging = Paging(after=_parse_position(request.query.get("before", "")), limit=_ROWS)
        asked = ListDeliveries(endpoint_id=endpoint.id, paging=paging, state=state)
        found = request.ask(lambda tx: store.list_deliveries(tx, asked)).items
        shown = found[:_ROWS]
        place = position_of(shown[-1], paging.sort) if len(found) > _ROWS else None
        return request.render(
            "webhooks/show.html",
            endpoint=endpoint,
            product=request.ask(lambda tx: _find_product_name(tx, endpoint)),
            deliveries=shown,
            state=state,
            chips=build_chips(
                _path(endpoint),
                {},
                [("state", _("State"), "" if state is None else _(STATES[state][0]))],
            ),
            states=STATES,
            payloads=PAYLOADS,
            reasons=REASONS,
            before=None if place is None else f"{place[0]}-{place[1]}",
        )

    @page("/{id:number}/edit", methods=("GET", "POST"))
    def edit(self, request: PageRequest) -> Response:
        """Change an endpoint."""
        endpoint, inputs = _get(request), Inputs(request.form)
        if request.is_post:
            fields = _read_fields(request, inputs)
            if not inputs.errors:
                change = UpdateEndpoint(
                    context=request.context, id=endpoint.id, fields=WebhookFields(**fields)
                )
                request.change(change)
                return request.redirect(_path(endpoint), _("The webhook was changed."))
        form = dict(request.form) if request.is_post else _form_of(request, endpoint)
        return _render_form(request, inputs, form, endpoint)

    @page("/{id:number}/enabled", methods=("POST",))
    def set_enabled(self, request: PageRequest) -> Response:
        """Enable or disable an endpoint."""
        endpoint = _get(request)
        is_enabled = "enable" in request.form
        request.change(
            UpdateEndpoint(
                context=request.context, id=endpoint.id, fields=WebhookFields(is_enabled=is_enabled)
            )
        )
        message = (
            _("The webhook continues where it stopped.") if is_enabled else _("The webhook was disabled.")
        )
        return request.redirect(_path(endpoint), message)

    @page("/{id:number}/test", methods=("POST",))
    def test(self, request: PageRequest) -> Response:
        """Send a test delivery."""
        endpoint = _get(request)
        request.change(SendTest(context=request.context, endpoint_id=endpoint.id))
        return request.redirect(
            _path(endpoint),
            _unless_disabled(endpoint, _("A test was queued: reload this page to see its result.")),
        )

    @page("/{id:number}/rotate", methods=("GET", "POST"))
    def rotate(self, request: PageRequest) -> Response:
        """Create a new secret, and show it."""
        endpoint = _get(request)
        if request.is_post:
            command = RotateSecret(context=request.context, endpoint_id=endpoint.id)
            return _show_secret(request, request.change(command))
        return request.confirm(
            _("Make a new secret?"),
            [
                _(
                    "For 24 hours, deliveries are signed with both secrets, so that you can update the "
                    "receiver."
                )
            ],
            button=_("Make a new secret"),
            back=_path(endpoint),
            is_danger=False,
        )

    @page("/{id:number}/resend", methods=("POST",))
    def resend_since(self, request: PageRequest) -> Response:
        """Resend the events since a day."""
        endpoint, inputs = _get(request), Inputs(request.form)
        since = inputs.require("since", partial(_parse_day, zone=reader_zone(request)), request.now)
        if inputs.errors:
            return request.redirect(_path(endpoint), _("Choose a day."), is_error=True)
        command = ResendSince(context=request.context, endpoint_id=endpoint.id, since=since)
        request.change(command)
        message = _("The events since then are sent again, in their original order.")
        return request.redirect(_path(endpoint), _unless_disabled(endpoint, message))

    @page("/{id:number}/delete", methods=("GET", "POST"))
    def delete(self, request: PageRequest) -> Response:
        """Delete an endpoint."""
        endpoint = _get(request)
        if request.is_post:
            request.change(DeleteEndpoint(context=request.context, id=endpoint.id))
            return request.redirect(self.path, _("The webhook was deleted."))
        return request.confirm(
            _("Delete this webhook?"),
            [endpoint.url, _("Its deliveries are deleted with it, including those that are waiting.")],
            button=_("Delete it"),
            back=_path(endpoint),
        )

    @page("/{id:number}/deliveries/{delivery:number}")
    def show_delivery(self, request: PageRequest) -> Response:
        """A delivery: its request, response and time."""
        endpoint = _get(request)
        asked = GetDelivery(
            endpoint_id=endpoint.id,
            delivery_id=require_id(request.path_params["delivery"]),
            now=request.now,
        )
        delivery, body = request.ask(_with_tx(partial(queries.get_delivery, query=asked)))
        return request.render(
            "webhooks/delivery.html",
            endpoint=endpoint,
            delivery=delivery,
            states=STATES,
            body=None if body is None else body.decode(),
        )

    @page("/{id:number}/deliveries/{delivery:number}/resend", methods=("POST",))
    def resend(self, request: PageRequest) -> Response:
        """Resend a delivery."""
        endpoint, number = _get(request), require_id(request.path_params["delivery"])
        command = ResendDelivery(context=request.context, endpoint_id=endpoint.id, delivery_id=number)
        request.change(command)
        message = _unless_disabled(endpoint, _("The delivery is being sent again."))
        return request.redirect(f"{_path(endpoint)}/deliveries/{number}", message)


def _unless_disabled(endpoint: Endpoint, message: str) -> str:
    """The message that something is sent; of a disabled webhook, when that will be."""
    if endpoint.disabled_at is None:
        return message
    return _("The webhook is disabled: this is sent once it is enabled.")


class _Read:
    def __init__(self, tx: Any) -> None:
        self.tx = tx


def _with_tx(ask: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda tx: ask(_Read(tx))


def _find_product_name(tx: ReadTransaction, endpoint: Endpoint) -> str | None:
    number = endpoint.product_id
    return None if number is None else names_of(tx, NameKind.PRODUCT, [number]).get(number)


def _get(request: PageRequest) -> Endpoint:
    """The endpoint in the address. Raises ``NotFound``."""
    number = require_id(request.path_params["id"])
    endpoint = request.ask(lambda tx: store.WEBHOOKS.find(tx, number))
    if endpoint is None:
        raise NotFound(f"webhook {number}")
    return endpoint


def _path(endpoint: Endpoint) -> str:
    return f"/webhooks/{endpoint.id}"


def _read_fields(request: PageRequest, inputs: Inputs) -> dict[str, Any]:
    networks = request.site.settings.webhook_networks
    return {
        "url": inputs.require("url", partial(parse_url, allowed=networks), ""),
        "events": inputs.require("events", _parse_events, _NO_EVENTS),
        "description": inputs.read("description", parsing.parse_name),
        "product_id": inputs.read("product_id", number_parser(request, NameKind.PRODUCT)),
        "payload": inputs.require("payload", parse_choice(Payload), Payload.FULL),
    }


def _form_of(request: PageRequest, endpoint: Endpoint) -> dict[str, str]:
    product = request.ask(lambda tx: write_number(tx, NameKind.PRODUCT, endpoint.product_id))
    return {
        "url": endpoint.url,
        "events": "\n".join(endpoint.events),
        "description": endpoint.description or "",
        "product_id": product,
        "payload": endpoint.payload.value,
    }


def _render_form(
    request: PageRequest, inputs: Inputs, values: dict[str, str], endpoint: Endpoint | None
) -> Response:
    return request.render(
        "webhooks/edit.html",
        values=values,
        errors=inputs.errors,
        endpoint=endpoint,
        payloads=PAYLOADS,
        suggestions=request.ask(suggest_names),
    )


def _show_secret(request: PageRequest, made: NewEndpoint) -> Response:
    # Only this response contains the secret: no redirect, cookie or log does.
    return request.render("webhooks/secret.html", endpoint=made.endpoint, secret=made.secret)


def _parse_events(text: str) -> list[str]:
    return rules.normalize_events(text.split())


def _parse_day(text: str, zone: ZoneInfo) -> datetime:
    """The beginning of a day in this time zone. Raises ``ValueError``."""
    try:
        return datetime.combine(date.fromisoformat(text), time.min, zone).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("must be a day") from None


def _parse_position(text: str) -> Position | None:
    if not _POSITION.fullmatch(text):
        return None
    moment, number = text.split("-")
    return int(moment), int(number)
