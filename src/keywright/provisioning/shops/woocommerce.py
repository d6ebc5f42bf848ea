"""The module for WooCommerce, and WooCommerce Subscriptions.

Webhooks: https://developer.woocommerce.com/docs/apis/rest-api/v3/webhooks/ and the class ``WC_Webhook``.
Orders: https://woocommerce.github.io/woocommerce-rest-api-docs/#order-properties. Subscriptions:
https://woocommerce.github.io/subscriptions-rest-api-docs/. An order does not state that it started a
subscription, but a subscription names its first order: so the order's ID is used for the subscription, too.

Only the body is signed: the topic in the header is used only for a body that contains nothing but an ID.
"""

import base64
import hmac
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import field
from msgspec.structs import replace

from keywright.core.errors import ShopRefused, UnreadableEvent
from keywright.provisioning.shops import model, reading
from keywright.provisioning.shops.shop_module import ApiAccess, ShopApi

#: The states of orders that make licenses, unless the connection has others.
PAID_STATES = ("processing", "completed")
TOPICS = frozenset(
    {
        *("order.created", "order.updated", "order.deleted"),
        *("subscription.created", "subscription.updated", "subscription.switched"),
    }
)
_ORDER_STATES = {
    "cancelled": model.SaleState.SUSPENDED,
    "failed": model.SaleState.SUSPENDED,
    "trash": model.SaleState.SUSPENDED,
    "refunded": model.SaleState.REFUNDED,
}
_SUBSCRIPTION_STATES = {
    "active": model.SaleState.ACTIVE,
    "pending-cancel": model.SaleState.ACTIVE,
    "cancelled": model.SaleState.ENDED,
    "expired": model.SaleState.ENDED,
}
#: The states of a subscription that is over.
_OVER = frozenset({"cancelled", "expired", "switched"})
#: The meta keys with the ID of the subscription: of an order that renews it, and of one that switches it.
_RENEWAL, _SWITCH = "_subscription_renewal", "_subscription_switch"
#: The prefix of the meta keys of a line that replaces another one.
_SWITCHED = "_switched_subscription_"
_PING = re.compile(rb"webhook_id=\d{1,20}")
_PAGE = 100
#: The largest number of pages of orders that are requested.
_MAX_PAGES = 500


class _Billing(msgspec.Struct):
    email: str = ""
    first_name: str = ""
    last_name: str = ""


class _MetaEntry(msgspec.Struct):
    key: str = ""
    value: Any = None


class _Line(msgspec.Struct):
    id: int
    product_id: int
    variation_id: int = 0
    quantity: int | float = 1
    sku: str | None = ""
    name: str | None = ""
    meta_data: list[_MetaEntry] = []

    @property
    def is_switched(self) -> bool:
        return any(one.key.startswith(_SWITCHED) for one in self.meta_data)


class _Status(msgspec.Struct):
    status: str


class _Order(msgspec.Struct):
    id: int
    status: str
    date_modified_gmt: str
    line_items: list[_Line]
    date_created_gmt: str | None = None
    date_paid_gmt: str | None = None
    billing: _Billing = field(default_factory=_Billing)
    meta_data: list[_MetaEntry] = []

    def find_subscription(self, key: str) -> str | None:
        """Return the ID of the subscription that this order renews or switches."""
        values = [str(one.value) for one in self.meta_data if one.key == key]
        return values[0] if values and values[0].isascii() and values[0].isdigit() else None


class _Subscription(msgspec.Struct):
    id: int
    parent_id: int
    status: str
    date_modified_gmt: str
    billing_period: str
    billing_interval: int | str = 1
    line_items: list[_Line] = []
    next_payment_date_gmt: str | None = None
    end_date_gmt: str | None = None


def is_ping(headers: Mapping[str, str], body: bytes) -> bool:
    """Whether this is the unsigned form by which WooCommerce tests an address before it saves the webhook."""
    return "x-wc-webhook-signature" not in headers and _PING.fullmatch(body) is not None


