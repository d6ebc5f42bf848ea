"""The modules of the shops, and the stored payload: the body, and the headers that the module reads."""

import hashlib
from collections.abc import Mapping

import msgspec

from keywright.core.errors import UnreadableEvent
from keywright.provisioning.shops import generic, lemonsqueezy, paddle, stripe, woocommerce
from keywright.provisioning.shops.event_rules import require_usable
from keywright.provisioning.shops.model import Connection, Payload, Shop, ShopEvent
from keywright.provisioning.shops.shop_module import ShopModule

MODULES: Mapping[Shop, ShopModule] = {
    Shop.STRIPE: stripe,
    Shop.PADDLE: paddle,
    Shop.WOOCOMMERCE: woocommerce,
    Shop.LEMONSQUEEZY: lemonsqueezy,
    Shop.GENERIC: generic,
}


#: The headers that identify an event. Signatures are not stored.
_KEPT_HEADERS = frozenset({"webhook-id", "x-event-name"})
_KEPT_PREFIX, _SIGNATURE = "x-wc-webhook-", "signature"
#: Marks a payload that was built from the shop's API: the body is a ``ShopEvent``.
_OURS = "keywright-event"
_MAX_VALUE = 1_000
#: The largest number of events in a body.
_MAX_EVENTS = 100


def keep_payload(headers: Mapping[str, str], body: bytes) -> Payload:
    """Build the payload of an event that was received over HTTP."""
    kept = {
        name: value[:_MAX_VALUE]
        for name, value in headers.items()
        if name in _KEPT_HEADERS or (name.startswith(_KEPT_PREFIX) and not name.endswith(_SIGNATURE))
    }
    return Payload(kept, body)


def payload_of(event: ShopEvent) -> Payload:
    """Build the payload of an event that was read from the shop's API."""
    return Payload({_OURS: "1"}, msgspec.json.encode(event))


def read_payload(payload: Payload, connection: Connection, event_id: str) -> ShopEvent:
    """Return the event with this ID, or the first one. Raises ``UnreadableEvent``."""
    if _OURS in payload.headers:
        return msgspec.json.decode(payload.body, type=ShopEvent)
    events = _read(payload, connection)
    return next((one for one in events if one.id == event_id), events[0])


def find_events(payload: Payload, connection: Connection) -> list[tuple[str, ShopEvent | None, str | None]]:
    """Return the events of a body, each with the ID under which it is stored, and the problem if the body
    cannot be read.
    """
    try:
        return [(one.id, one, None) for one in _read(payload, connection)]
    except UnreadableEvent as problem:
        return [(unreadable_id(payload.body), None, problem.reason)]


def _read(payload: Payload, connection: Connection) -> list[ShopEvent]:
    events = MODULES[connection.shop].read(payload.headers, payload.body, connection)
    if not 0 < len(events) <= _MAX_EVENTS:
        raise UnreadableEvent(f"it has no event, or more than {_MAX_EVENTS}")
    return list(map(require_usable, events))


def unreadable_id(body: bytes) -> str:
    """Return the ID under which an unreadable event is stored: the hash of its body."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"
