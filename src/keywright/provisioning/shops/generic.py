"""Any shop that can send Keywright's own JSON, signed according to Standard Webhooks
(https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).

The body is documented in docs/how-to/connect-your-own-shop.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import field
from msgspec.structs import replace

from keywright.core.errors import BadSignature, UnreadableEvent
from keywright.core.standard_webhooks import sign
from keywright.provisioning.shops import model, reading
from keywright.provisioning.shops.shop_module import ApiAccess, ShopApi

TOPICS = frozenset[str]()
_STATES = {
    "payment_failed": model.SaleState.GRACE,
    "suspended": model.SaleState.SUSPENDED,
    "ended": model.SaleState.ENDED,
    "refunded": model.SaleState.REFUNDED,
    "restored": model.SaleState.ACTIVE,
    "refund_canceled": model.SaleState.ACTIVE,
}
_OF_REFUNDS = frozenset({"refunded", "refund_canceled"})


class _Customer(msgspec.Struct):
    email: str
    name: str | None = None
    language: str | None = None


class _Line(msgspec.Struct):
    product: str
    line: str | None = None
    quantity: int = 1
    title: str = ""
    license_ref: str | None = None


class _Sale(msgspec.Struct):
    order: str
    lines: list[_Line]
    customer: _Customer
    subscription: str | None = None
    until: str | None = None
    metadata: Any = None


class _Renewal(msgspec.Struct):
    subscription: str
    until: str | None
    order: str | None = None
    lines: list[_Line] = []


class _Changed(msgspec.Struct):
    subscription: str
    lines: list[_Line]
    until: str | None = None


class _State(msgspec.Struct):
    order: str | None = None
    subscription: str | None = None


class _Event(msgspec.Struct):
    type: str
    timestamp: str
    contents: dict[str, Any] = field(name="data")
    test: bool = False


def is_ping(headers: Mapping[str, str], body: bytes) -> bool:
    """Return False: there are no pings."""
    return False


def verify(headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> None:
    """Check ``webhook-signature: v1,<base64> …``, over ``<webhook-id>.<webhook-timestamp>.<body>``."""
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    message_id, seconds, signatures = (reading.require_header(headers, name) for name in names)
    reading.require_recent(seconds, now)
    try:
        expected = sign(message_id, int(seconds), body, [secret])
    except (ValueError, UnicodeError):
        raise BadSignature("the connection's secret, or the message's ID, cannot be used") from None
    reading.require_signature(expected, signatures.split())


def read(headers: Mapping[str, str], body: bytes, connection: model.Connection) -> list[model.ShopEvent]:
    """See ``ShopModule``."""
    event = reading.decode(body, _Event)
    noun, _, happened = event.type.partition(".")
    change: model.Change = model.Nothing("events of this kind are unknown")
    if event.type == "order.paid":
        change = _read_sale(reading.convert(event.contents, _Sale))
    elif event.type == "subscription.renewed":
        change = _read_renewal(reading.convert(event.contents, _Renewal))
    elif event.type == "subscription.changed":
        changed = reading.convert(event.contents, _Changed)
        until = None if changed.until is None else reading.from_text(changed.until)
        change = model.Lines(subscription=changed.subscription, lines=_lines_of(changed.lines), until=until)
    elif noun in ("order", "subscription") and happened in _STATES:
        change = _read_state(noun, happened, reading.convert(event.contents, _State))
    shown = model.ShopEvent(
        id=headers.get("webhook-id", ""), name=event.type, at=reading.from_text(event.timestamp)
    )
    return [replace(shown, is_test=event.test, change=change)]


def find_api(connection: model.Connection, api_key: str) -> ApiAccess | None:
    """Return None: there is no API."""
    return None


def complete(event: model.ShopEvent, api: ShopApi) -> model.ShopEvent:
    """Return the event: the webhook leaves nothing out."""
    return event


def list_orders(
    api: ShopApi, connection: model.Connection, since: datetime
) -> Iterator[model.ShopEvent | model.UnreadableOrder]:
    """Yield nothing: there is no API."""
    return iter(())


def _read_sale(sale: _Sale) -> model.Sale:
    buyer = model.Buyer(sale.customer.email, sale.customer.name, sale.customer.language)
    until = None if sale.until is None else reading.from_text(sale.until)
    return model.Sale(
        order=sale.order,
        lines=_lines_of(sale.lines),
        buyer=buyer,
        subscription=sale.subscription,
        until=until,
        metadata=reading.read_metadata(sale.metadata),
    )


def _read_renewal(found: _Renewal) -> model.Renewal:
    if found.until is None and found.order is None:
        raise UnreadableEvent("data.order is missing: the payment is for no period")
    until = None if found.until is None else reading.from_text(found.until)
    return model.Renewal(
        subscription=found.subscription, until=until, order=found.order, lines=_lines_of(found.lines)
    )


def _lines_of(lines: Iterable[_Line]) -> tuple[model.SaleLine, ...]:
    return tuple(
        model.SaleLine(
            *(line.line or str(number), (line.product,), line.quantity, line.title),
            license_ref=line.license_ref,
        )
        for number, line in enumerate(lines, start=1)
    )


def _read_state(noun: str, happened: str, named: _State) -> model.StateChange:
    state = _STATES[happened]
    if noun == "order" and named.order is not None:
        fact = model.Fact.REFUND if happened in _OF_REFUNDS else model.Fact.ORDER
        return model.StateChange(state=state, order=named.order, fact=fact)
    if noun == "subscription" and named.subscription is not None:
        return model.StateChange(state=state, subscription=named.subscription)
    raise UnreadableEvent(f"data.{noun} is missing")


def list_running(api: ShopApi, connection: model.Connection) -> Iterator[model.ShopEvent]:
    """Yield nothing: there is no API."""
    return iter(())


def list_topics(api: ShopApi, connection: model.Connection) -> frozenset[str] | None:
    """Return None: there is no API."""
    return None