def verify(headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> None:
    """Check ``X-WC-Webhook-Signature: <base64>``, over the body; it contains no time."""
    expected = base64.b64encode(hmac.digest(secret.encode(), body, "sha256")).decode()
    reading.require_signature(expected, [reading.require_header(headers, "x-wc-webhook-signature").strip()])


def read(headers: Mapping[str, str], body: bytes, connection: model.Connection) -> list[model.ShopEvent]:
    """See ``ShopModule``."""
    found = reading.decode(body, dict[str, Any])
    is_test = connection.mode is model.Mode.TEST
    if found.keys() == {"id"}:
        events = [_read_deletion(headers, found["id"], needs_api=connection.has_api_key)]
    elif "billing_period" in found:
        events = [_read_subscription(reading.convert(found, _Subscription))]
    elif "line_items" in found:
        events = _read_order(reading.convert(found, _Order), connection)
    else:
        raise UnreadableEvent("the body is neither an order nor a subscription")
    return [replace(one, is_test=is_test) for one in events]


def find_api(connection: model.Connection, api_key: str) -> ApiAccess | None:
    """Return the access to the API of the site; the key is ``ck_…:cs_…``, with the permission to read."""
    if connection.url is None:
        return None
    credentials = base64.b64encode(api_key.encode()).decode()
    return ApiAccess(connection.url, {"Authorization": f"Basic {credentials}"})


def complete(event: model.ShopEvent, api: ShopApi) -> model.ShopEvent:
    """Add the first order of the subscription that an order renews or switches, and the end of the paid time;
    or the lines of a subscription; or check whether an order is really deleted.
    """
    if isinstance(event.change, model.StateChange) and event.change.order is not None:
        is_gone = _is_gone(api, event.change.order)
        change: model.Change = event.change if is_gone else model.Nothing("the order still exists")
        return replace(event, change=change, needs_api=False)
    found = reading.convert(api.get(f"/wp-json/wc/v3/subscriptions/{event.lookup}"), _Subscription)
    first_order, until = str(found.parent_id), found.next_payment_date_gmt or found.end_date_gmt
    change = event.change
    if isinstance(change, model.StateChange):
        change = replace(change, subscription=first_order)
    elif isinstance(change, model.Lines):
        change = replace(change, lines=tuple(map(_line_of, found.line_items)), is_asked=True)
    elif isinstance(change, model.Renewal) and change.is_change:
        change = replace(change, subscription=first_order)
    elif isinstance(change, model.Renewal) and until and change.until is not None:
        # Until now, ``until`` is the time at which the order was paid.
        end = reading.period_end(
            reading.from_text(until), change.until, found.billing_period, found.billing_interval
        )
        change = replace(change, subscription=first_order, until=end)
    elif isinstance(change, model.Renewal):
        change = model.Nothing("the subscription has no end")
    return replace(event, change=change, needs_api=False)


def _is_gone(api: ShopApi, order: str) -> bool:
    """Whether the order does not exist in the shop, or is in its trash."""
    try:
        return reading.convert(api.get(f"/wp-json/wc/v3/orders/{order}"), _Status).status == "trash"
    except ShopRefused as refused:
        if not refused.reason.startswith("404 "):
            raise
        return True


def list_orders(
    api: ShopApi, connection: model.Connection, since: datetime
) -> Iterator[model.ShopEvent | model.UnreadableOrder]:
    """Yield the orders, then the subscriptions, that changed since then, each in the order of their IDs.

    WooCommerce sends an event only once: this finds the lost ones.
    """
    yield from reading.read_each(_list(api, "orders", _since(since)), lambda body: read({}, body, connection))
    try:
        yield from reading.read_each(
            _list(api, "subscriptions", _since(since)), lambda body: read({}, body, connection)
        )
    except ShopRefused:
        # Without WooCommerce Subscriptions, this path does not exist.
        return


def _since(moment: datetime) -> dict[str, str | int]:
    return {"modified_after": f"{moment:%Y-%m-%dT%H:%M:%S}", "dates_are_gmt": "true"}


def _list(api: ShopApi, what: str, which: dict[str, str | int]) -> Iterator[dict[str, Any]]:
    # In the order of IDs, changes in the shop do not move items out of the following pages.
    question: dict[str, str | int] = which | {"orderby": "id", "order": "asc", "per_page": _PAGE}
    for number in range(1, _MAX_PAGES + 1):
        page = reading.convert(
            api.get(f"/wp-json/wc/v3/{what}", question | {"page": number}), list[dict[str, Any]]
        )
        if not page:
            # A site may return shorter pages than requested: only an empty one is the last.
            return
        yield from page


def _read_deletion(headers: Mapping[str, str], number: object, *, needs_api: bool) -> model.ShopEvent:
    """Read a deletion. The topic is not signed, and users have IDs, too, so the shop is asked with an API key
    whether the order is gone. An order can be moved to the trash, restored, and moved again: the ID of the
    delivery distinguishes these events.
    """
    topic, order = headers.get("x-wc-webhook-topic", ""), str(reading.convert(number, int))
    is_order = topic == "order.deleted"
    change = (
        model.StateChange(state=model.SaleState.SUSPENDED, order=order)
        if is_order
        else model.Nothing("no order")
    )
    delivery = headers.get("x-wc-webhook-delivery-id", "")[:64]
    event_id = "/".join(filter(None, ("deleted", order, delivery)))
    name, needs_api = topic[:60] or "deleted", needs_api and is_order
    return model.ShopEvent(id=event_id, name=name, at=None, change=change, needs_api=needs_api)


def _read_order(order: _Order, connection: model.Connection) -> list[model.ShopEvent]:
    number = str(order.id)
    event = model.ShopEvent(
        id=f"orders/{number}/{order.status}/{order.date_modified_gmt}",
        name=f"order {order.status}"[:60],
        at=reading.from_text(order.date_modified_gmt),
    )
    is_paid = order.status in (connection.paid_states or PAID_STATES)
    switched, renewed = (order.find_subscription(one) for one in (_SWITCH, _RENEWAL))
    if renewed is not None and (is_paid or order.status == "failed"):
        return [_read_renewal(event, order, renewed, connection, is_paid=is_paid)]
    if switched is not None and is_paid:
        return _read_switch(event, order, switched)
    change: model.Change = model.Nothing(f"the order is {order.status[:40]}")
    if is_paid:
        lines = tuple(map(_line_of, order.line_items))
        change = model.Sale(
            order=number,
            lines=lines,
            buyer=_buyer_of(order),
            subscription=number,
            metadata=_metadata_of(order),
        )
    elif order.status in _ORDER_STATES:
        change = model.StateChange(state=_ORDER_STATES[order.status], order=number)
    return [replace(event, change=change)]


def _read_renewal(
    event: model.ShopEvent, order: _Order, subscription: str, connection: model.Connection, *, is_paid: bool
) -> model.ShopEvent:
    if not connection.has_api_key:
        # The subscription's webhook states the end.
        return replace(event, change=model.Nothing("the API key of the shop is missing"))
    paid_at = order.date_paid_gmt or order.date_created_gmt or order.date_modified_gmt
    lines = tuple(map(_line_of, order.line_items))
    change: model.Change = model.StateChange(state=model.SaleState.GRACE, subscription=subscription)
    if is_paid:
        change = model.Renewal(
            subscription=subscription, until=reading.from_text(paid_at), order=str(order.id), lines=lines
        )
    return replace(event, change=change, needs_api=True, lookup=subscription)


def _read_switch(event: model.ShopEvent, order: _Order, subscription: str) -> list[model.ShopEvent]:
    """Read an order that switches a subscription. It sells nothing: the subscription, or the one that
    continues it, lists the lines. Other lines of the order are a sale.
    """
    number = str(order.id)
    change = model.Renewal(subscription=subscription, until=None, order=number, is_change=True)
    switched = [one for one in order.line_items if one.is_switched]
    others = [one for one in order.line_items if not one.is_switched] if switched else []
    events = [replace(event, change=change, needs_api=True, lookup=subscription)]
    if others:
        lines = tuple(map(_line_of, others))
        sale = model.Sale(
            order=f"{number}/sold", lines=lines, buyer=_buyer_of(order), metadata=_metadata_of(order)
        )
        events.append(replace(event, id=f"{event.id}/sold", change=sale))
    return events


def _metadata_of(order: _Order) -> dict[str, Any]:
    return reading.read_metadata({one.key: one.value for one in order.meta_data})


def _line_of(line: _Line) -> model.SaleLine:
    if line.quantity != int(line.quantity):
        raise UnreadableEvent("a quantity is not a whole number")
    refs = [str(one) for one in (line.variation_id, line.product_id) if one]
    refs += [line.sku] if line.sku else []
    found = reading.read_metadata({one.key: one.value for one in line.meta_data}).get("license_ref")
    return model.SaleLine(
        str(line.id),
        tuple(refs),
        int(line.quantity),
        line.name or "",
        license_ref=None if found is None else str(found),
    )


def _buyer_of(order: _Order) -> model.Buyer | None:
    billing = order.billing
    name = f"{billing.first_name} {billing.last_name}".strip()
    return model.Buyer(billing.email, name or None) if billing.email else None


def _read_subscription(found: _Subscription) -> model.ShopEvent:
    first_order, state = str(found.parent_id), _SUBSCRIPTION_STATES.get(found.status)
    change: model.Change = model.Nothing(f"the subscription is {found.status[:40]}")
    lines, until = tuple(map(_line_of, found.line_items)), found.next_payment_date_gmt
    listed = model.Lines(subscription=first_order, lines=lines, part=str(found.id), state=state)
    if found.parent_id == 0:
        change = model.Nothing("the subscription has no order")
    elif found.status == "active" and until:
        change = replace(listed, state=None, until=reading.from_text(until))
    elif not lines and found.status in _OVER:
        # It was switched: another subscription has its lines.
        change = replace(listed, state=None)
    elif state is not None:
        change = listed
    return model.ShopEvent(
        id=f"subscriptions/{found.id}/{found.status}/{found.date_modified_gmt}",
        name=f"subscription {found.status}"[:60],
        at=reading.from_text(found.date_modified_gmt),
        change=change,
        lookup=str(found.id),
    )


def list_running(api: ShopApi, connection: model.Connection) -> Iterator[model.ShopEvent]:
    """Yield running subscriptions; none without WooCommerce Subscriptions."""
    try:
        for one in _list(api, "subscriptions", {"status": "active"}):
            found = _read_subscription(reading.convert(one, _Subscription))
            yield replace(found, is_test=connection.mode is model.Mode.TEST)
    except ShopRefused:
        return


def list_topics(api: ShopApi, connection: model.Connection) -> frozenset[str] | None:
    """Return the active topics. Without WooCommerce Subscriptions, its topics are not missing."""
    found = reading.convert(api.get("/wp-json/wc/v3/webhooks", {"per_page": _PAGE}), list[dict[str, Any]])
    own = [one for one in found if reading.sends_here(one.get("delivery_url"), connection)]
    topics = {str(one.get("topic")) for one in own if one.get("status") == "active"}
    try:
        api.get("/wp-json/wc/v3/subscriptions", {"per_page": _PAGE, "page": 1})
    except ShopRefused:
        topics |= {one for one in TOPICS if one.startswith("subscription.")}
    return frozenset(topics)
