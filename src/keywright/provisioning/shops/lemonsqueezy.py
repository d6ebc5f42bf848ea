"""The module for Lemon Squeezy.

Signatures: https://docs.lemonsqueezy.com/help/webhooks/signing-requests. Events:
https://docs.lemonsqueezy.com/help/webhooks/event-types. An order does not state that it started a
subscription, but a subscription names its order: so the order's ID is used for the subscription, too.
"""

import hmac
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec
from msgspec import field
from msgspec.structs import replace

from keywright.core.errors import ShopRefused
from keywright.provisioning.shops import model, reading
from keywright.provisioning.shops.shop_module import ApiAccess, ShopApi

API_URL = "https://api.lemonsqueezy.com"
TOPICS = frozenset(
    {
        *("order_created", "order_refunded", "subscription_created", "subscription_updated"),
        *("subscription_expired", "subscription_paused", "subscription_unpaused", "subscription_resumed"),
        *("subscription_payment_success", "subscription_payment_refunded"),
    }
)
_PAGE = 100
#: The largest number of pages of orders that are requested.
_MAX_PAGES = 500
_PAID = frozenset({"paid", "partial_refund"})
_STATES = {
    "active": model.SaleState.ACTIVE,
    "on_trial": model.SaleState.ACTIVE,
    "past_due": model.SaleState.GRACE,
    "unpaid": model.SaleState.SUSPENDED,
    "paused": model.SaleState.SUSPENDED,
    "expired": model.SaleState.ENDED,
}
#: The states in which a subscription is paid until ``renews_at``.
_RUNNING = frozenset({"active", "on_trial"})


class _Item(msgspec.Struct):
    id: int
    product_id: int
    variant_id: int
    price_id: int | None = None
    quantity: int = 1
    product_name: str | None = None


class _Order(msgspec.Struct):
    status: str
    created_at: str
    user_email: str | None = None
    user_name: str | None = None
    refunded_at: str | None = None
    first_order_item: _Item | None = None


class _SubscriptionItem(msgspec.Struct):
    price_id: int
    id: int = 0
    quantity: int = 1
    is_usage_based: bool = False
    updated_at: str | None = None


class _Subscription(msgspec.Struct):
    order_id: int
    status: str
    updated_at: str
    product_id: int | None = None
    variant_id: int | None = None
    product_name: str | None = None
    renews_at: str | None = None
    ends_at: str | None = None
    first_subscription_item: _SubscriptionItem | None = None


class _Invoice(msgspec.Struct):
    subscription_id: int
    billing_reason: str
    status: str
    updated_at: str
    created_at: str | None = None


class _Entity(msgspec.Struct):
    type: str
    id: str
    attributes: dict[str, Any]

    @property
    def is_test(self) -> bool:
        return self.attributes.get("test_mode") is True


class _Meta(msgspec.Struct):
    event_name: str
    test_mode: bool = False
    custom_data: Any = None


class _Event(msgspec.Struct):
    meta: _Meta
    entity: _Entity = field(name="data")


class _Page(msgspec.Struct):
    current: int = field(name="currentPage")
    last: int = field(name="lastPage")


class _PageMeta(msgspec.Struct):
    page: _Page


class _Orders(msgspec.Struct):
    meta: _PageMeta
    orders: list[dict[str, Any]] = field(name="data")


class _SubscriptionEntity(msgspec.Struct):
    attributes: _Subscription


class _SubscriptionAnswer(msgspec.Struct):
    entity: _SubscriptionEntity = field(name="data")


class _Price(msgspec.Struct):
    renewal_interval_unit: str | None = None
    renewal_interval_quantity: int | None = None


class _PriceEntity(msgspec.Struct):
    attributes: _Price


class _PriceAnswer(msgspec.Struct):
    entity: _PriceEntity = field(name="data")


def is_ping(headers: Mapping[str, str], body: bytes) -> bool:
    """Return False: Lemon Squeezy sends no pings."""
    return False


