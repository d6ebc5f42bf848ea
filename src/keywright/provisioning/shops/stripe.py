"""Stripe.

Signatures: https://docs.stripe.com/webhooks#verify-manually. Events:
https://docs.stripe.com/api/events/types. API versions before and since 2025-03-31 are read: there, an invoice
names its subscription in ``parent``, and a charge no longer names its invoice.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import field
from msgspec.structs import replace

from keywright.core.errors import UnreadableEvent
from keywright.provisioning.shops.model import (
    Buyer,
    Change,
    Connection,
    Fact,
    Nothing,
    Renewal,
    Sale,
    SaleLine,
    SaleState,
    ShopEvent,
    StateChange,
    UnreadableOrder,
)
from keywright.provisioning.shops.reading import (
    convert,
    decode,
    from_seconds,
    read_each,
    read_metadata,
    require_header,
    require_timed_signature,
)
from keywright.provisioning.shops.shop_module import ApiAccess, ShopApi

API_URL = "https://api.stripe.com"
#: The most lines of an order that are asked for.
_MAX_LINES = 100
_PAGE = 100
#: The most pages of events that are asked for.
_MAX_PAGES = 500
_STATES = {
    "active": SaleState.ACTIVE,
    "trialing": SaleState.ACTIVE,
    "past_due": SaleState.GRACE,
    "unpaid": SaleState.SUSPENDED,
    "canceled": SaleState.SUSPENDED,
    "paused": SaleState.SUSPENDED,
    "incomplete_expired": SaleState.SUSPENDED,
}


class _Details(msgspec.Struct):
    email: str | None = None
    name: str | None = None


class _Session(msgspec.Struct):
    id: str
    payment_status: str
    mode: str = "payment"
    payment_intent: str | None = None
    invoice: str | None = None
    subscription: str | None = None
    customer_details: _Details | None = None
    customer_email: str | None = None
    locale: str | None = None
    client_reference_id: str | None = None
    metadata: Any = None


class _Price(msgspec.Struct):
    id: str
    product: str | None = None


class _Item(msgspec.Struct):
    id: str
    price: _Price | None = None
    quantity: int | None = 1
    description: str | None = None


class _Items(msgspec.Struct):
    data: list[_Item]
    has_more: bool = False


class _Period(msgspec.Struct):
    end: float


class _LineDetails(msgspec.Struct):
    proration: bool = False


class _LineParent(msgspec.Struct):
    subscription_item_details: _LineDetails | None = None


class _InvoiceLine(msgspec.Struct):
    period: _Period
    proration: bool = False
    parent: _LineParent | None = None

    @property
    def is_proration(self) -> bool:
        details = None if self.parent is None else self.parent.subscription_item_details
        return self.proration or (details is not None and details.proration)


class _InvoiceLines(msgspec.Struct):
    data: list[_InvoiceLine]


class _SubscriptionDetails(msgspec.Struct):
    subscription: str | None = None


class _InvoiceParent(msgspec.Struct):
    subscription_details: _SubscriptionDetails | None = None


class _Invoice(msgspec.Struct):
    id: str
    lines: _InvoiceLines
    subscription: str | None = None
    parent: _InvoiceParent | None = None

    @property
    def of_subscription(self) -> str | None:
        details = None if self.parent is None else self.parent.subscription_details
        return self.subscription or (None if details is None else details.subscription)


class _Subscription(msgspec.Struct):
    id: str
    status: str


class _Charge(msgspec.Struct):
    id: str
    refunded: bool = False
    payment_intent: str | None = None
    invoice: str | None = None


class _OfCharge(msgspec.Struct):
    """A dispute, or a refund."""

    id: str
    status: str | None = None
    charge: str | None = None
    payment_intent: str | None = None


class _InvoicePayment(msgspec.Struct):
    invoice: str


class _InvoicePayments(msgspec.Struct):
    data: list[_InvoicePayment]


class _Object(msgspec.Struct):
    object: dict[str, Any]


class _Event(msgspec.Struct):
    id: str
    type: str
    created: float
    livemode: bool
    contents: _Object = field(name="data")


class _Events(msgspec.Struct):
    found: list[dict[str, Any]] = field(name="data")
    has_more: bool = False


def is_ping(headers: Mapping[str, str], body: bytes) -> bool:
    """Stripe sends none."""
    return False


def verify(headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> None:
    """``Stripe-Signature: t=<seconds>,v1=<hex>[,v1=<hex>]`` over ``<seconds>.<body>``."""
    entries = require_header(headers, "stripe-signature").split(",")
    require_timed_signature(entries, b".", body, secret, now, time="t", signature="v1")


def read(headers: Mapping[str, str], body: bytes, connection: Connection) -> ShopEvent:
    """See ``ShopModule``."""
    return _show(decode(body, _Event))


def find_api(connection: Connection, api_key: str) -> ApiAccess | None:
    """A restricted key that may read Checkout Sessions, invoices and charges is enough."""
    return ApiAccess(connection.url or API_URL, {"Authorization": f"Bearer {api_key}"})


def complete(event: ShopEvent, api: ShopApi) -> ShopEvent:
    """The lines of a session; the invoice that a payment paid."""
    change, lookup = event.change, event.lookup or ""
    if isinstance(change, Sale):
        items = convert(api.get(f"/v1/checkout/sessions/{lookup}/line_items", {"limit": _MAX_LINES}), _Items)
        if items.has_more:
            raise UnreadableEvent(f"the order has more than {_MAX_LINES} lines")
        change = replace(change, lines=change.lines + tuple(map(_line_of, items.data)))
    elif isinstance(change, StateChange):
        question: dict[str, str | int] = {
            "payment[type]": "payment_intent",
            "payment[payment_intent]": lookup,
            "limit": 1,
        }
        payments = convert(api.get("/v1/invoice_payments", question), _InvoicePayments).data
        if payments:
            change = replace(change, order=payments[0].invoice)
    return replace(event, change=change, needs_api=False)


def list_orders(
    api: ShopApi, connection: Connection, since: datetime
) -> Iterator[ShopEvent | UnreadableOrder]:
    """The events that Stripe has kept (30 days), oldest first, as it sent them."""
    events: list[ShopEvent | UnreadableOrder] = []
    after: dict[str, str | int] = {}
    begin = {"created[gte]": int(since.timestamp()), "limit": _PAGE}
    for _ in range(_MAX_PAGES):
        page = convert(api.get("/v1/events", begin | after), _Events)
        needed = [one for one in page.found if one.get("type") in _READERS]
        events += read_each(needed, lambda body: read({}, body, connection))
        if not page.found or not page.has_more:
            break
        after = {"starting_after": convert(page.found[-1].get("id"), str)}
    yield from reversed(events)


def _show(event: _Event) -> ShopEvent:
    read_one = _READERS.get(event.type)
    shown = ShopEvent(
        id=event.id, name=event.type, at=from_seconds(event.created), is_test=not event.livemode
    )
    if read_one is None:
        return replace(shown, change=Nothing("this kind of event is not needed"))
    change, lookup = read_one(event.contents.object)
    return replace(shown, change=change, needs_api=lookup is not None, lookup=lookup)


def _line_of(item: _Item) -> SaleLine:
    price = item.price
    refs = () if price is None else (price.id, *([price.product] if price.product else []))
    quantity = 1 if item.quantity is None else item.quantity
    return SaleLine(item.id, refs, quantity, item.description or "")


def _read_session(found: dict[str, Any]) -> tuple[Change, str | None]:
    session = convert(found, _Session)
    if session.mode == "setup":
        return Nothing("nothing is sold"), None
    if session.payment_status not in ("paid", "no_payment_required"):
        return Nothing("the order is not paid yet"), None
    details = session.customer_details or _Details()
    email = details.email or session.customer_email
    language = None if session.locale in (None, "auto") else session.locale
    sale = Sale(
        # A refund names the payment or, for a subscription, the invoice.
        order=session.invoice or session.payment_intent or session.id,
        buyer=None if email is None else Buyer(email, details.name, language),
        subscription=session.subscription,
        metadata=read_metadata({"client_reference_id": session.client_reference_id})
        | read_metadata(session.metadata),
    )
    return sale, session.id


def _read_async_payment(found: dict[str, Any]) -> tuple[Change, str | None]:
    return _read_session(found | {"payment_status": "paid"})


def _read_invoice(found: dict[str, Any]) -> tuple[Change, str | None]:
    invoice = convert(found, _Invoice)
    subscription = invoice.of_subscription
    ends = [one.period.end for one in invoice.lines.data if not one.is_proration]
    if subscription is None or not ends:
        return Nothing("the invoice is of no subscription"), None
    return Renewal(subscription=subscription, until=from_seconds(max(ends)), order=invoice.id), None


def _read_subscription(found: dict[str, Any]) -> tuple[Change, str | None]:
    subscription = convert(found, _Subscription)
    state = _STATES.get(subscription.status)
    if state is None:
        return Nothing(f"the subscription is {subscription.status[:40]}"), None
    return StateChange(state=state, subscription=subscription.id), None


def _read_end(found: dict[str, Any]) -> tuple[Change, str | None]:
    return StateChange(state=SaleState.ENDED, subscription=convert(found, _Subscription).id), None


def _read_refund(found: dict[str, Any]) -> tuple[Change, str | None]:
    charge = convert(found, _Charge)
    if not charge.refunded:
        return Nothing("a part was refunded"), None
    refunded = StateChange(
        state=SaleState.REFUNDED,
        order=charge.invoice or charge.payment_intent or charge.id,
        fact=Fact.REFUND,
    )
    # The API is asked whether the payment was an invoice's.
    return refunded, None if charge.invoice is not None else charge.payment_intent


def _read_changed_refund(found: dict[str, Any]) -> tuple[Change, str | None]:
    """What was refunded is paid again; a refund of which a part failed is none in full."""
    refund = convert(found, _OfCharge)
    if refund.status not in ("failed", "canceled"):
        return Nothing("the refund has not failed"), None
    return _change_of_payment(SaleState.ACTIVE, Fact.REFUND, refund)


def _read_dispute(found: dict[str, Any]) -> tuple[Change, str | None]:
    dispute = convert(found, _OfCharge)
    status = dispute.status or ""
    if status.startswith("warning"):
        # Nothing was suspended for it, and nothing is restored: many end with a refund.
        return Nothing("an inquiry, no dispute"), None
    states = {"won": SaleState.ACTIVE, "lost": SaleState.REFUNDED}
    return _change_of_payment(states.get(status, SaleState.SUSPENDED), Fact.DISPUTE, dispute)


def _change_of_payment(state: SaleState, fact: Fact, about: _OfCharge) -> tuple[Change, str | None]:
    """The state of the order that was paid; the API is asked whether it was an invoice's."""
    order = about.payment_intent or about.charge or about.id
    return StateChange(state=state, order=order, fact=fact), about.payment_intent


_READERS = {
    "checkout.session.completed": _read_session,
    "checkout.session.async_payment_succeeded": _read_async_payment,
    "invoice.paid": _read_invoice,
    "customer.subscription.updated": _read_subscription,
    "customer.subscription.deleted": _read_end,
    "charge.refunded": _read_refund,
    "charge.refund.updated": _read_changed_refund,
    "refund.failed": _read_changed_refund,
    "charge.dispute.created": _read_dispute,
    # An inquiry that became a dispute.
    "charge.dispute.funds_withdrawn": _read_dispute,
    "charge.dispute.closed": _read_dispute,
}
