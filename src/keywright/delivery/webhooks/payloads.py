"""The request of a delivery. Pure."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from keywright.core.crypto import mask
from keywright.core.metadata import read_metadata
from keywright.core.standard_webhooks import sign
from keywright.delivery.webhooks.model import Due, Payload
from keywright.events.feed import subject_of
from keywright.events.model import Event
from keywright.licensing.licenses.model import License, Status, order_of
from keywright.licensing.licenses.rules import state
from keywright.provisioning.customers import Customer

#: A body is smaller than this, in bytes.
MAX_BODY = 20_000
_OF_CUSTOMER = ("id", "external_id", "email", "name")
_USER_AGENT = "Keywright"
_encode = msgspec.json.Encoder().encode


def show_license(license: License, now: datetime, customer: Customer | None = None) -> dict[str, Any]:
    """The license as a full payload says it; of its key, the mask. ``customer`` is only for receivers who may
    see names and e-mail addresses.
    """
    order = order_of(license)
    return {
        "id": license.id,
        "key": mask(license.key),
        "product_id": license.product_id,
        "policy_id": license.policy_id,
        "customer_id": license.customer_id,
        "customer": customer and {name: getattr(customer, name) for name in _OF_CUSTOMER},
        "external_id": license.external_id,
        "order": {"source": order.source, "id": order.id, "line": order.line, "index": order.index},
        "status": Status(license.status).name.lower(),
        "state": state(license, now),
        "expires_at": license.expires_at,
        "activations": license.times_activated,
        "max_activations": license.times_activated_max,
        "metadata": read_metadata(license.metadata),
    }


def write_body(event_id: int, event: Event, license: Mapping[str, Any] | None, payload: Payload) -> bytes:
    """``{type, timestamp, data}`` as JSON, smaller than 20 kB: what is too large is left out."""
    subject = subject_of(event)
    told: dict[str, Any] = {
        "event_id": event_id,
        "subject": {"type": subject.kind, "id": subject.id},
        "license_id": event.license_id or None,
    }
    if payload is Payload.THIN:
        return _write(event, told)
    of_place = {} if event.activation_id is None else {"activation_id": event.activation_id}
    told |= {"actor": event.actor, "details": of_place | dict(event.details or {}), "license": license}
    body = _write(event, told)
    if len(body) >= MAX_BODY and license is not None:
        body = _write(event, told | {"license": {**license, "metadata": None}})
    return body if len(body) < MAX_BODY else _write(event, told | {"details": {}, "license": None})


def write_headers(
    message_id: str,
    body: bytes,
    now: datetime,
    known_secrets: Sequence[str],
    sign_ed25519: Callable[[bytes], bytes] | None,
) -> dict[str, str]:
    """The headers of a request that is sent now."""
    timestamp = int(now.timestamp())
    return {
        "content-type": "application/json",
        "user-agent": _USER_AGENT,
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(message_id, timestamp, body, known_secrets, sign_ed25519),
    }


def body_of(due: Due, payload: Payload) -> bytes | None:
    """The body of a delivery; None where its event is kept no longer."""
    if due.event is None:
        return None
    return write_body(due.delivery.event_id, due.event, due.license, payload)


def _write(event: Event, told: Mapping[str, Any]) -> bytes:
    return _encode({"type": event.name, "timestamp": event.occurred_at, "data": told})