def verify(headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> None:
    """Check ``X-Signature: <hex>``, over the body; it contains no time."""
    expected = hmac.digest(secret.encode(), body, "sha256").hex()
    reading.require_signature(expected, [reading.require_header(headers, "x-signature").strip()])


def read(headers: Mapping[str, str], body: bytes, connection: model.Connection) -> list[model.ShopEvent]:
    """See ``ShopModule``. The event's name in the body is used: the one in the header is not signed."""
    event = reading.decode(body, _Event)
    name, entity = event.meta.event_name, event.entity
    is_test = event.meta.test_mode or entity.is_test
    if entity.type == "orders" and name.startswith("order_"):
        metadata = reading.read_metadata(event.meta.custom_data)
        return [replace(_read_order(name, entity, metadata), is_test=is_test)]
    if entity.type == "subscriptions":
        return [replace(_read_subscription(name, entity), is_test=is_test)]
    if entity.type == "subscription-invoices":
        return [replace(_read_invoice(name, entity, connection), is_test=is_test)]
    return [replace(_other(name, entity), is_test=is_test)]


def find_api(connection: model.Connection, api_key: str) -> ApiAccess | None:
    """Return the access to the API. Keys have no scopes; a test mode key reads only test mode sales."""
    headers = {"Authorization": f"Bearer {api_key}", "Accept": "application/vnd.api+json"}
    return ApiAccess(connection.url or API_URL, headers)


def complete(event: model.ShopEvent, api: ShopApi) -> model.ShopEvent:
    """Add the order that started an invoice's subscription, and its paid time; or a subscription's lines."""
    answer = reading.convert(api.get(f"/v1/subscriptions/{event.lookup}"), _SubscriptionAnswer)
    subscription, change = answer.entity.attributes, event.change
    order = str(subscription.order_id)
    if isinstance(change, model.StateChange):
        change = replace(change, order=order)
    elif isinstance(change, model.Lines):
        change = replace(change, lines=_lines_of(subscription), is_asked=True)
    elif isinstance(change, model.Renewal):
        change = _with_end(change, subscription, api)
    return replace(event, change=change, needs_api=False)


def _with_end(renewal: model.Renewal, subscription: _Subscription, api: ShopApi) -> model.Change:
    """Set ``until`` to the end of the period that the invoice paid; before, it is the time of the invoice."""
    item, next_at = subscription.first_subscription_item, subscription.renews_at or subscription.ends_at
    if renewal.until is None:
        return replace(renewal, subscription=str(subscription.order_id))
    if next_at is None:
        return model.Nothing("the subscription does not continue")
    price = _Price()
    # If the price cannot be read, the current period is used.
    with suppress(ShopRefused):
        if item is not None:
            price = reading.convert(api.get(f"/v1/prices/{item.price_id}"), _PriceAnswer).entity.attributes
    unit, amount = price.renewal_interval_unit, price.renewal_interval_quantity or 0
    end = reading.period_end(reading.from_text(next_at), renewal.until, unit, amount)
    return replace(renewal, subscription=str(subscription.order_id), until=end)


def list_orders(
    api: ShopApi, connection: model.Connection, since: datetime
) -> Iterator[model.ShopEvent | model.UnreadableOrder]:
    """Yield the orders made since then, oldest first; the API lists the newest first."""
    events: list[model.ShopEvent | model.UnreadableOrder] = []
    for number in range(1, _MAX_PAGES + 1):
        answer = reading.convert(
            api.get("/v1/orders", {"page[number]": number, "page[size]": _PAGE}), _Orders
        )
        recent = [one for one in answer.orders if not _is_before(one, since)]
        # In the form of the webhook of a new order.
        bodies = ({"meta": {"event_name": "order_created"}, "data": one} for one in recent)
        events += reading.read_each(bodies, lambda body: read({}, body, connection))
        if len(recent) < len(answer.orders) or answer.meta.page.current >= answer.meta.page.last:
            break
    yield from reversed(events)


def _is_before(order: Mapping[str, Any], since: datetime) -> bool:
    attributes = order.get("attributes")
    return isinstance(attributes, dict) and reading.is_before(attributes, "created_at", since)


def _other(name: str, entity: _Entity) -> model.ShopEvent:
    at = entity.attributes.get("updated_at")
    moment = reading.from_text(at if isinstance(at, str) else "")
    return model.ShopEvent(
        id=f"{name}/{entity.id}/{moment.isoformat()}",
        name=name,
        at=moment,
        change=model.Nothing("events of this kind are not needed"),
    )


def _read_order(name: str, entity: _Entity, metadata: Mapping[str, Any]) -> model.ShopEvent:
    order = reading.convert(entity.attributes, _Order)
    at = order.refunded_at if order.status == "refunded" and order.refunded_at else order.created_at
    change: model.Change = model.Nothing(f"the order is {order.status[:40]}")
    if order.status in _PAID:
        buyer = None if order.user_email is None else model.Buyer(order.user_email, order.user_name)
        lines = () if order.first_order_item is None else (_line_of(order.first_order_item),)
        change = model.Sale(
            order=entity.id, lines=lines, buyer=buyer, subscription=entity.id, metadata=metadata
        )
    elif order.status == "refunded":
        change = model.StateChange(state=model.SaleState.REFUNDED, order=entity.id, fact=model.Fact.REFUND)
    elif order.status == "fraudulent":
        change = model.StateChange(state=model.SaleState.SUSPENDED, order=entity.id)
    # The list of orders has no event names: the order's state distinguishes the events.
    return model.ShopEvent(
        id=f"orders/{entity.id}/{order.status}/{at}", name=name, at=reading.from_text(at), change=change
    )


def _line_of(item: _Item) -> model.SaleLine:
    numbers = [item.variant_id, item.product_id] if item.price_id is None else [
        item.price_id, item.variant_id, item.product_id
    ]  # fmt: skip
    return model.SaleLine(str(item.id), tuple(map(str, numbers)), item.quantity, item.product_name or "")


def _read_subscription(name: str, entity: _Entity) -> model.ShopEvent:
    subscription = reading.convert(entity.attributes, _Subscription)
    order, state = str(subscription.order_id), _STATES.get(subscription.status)
    change: model.Change = model.Nothing(f"the subscription is {subscription.status[:40]}")
    lines, part = _lines_of(subscription), entity.id
    if subscription.status in _RUNNING and subscription.renews_at:
        until = reading.from_text(subscription.renews_at)
        change = model.Lines(subscription=order, lines=lines, part=part, until=until)
        change = change if lines else model.Renewal(subscription=order, until=until)
    elif state is not None and lines:
        change = model.Lines(subscription=order, lines=lines, part=part, state=state)
    elif state is not None:
        change = model.StateChange(state=state, subscription=order)
    # A new quantity changes only the item's time.
    item = subscription.first_subscription_item
    times = [subscription.updated_at, *([item.updated_at] if item is not None and item.updated_at else [])]
    at, newest = max((reading.from_text(one), one) for one in times)
    return model.ShopEvent(
        id=f"{name}/{entity.id}/{subscription.status}/{newest}",
        name=name,
        at=at,
        change=change,
        lookup=entity.id,
    )


def _lines_of(subscription: _Subscription) -> tuple[model.SaleLine, ...]:
    item = subscription.first_subscription_item
    if item is None:
        return ()
    refs = (item.price_id, subscription.variant_id, subscription.product_id)
    quantity = 1 if item.is_usage_based else item.quantity
    found = tuple(str(one) for one in refs if one is not None)
    return (model.SaleLine(str(item.id), found, quantity, subscription.product_name or ""),)


def _read_invoice(name: str, entity: _Entity, connection: model.Connection) -> model.ShopEvent:
    """Read an invoice. It states neither the order nor the end of the period, so the API is asked. Without a
    key, the event *subscription_updated* that comes with each payment states both.
    """
    invoice = reading.convert(entity.attributes, _Invoice)
    at = reading.from_text(invoice.updated_at)
    paid, subscription = f"invoices/{entity.id}", str(invoice.subscription_id)
    change: model.Change = model.Nothing("events of this kind are not needed")
    lookup = None
    if name == "subscription_payment_success" and invoice.billing_reason != "initial":
        # The payment for a change pays for no period.
        is_period = invoice.billing_reason != "updated"
        made_at = reading.from_text(invoice.created_at or invoice.updated_at) if is_period else None
        change, lookup = model.Renewal(subscription=subscription, until=made_at, order=paid), subscription
    elif name == "subscription_payment_refunded" and invoice.status == "refunded":
        change = model.StateChange(state=model.SaleState.REFUNDED, order=paid, fact=model.Fact.REFUND)
        lookup = subscription if invoice.billing_reason == "initial" else None
    if lookup is not None and not connection.has_api_key:
        change, lookup = model.Nothing("the API key of the shop is missing"), None
    return model.ShopEvent(
        id=f"{name}/{entity.id}/{invoice.updated_at}",
        name=name,
        at=at,
        change=change,
        needs_api=lookup is not None,
        lookup=lookup,
    )


def list_running(api: ShopApi, connection: model.Connection) -> Iterator[model.ShopEvent]:
    """See ``ShopModule``."""
    for number in range(1, _MAX_PAGES + 1):
        question: dict[str, str | int] = {"page[number]": number, "page[size]": _PAGE}
        answer = reading.convert(
            api.get("/v1/subscriptions", question | {"filter[status]": "active"}), _Orders
        )
        for one in answer.orders:
            entity = reading.convert(one, _Entity)
            yield replace(_read_subscription("subscription", entity), is_test=entity.is_test)
        if answer.meta.page.current >= answer.meta.page.last:
            return


def list_topics(api: ShopApi, connection: model.Connection) -> frozenset[str] | None:
    """See ``ShopModule``."""
    answer = reading.convert(api.get("/v1/webhooks", {"page[size]": _PAGE}), _Orders)
    found = [reading.convert(one, _Entity).attributes for one in answer.orders]
    own = [one for one in found if reading.sends_here(one.get("url"), connection)]
    return frozenset(topic for one in own for topic in reading.convert(one.get("events"), list[str]))
