"""The module for Paddle Billing.

Signatures: https://developer.paddle.com/webhooks/signature-verification. Events:
https://developer.paddle.com/webhooks. An event has the customer's ID, but no e-mail address: the API is
asked.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import field
from msgspec.structs import replace

from keywright.provisioning.shops import model, reading
from keywright.provisioning.shops.shop_module import ApiAccess, ShopApi

API_URL = "https://api.paddle.com"
#: A sandbox is a separate account; its events do not state that they are from one.
SANDBOX_URL = "https://sandbox-api.paddle.com"
#: The prefix of the IDs of events from Paddle's simulator.
_SIMULATED = "ntfsimevt_"
_PAGE = 200
#: The largest number of pages of events that are requested.
_MAX_PAGES = 500
_STATES = {
    "active": model.SaleState.ACTIVE,
    "trialing": model.SaleState.ACTIVE,
    "past_due": model.SaleState.GRACE,
    "paused": model.SaleState.SUSPENDED,
    "canceled": model.SaleState.ENDED,
}
_SUBSCRIPTION_KINDS = frozenset(
    f"subscription.{happened}"
    for happened in "created activated canceled past_due paused resumed trialing updated".split()
)
TOPICS = (_SUBSCRIPTION_KINDS - {"subscription.created", "subscription.trialing"}) | {
    *("transaction.completed", "adjustment.created", "adjustment.updated"),
}
#: The origins of a transaction that pays for a subscription's next period, and for a change of it.
_RENEWS, _CHANGES = "subscription_recurring", "subscription_update"


class _Period(msgspec.Struct):
    ends_at: str


class _Product(msgspec.Struct):
    id: str | None = None
    name: str | None = None


class _Line(msgspec.Struct):
    id: str
    price_id: str | None
    quantity: int
    product: _Product | None = None


class _Details(msgspec.Struct):
    line_items: list[_Line]


class _Price(msgspec.Struct):
    #: None for a price that was made for this transaction only.
    id: str | None
    product_id: str | None = None
    billing_cycle: dict[str, Any] | None = None


class _Item(msgspec.Struct):
    """A line of a transaction, or of a subscription; it has no ID."""

    price: _Price
    quantity: int = 1
    status: str = "active"
    recurring: bool = True
    product: _Product | None = None


class _Transaction(msgspec.Struct):
    id: str
    details: _Details
    items: list[_Item] = []
    origin: str = "web"
    customer_id: str | None = None
    subscription_id: str | None = None
    billing_period: _Period | None = None
    custom_data: Any = None


class _Subscription(msgspec.Struct):
    id: str
    status: str
    items: list[_Item] = []


class _SubscriptionAnswer(msgspec.Struct):
    subscription: _Subscription = field(name="data")


class _Adjustment(msgspec.Struct):
    action: str
    status: str
    transaction_id: str
    #: None until the adjustment is approved.
    type: str | None = None


class _Customer(msgspec.Struct):
    email: str
    name: str | None = None
    locale: str | None = None


class _CustomerAnswer(msgspec.Struct):
    customer: _Customer = field(name="data")


class _Event(msgspec.Struct):
    id: str = field(name="event_id")
    type: str = field(name="event_type")
    occurred_at: str
    entity: dict[str, Any] = field(name="data")


class _Pagination(msgspec.Struct):
    has_more: bool = False


class _Meta(msgspec.Struct):
    pagination: _Pagination


class _Listed(msgspec.Struct):
    found: list[dict[str, Any]] = field(name="data")


class _Events(_Listed):
    meta: _Meta


def is_ping(headers: Mapping[str, str], body: bytes) -> bool:
    """Return False: Paddle sends no pings, and its simulator signs its events."""
    return False


def verify(headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> None:
    """Check ``Paddle-Signature: ts=<seconds>;h1=<hex>[;h1=<hex>]``, over ``<seconds>:<body>``."""
    entries = reading.require_header(headers, "paddle-signature").split(";")
    reading.require_timed_signature(entries, b":", body, secret, now, time="ts", signature="h1")


def read(headers: Mapping[str, str], body: bytes, connection: model.Connection) -> list[model.ShopEvent]:
    """See ``ShopModule``."""
    event = reading.decode(body, _Event)
    shown = model.ShopEvent(
        id=event.id,
        name=event.type,
        at=reading.from_text(event.occurred_at),
        is_test=connection.mode is model.Mode.TEST or event.id.startswith(_SIMULATED),
    )
    if event.type == "transaction.completed":
        return [_read_transaction(shown, reading.convert(event.entity, _Transaction))]
    if event.type in _SUBSCRIPTION_KINDS:
        return [replace(shown, change=_read_subscription(reading.convert(event.entity, _Subscription)))]
    if event.type in ("adjustment.created", "adjustment.updated"):
        return [replace(shown, change=_read_adjustment(reading.convert(event.entity, _Adjustment)))]
    return [replace(shown, change=model.Nothing("events of this kind are not needed"))]


def find_api(connection: model.Connection, api_key: str) -> ApiAccess | None:
    """Return the access to the API. The key needs to read customers, subscriptions and notifications."""
    usual = SANDBOX_URL if connection.mode is model.Mode.TEST else API_URL
    return ApiAccess(connection.url or usual, {"Authorization": f"Bearer {api_key}", "Paddle-Version": "1"})


def complete(event: model.ShopEvent, api: ShopApi) -> model.ShopEvent:
    """Add the buyer of a transaction, or the items of a subscription."""
    if isinstance(event.change, model.Lines):
        answer = reading.convert(api.get(f"/subscriptions/{event.change.subscription}"), _SubscriptionAnswer)
        lines = _lines_of(answer.subscription)
        return replace(event, change=replace(event.change, lines=lines, is_asked=True), needs_api=False)
    if isinstance(event.change, model.Sale):
        customer = reading.convert(api.get(f"/customers/{event.lookup}"), _CustomerAnswer).customer
        buyer = model.Buyer(customer.email, customer.name, customer.locale)
        event = replace(event, change=replace(event.change, buyer=buyer))
    return replace(event, needs_api=False)


def list_orders(
    api: ShopApi, connection: model.Connection, since: datetime
) -> Iterator[model.ShopEvent | model.UnreadableOrder]:
    """Yield the events that Paddle keeps (90 days), oldest first, as it sent them."""
    events: list[model.ShopEvent | model.UnreadableOrder] = []
    after: dict[str, str | int] = {}
    for _ in range(_MAX_PAGES):
        question: dict[str, str | int] = {"per_page": _PAGE, "order_by": "id[DESC]"}
        answer = reading.convert(api.get("/events", question | after), _Events)
        recent = [one for one in answer.found if not reading.is_before(one, "occurred_at", since)]
        events += reading.read_each(recent, lambda body: read({}, body, connection))
        if not recent or len(recent) < len(answer.found) or not answer.meta.pagination.has_more:
            break
        after = {"after": reading.convert(answer.found[-1].get("event_id"), str)}
    for one in reversed(events):
        if isinstance(one, model.UnreadableOrder) or not isinstance(one.change, model.Nothing):
            yield one


def _read_transaction(shown: model.ShopEvent, paid: _Transaction) -> model.ShopEvent:
    until = None if paid.billing_period is None else reading.from_text(paid.billing_period.ends_at)
    lines = tuple(_line_of(one, paid.items) for one in paid.details.line_items)
    if paid.subscription_id is not None and paid.origin in (_RENEWS, _CHANGES):
        renewal = model.Renewal(subscription=paid.subscription_id, until=until, order=paid.id)
        is_change = paid.origin == _CHANGES
        return replace(shown, change=replace(renewal, lines=() if is_change else lines, is_change=is_change))
    if paid.origin == "subscription_payment_method_change":
        return replace(shown, change=model.Nothing("another card"))
    sale = model.Sale(
        order=paid.id,
        lines=lines,
        subscription=paid.subscription_id,
        until=until,
        metadata=reading.read_metadata(paid.custom_data),
    )
    return replace(shown, change=sale, needs_api=paid.customer_id is not None, lookup=paid.customer_id)


def _line_of(line: _Line, items: Collection[_Item]) -> model.SaleLine:
    product = line.product or _Product()
    refs = tuple(one for one in (line.price_id, product.id) if one)
    prices = (one.price for one in items if one.price.id == line.price_id)
    recurs = next((one.billing_cycle is not None for one in prices), None)
    return model.SaleLine(line.id, refs, line.quantity, product.name or "", recurs)


def _lines_of(subscription: _Subscription) -> tuple[model.SaleLine, ...]:
    """Return the recurring items, which are identified by their prices."""
    found = (one for one in subscription.items if one.recurring and one.status != "inactive")
    return tuple(
        model.SaleLine(
            one.price.id or "",
            tuple(ref for ref in (one.price.id, one.price.product_id) if ref),
            one.quantity,
            (one.product or _Product()).name or "",
        )
        for one in found
    )


def _read_subscription(subscription: _Subscription) -> model.Change:
    """Read a subscription as it is: a scheduled change is not in force yet."""
    state = _STATES.get(subscription.status)
    if state is None:
        return model.Nothing(f"the subscription is {subscription.status[:40]}")
    if not subscription.items:
        return model.StateChange(state=state, subscription=subscription.id)
    return model.Lines(subscription=subscription.id, lines=_lines_of(subscription), state=state)


def _read_adjustment(adjustment: _Adjustment) -> model.Change:
    """Read a refund or a chargeback; either another adjustment or a new state reverses a chargeback."""
    states = {
        ("approved", "refund"): model.SaleState.REFUNDED,
        ("approved", "chargeback"): model.SaleState.SUSPENDED,
        ("approved", "chargeback_reverse"): model.SaleState.ACTIVE,
        ("reversed", "chargeback"): model.SaleState.ACTIVE,
    }
    state = states.get((adjustment.status, adjustment.action))
    if state is None or (adjustment.status == "approved" and adjustment.type != "full"):
        return model.Nothing("partial, a credit, or not approved")
    fact = model.Fact.REFUND if adjustment.action == "refund" else model.Fact.DISPUTE
    return model.StateChange(state=state, order=adjustment.transaction_id, fact=fact)


def list_running(api: ShopApi, connection: model.Connection) -> Iterator[model.ShopEvent]:
    """See ``ShopModule``."""

    def ask(question: dict[str, str | int]) -> list[dict[str, Any]]:
        return reading.convert(api.get("/subscriptions", question), _Listed).found

    question: dict[str, str | int] = {"status": "active,trialing,past_due", "per_page": _PAGE}
    for one in reading.pages(ask, question, "after", _PAGE):
        found = reading.convert(one, _Subscription)
        yield model.ShopEvent(
            id=found.id,
            name="subscription",
            at=reading.from_text(reading.convert(one.get("updated_at"), str)),
            is_test=connection.mode is model.Mode.TEST,
            change=_read_subscription(found),
        )


def list_topics(api: ShopApi, connection: model.Connection) -> frozenset[str] | None:
    """See ``ShopModule``."""
    found = reading.convert(api.get("/notification-settings", {"per_page": _PAGE}), _Listed).found
    own = [
        one for one in found if reading.sends_here(one.get("destination"), connection) and one.get("active")
    ]
    names = (
        topic.get("name") for one in own for topic in reading.convert(one.get("subscribed_events"), list[Any])
    )
    return frozenset(map(str, names))
