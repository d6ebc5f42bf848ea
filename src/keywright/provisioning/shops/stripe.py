"""The module for Stripe.

Signatures: https://docs.stripe.com/webhooks#verify-manually. Events:
https://docs.stripe.com/api/events/types. It reads API versions before and since 2025-03-31: since then, an
invoice names its subscription in ``parent``, and a charge no longer names its invoice.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from keywright.core.errors import UnreadableEvent
from keywright.provisioning.shops import model, reading, stripe_objects
from keywright.provisioning.shops.shop_module import ApiAccess, ShopApi

API_URL = "https://api.stripe.com"
#: The largest number of lines of an order that are requested.
_MAX_LINES = 100
_PAGE = 100
#: The largest number of pages of events that are requested.
_MAX_PAGES = 500
_STATES = {
    "active": model.SaleState.ACTIVE,
    "trialing": model.SaleState.ACTIVE,
    "past_due": model.SaleState.GRACE,
    "unpaid": model.SaleState.SUSPENDED,
    "canceled": model.SaleState.ENDED,
    "paused": model.SaleState.SUSPENDED,
    "incomplete_expired": model.SaleState.SUSPENDED,
}


def is_ping(headers: Mapping[str, str], body: bytes) -> bool:
    """Return False: Stripe sends no pings."""
    return False


def verify(headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> None:
    """Check ``Stripe-Signature: t=<seconds>,v1=<hex>[,v1=<hex>]``, over ``<seconds>.<body>``."""
    entries = reading.require_header(headers, "stripe-signature").split(",")
    reading.require_timed_signature(entries, b".", body, secret, now, time="t", signature="v1")


def read(headers: Mapping[str, str], body: bytes, connection: model.Connection) -> list[model.ShopEvent]:
    """See ``ShopModule``."""
    return [_show(reading.decode(body, stripe_objects.Event))]


def find_api(connection: model.Connection, api_key: str) -> ApiAccess | None:
    """Return the access to the API. A restricted key suffices that may read Checkout Sessions, invoices,
    charges, subscriptions, events and webhook endpoints.
    """
    return ApiAccess(connection.url or API_URL, {"Authorization": f"Bearer {api_key}"})


def complete(event: model.ShopEvent, api: ShopApi) -> model.ShopEvent:
    """Add the lines of a session or a subscription, or replace a payment by the invoice that it paid."""
    change, lookup = event.change, event.lookup or ""
    if isinstance(change, model.Lines):
        question: dict[str, str | int] = {"subscription": change.subscription, "limit": _MAX_LINES}
        items = reading.convert(api.get("/v1/subscription_items", question), stripe_objects.Items)
        change = replace(change, lines=tuple(map(stripe_objects.line_of, items.data)), is_asked=True)
    elif isinstance(change, model.Sale):
        items = reading.convert(
            api.get(f"/v1/checkout/sessions/{lookup}/line_items", {"limit": _MAX_LINES}), stripe_objects.Items
        )
        if items.has_more:
            raise UnreadableEvent(f"the order has more than {_MAX_LINES} lines")
        change = replace(change, lines=change.lines + tuple(map(stripe_objects.line_of, items.data)))
    elif isinstance(change, model.StateChange):
        question = {
            "payment[type]": "payment_intent",
            "payment[payment_intent]": lookup,
            "limit": 1,
        }
        payments = reading.convert(
            api.get("/v1/invoice_payments", question), stripe_objects.InvoicePayments
        ).data
        if payments:
            change = replace(change, order=payments[0].invoice)
    return replace(event, change=change, needs_api=False)


def list_orders(
    api: ShopApi, connection: model.Connection, since: datetime
) -> Iterator[model.ShopEvent | model.UnreadableOrder]:
    """Yield the events that Stripe keeps (30 days), oldest first, as it sent them."""
    events: list[model.ShopEvent | model.UnreadableOrder] = []
    after: dict[str, str | int] = {}
    begin = {"created[gte]": int(since.timestamp()), "limit": _PAGE}
    for _ in range(_MAX_PAGES):
        page = reading.convert(api.get("/v1/events", begin | after), stripe_objects.Events)
        needed = [one for one in page.found if one.get("type") in _READERS]
        events += reading.read_each(needed, lambda body: read({}, body, connection))
        if not page.found or not page.has_more:
            break
        after = {"starting_after": reading.convert(page.found[-1].get("id"), str)}
    yield from reversed(events)


def _show(event: stripe_objects.Event) -> model.ShopEvent:
    read_one = _READERS.get(event.type)
    shown = model.ShopEvent(
        id=event.id, name=event.type, at=reading.from_seconds(event.created), is_test=not event.livemode
    )
    if read_one is None:
        return replace(shown, change=model.Nothing("events of this kind are not needed"))
    change, lookup = read_one(event.contents.object)
    return replace(shown, change=change, needs_api=lookup is not None, lookup=lookup)


def _read_session(found: dict[str, Any]) -> tuple[model.Change, str | None]:
    session = reading.convert(found, stripe_objects.Session)
    if session.mode == "setup":
        return model.Nothing("nothing is sold"), None
    if session.payment_status not in ("paid", "no_payment_required"):
        return model.Nothing("the order is not paid yet"), None
    details = session.customer_details or stripe_objects.Details()
    email = details.email or session.customer_email
    language = None if session.locale in (None, "auto") else session.locale
    sale = model.Sale(
        # A refund names the payment intent or, for a subscription, the invoice.
        order=session.invoice or session.payment_intent or session.id,
        buyer=None if email is None else model.Buyer(email, details.name, language),
        subscription=session.subscription,
        metadata=reading.read_metadata({"client_reference_id": session.client_reference_id})
        | reading.read_metadata(session.metadata),
        # The invoice states the paid period.
        needs_period=session.subscription is not None,
    )
    return sale, session.id


def _read_async_payment(found: dict[str, Any]) -> tuple[model.Change, str | None]:
    return _read_session(found | {"payment_status": "paid"})


def _read_invoice(found: dict[str, Any]) -> tuple[model.Change, str | None]:
    invoice = reading.convert(found, stripe_objects.Invoice)
    subscription = invoice.of_subscription
    if subscription is None:
        return model.Nothing("the invoice belongs to no subscription"), None
    lines = [one for one in invoice.lines.data if one.is_period]
    until = reading.from_seconds(max(one.period.end for one in lines)) if lines else None
    # One page of the lines is not everything that was paid.
    paid = () if invoice.lines.has_more else tuple(one.sold for one in lines)
    return model.Renewal(subscription=subscription, until=until, order=invoice.id, lines=paid), None


def _read_subscription(found: dict[str, Any]) -> tuple[model.Change, str | None]:
    """Read the items, which are in force: a change that waits for its payment is in ``pending_update``."""
    subscription = reading.convert(found, stripe_objects.Subscription)
    state = _STATES.get(subscription.status)
    if state is None:
        return model.Nothing(f"the subscription is {subscription.status[:40]}"), None
    return _lines_of(subscription, state)


def _lines_of(
    subscription: stripe_objects.Subscription, state: model.SaleState
) -> tuple[model.Change, str | None]:
    if subscription.items is None:
        return model.StateChange(state=state, subscription=subscription.id), None
    lines = tuple(map(stripe_objects.line_of, subscription.items.data))
    change = model.Lines(subscription=subscription.id, lines=lines, state=state)
    return change, subscription.id if subscription.items.has_more else None


def _read_end(found: dict[str, Any]) -> tuple[model.Change, str | None]:
    return _lines_of(reading.convert(found, stripe_objects.Subscription), model.SaleState.ENDED)


def _read_refund(found: dict[str, Any]) -> tuple[model.Change, str | None]:
    charge = reading.convert(found, stripe_objects.Charge)
    if not charge.refunded:
        return model.Nothing("only a part was refunded"), None
    refunded = model.StateChange(
        state=model.SaleState.REFUNDED,
        order=charge.invoice or charge.payment_intent or charge.id,
        fact=model.Fact.REFUND,
    )
    # The API is asked whether the payment was for an invoice.
    return refunded, None if charge.invoice is not None else charge.payment_intent


def _read_changed_refund(found: dict[str, Any]) -> tuple[model.Change, str | None]:
    """Read a failed refund: the payment is paid again. A refund that failed in part is not a full refund."""
    refund = reading.convert(found, stripe_objects.OfCharge)
    if refund.status not in ("failed", "canceled"):
        return model.Nothing("the refund has not failed"), None
    return _change_of_payment(model.SaleState.ACTIVE, model.Fact.REFUND, refund)


def _read_dispute(found: dict[str, Any]) -> tuple[model.Change, str | None]:
    dispute = reading.convert(found, stripe_objects.OfCharge)
    status = dispute.status or ""
    if status.startswith("warning"):
        # It suspended nothing, so that nothing is restored: many inquiries end with a refund.
        return model.Nothing("an inquiry, not a dispute"), None
    states = {"won": model.SaleState.ACTIVE, "lost": model.SaleState.REFUNDED}
    return _change_of_payment(states.get(status, model.SaleState.SUSPENDED), model.Fact.DISPUTE, dispute)


def _change_of_payment(
    state: model.SaleState, fact: model.Fact, about: stripe_objects.OfCharge
) -> tuple[model.Change, str | None]:
    """Return the new state of the order; the API is asked whether its payment was for an invoice."""
    order = about.payment_intent or about.charge or about.id
    return model.StateChange(state=state, order=order, fact=fact), about.payment_intent


_READERS = {
    "checkout.session.completed": _read_session,
    "checkout.session.async_payment_succeeded": _read_async_payment,
    "invoice.paid": _read_invoice,
    "customer.subscription.created": _read_subscription,
    "customer.subscription.updated": _read_subscription,
    "customer.subscription.deleted": _read_end,
    "charge.refunded": _read_refund,
    "charge.refund.updated": _read_changed_refund,
    "refund.failed": _read_changed_refund,
    "charge.dispute.created": _read_dispute,
    # Sent when an inquiry becomes a dispute.
    "charge.dispute.funds_withdrawn": _read_dispute,
    "charge.dispute.closed": _read_dispute,
}
#: The events that the documentation for this shop names; the others are read if they are sent.
TOPICS = frozenset(_READERS) - {"customer.subscription.created", "charge.refund.updated"}


def list_running(api: ShopApi, connection: model.Connection) -> Iterator[model.ShopEvent]:
    """Yield running subscriptions, which exclude canceled ones. They are dated five minutes back: later
    changes have events of their own.
    """
    at = datetime.now(UTC) - reading.LATELY

    def ask(question: dict[str, str | int]) -> list[dict[str, Any]]:
        return reading.convert(api.get("/v1/subscriptions", question), stripe_objects.Events).found

    for one in reading.pages(ask, {"limit": _PAGE}, "starting_after", _PAGE):
        change, lookup = _read_subscription(one)
        number, is_test = reading.convert(one.get("id"), str), one.get("livemode") is False
        event = model.ShopEvent(id=number, name="subscription", at=at, is_test=is_test, change=change)
        yield event if lookup is None else complete(replace(event, needs_api=True, lookup=lookup), api)


def list_topics(api: ShopApi, connection: model.Connection) -> frozenset[str] | None:
    """See ``ShopModule``."""
    found = reading.convert(api.get("/v1/webhook_endpoints", {"limit": _PAGE}), stripe_objects.Events).found
    own = [
        one
        for one in found
        if reading.sends_here(one.get("url"), connection) and one.get("status") == "enabled"
    ]
    topics = frozenset(
        topic for one in own for topic in reading.convert(one.get("enabled_events"), list[str])
    )
    return TOPICS if "*" in topics else topics
