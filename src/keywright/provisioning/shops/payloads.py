"""What is kept of a shop's event: the body as it came, and the headers that its module reads."""

import hashlib
from collections.abc import Mapping

import msgspec

from keywright.core.errors import UnreadableEvent
from keywright.provisioning.shops.event_rules import require_usable
from keywright.provisioning.shops.model import Connection, Payload, ShopEvent
from keywright.provisioning.shops.modules import MODULES

#: The headers that say what an event is, not who sent it. Signatures are not kept.
_KEPT_HEADERS = frozenset({"webhook-id", "x-event-name"})
_KEPT_PREFIX, _SIGNATURE = "x-wc-webhook-", "signature"
#: In a payload that was made here, from the shop's API: the body is a ``ShopEvent``.
_OURS = "keywright-event"
_MAX_VALUE = 1_000


def keep_payload(headers: Mapping[str, str], body: bytes) -> Payload:
    """The payload of an event that came over HTTP."""
    kept = {
        name: value[:_MAX_VALUE]
        for name, value in headers.items()
        if name in _KEPT_HEADERS or (name.startswith(_KEPT_PREFIX) and not name.endswith(_SIGNATURE))
    }
    return Payload(kept, body)


def payload_of(event: ShopEvent) -> Payload:
    """The payload of an event that was read from the shop's API."""
    return Payload({_OURS: "1"}, msgspec.json.encode(event))


def read_payload(payload: Payload, connection: Connection) -> ShopEvent:
    """The event. Raises ``UnreadableEvent``."""
    if _OURS in payload.headers:
        return msgspec.json.decode(payload.body, type=ShopEvent)
    return require_usable(MODULES[connection.shop].read(payload.headers, payload.body, connection))


def find_event(payload: Payload, connection: Connection) -> tuple[str, ShopEvent | None, str | None]:
    """The ID under which an event is kept, the event, and what is wrong with one that cannot be read."""
    try:
        event = read_payload(payload, connection)
    except UnreadableEvent as problem:
        return unreadable_id(payload.body), None, problem.reason
    return event.id, event, None


def unreadable_id(body: bytes) -> str:
    """The ID under which an event that cannot be read is kept: the hash of its body."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"
