"""When a delivery is retried, and how its request is built. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from keywright.core.crypto import mask
from keywright.core.metadata import read_metadata
from keywright.core.parsing import MAX_RETRY_AFTER
from keywright.core.standard_webhooks import sign
from keywright.delivery.webhooks.model import Attempt, Delivery, Due, Endpoint, Payload, State
from keywright.events.feed import subject_of
from keywright.events.model import Event
from keywright.licensing.licenses.model import License, Status, order_of, own_fields
from keywright.licensing.licenses.rules import state
from keywright.provisioning.customers import Customer

#: The delays after failed attempts; the last one repeats.
SCHEDULE = tuple(
    timedelta(seconds=seconds) for seconds in (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
)
#: Each delay is extended by up to this fraction, so that retries to a receiver do not all come at once.
JITTER = 0.1
#: The longest delay before the next attempt.
LONGEST_PAUSE = max(SCHEDULE[-1] * (1 + JITTER), MAX_RETRY_AFTER)
#: The time without a success after which a delivery is given up, and an endpoint disabled.
GIVE_UP_AFTER = timedelta(days=5)
#: How long deliveries are kept, and the maximum age of events that endpoints are notified of.
KEPT = timedelta(days=30)
#: How long a secret stays valid after it has been replaced.
SECRET_OVERLAP = timedelta(hours=24)
#: The most waiting deliveries of an endpoint; further events stay in the log until there is room.
MAX_WAITING = 10_000
#: The most endpoints.
MAX_ENDPOINTS = 100
#: The status of a receiver that is gone for good, and those whose ``Retry-After`` applies to all deliveries.
GONE, ASKING_FOR_QUIET = 410, (429, 503)
#: The most concurrent requests to a receiver that is failing.
PROBES = 4
#: The type of the event that tests one endpoint.
TESTED = "webhook.tested"
_SHOWN_OF_PATH = 8
_TYPE = re.compile(r"\*|[a-z_]{1,38}\.(\*|[a-z_]{1,38})")


def parse_event_type(text: str) -> str:
    """Parse an event type, a prefix that ends in ``.*``, or ``*`` for every type. Raises ``ValueError``."""
    if not _TYPE.fullmatch(text) or len(text) > 40:
        raise ValueError("must be an event type such as license.activated, license.* or *")
    return text


def is_notified_of(endpoint: Endpoint, event: Event) -> bool:
    """Whether the endpoint is notified of this event; of test events only its own."""
    name = event.name
    if name == TESTED:
        return (event.details or {}).get("endpoint_id") == endpoint.id
    return any(
        one in (name, "*") or (one.endswith(".*") and name.startswith(one[:-1])) for one in endpoint.events
    )


def pause_after(attempts: int, attempt: Attempt, jitter: float) -> timedelta:
    """Return the delay after a failed attempt, the ``attempts``-th one; ``jitter`` is from 0.0 to 1.0."""
    pause = SCHEDULE[min(attempts, len(SCHEDULE)) - 1] * (1 + JITTER * jitter)
    return max(pause, retry_after_of(attempt) or timedelta(0))


def retry_after_of(attempt: Attempt) -> timedelta | None:
    """Return the pause that the receiver requested, at most 24 hours."""
    seconds = attempt.retry_after_seconds
    return None if not seconds else min(timedelta(seconds=seconds), MAX_RETRY_AFTER)


def is_quiet(endpoint: Endpoint, now: datetime) -> bool:
    """Whether deliveries are paused at the receiver's request. An implausibly late end is ignored: it comes
    from a clock that was ahead.
    """
    until = endpoint.paused_until
    return until is not None and now < until <= now + MAX_RETRY_AFTER


def restart(delivery: Delivery, now: datetime) -> Delivery:
    """Reset the delivery as if it had not been attempted, with its first attempt now."""
    return replace(
        delivery,
        state=State.WAITING,
        attempts=0,
        next_attempt_at=now,
        first_attempt_at=None,
        finished_at=None,
    )


def hide_path(url: str) -> str:
    """Remove the path, which may be a secret, from a URL for logs and events."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def short_url(url: str) -> str:
    """Shorten a URL for people who know it; the start of its path is too short to reveal a secret."""
    path, query = urlsplit(url)[2:4]
    is_whole = len(path) <= _SHOWN_OF_PATH and not query
    return f"{hide_path(url)}{path[:_SHOWN_OF_PATH]}{'' if is_whole else '…'}"


def oldest_event_at(now: datetime) -> datetime:
    """Return the time before which events are no longer delivered."""
    return now - KEPT


def normalize_events(events: Sequence[str]) -> list[str]:
    """Return the event types without duplicates. Raises ``ValueError``."""
    found = list(dict.fromkeys(map(parse_event_type, events)))
    if not found:
        raise ValueError("must have at least one event type")
    return found


#: Bodies are smaller than this, in bytes.
MAX_BODY = 20_000
_OF_CUSTOMER = ("id", "external_id", "email", "name")
_USER_AGENT = "Keywright"
_encode = msgspec.json.Encoder().encode


def show_license(license: License, now: datetime, customer: Customer | None = None) -> dict[str, Any]:
    """Build the license of a full payload, with its key masked. Pass ``customer`` only for receivers that may
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
        **own_fields(license),
        "order": {"source": order.source, "id": order.id, "line": order.line, "index": order.index},
        "status": Status(license.status).name.lower(),
        "state": state(license, now),
        "expires_at": license.expires_at,
        "activations": license.times_activated,
        "max_activations": license.times_activated_max,
        "metadata": read_metadata(license.metadata),
    }


def write_body(event_id: int, event: Event, license: Mapping[str, Any] | None, payload: Payload) -> bytes:
    """Write ``{type, timestamp, data}`` as JSON, smaller than ``MAX_BODY``; parts that are too large are left
    out: first the license's metadata, then the details and the license.
    """
    subject = subject_of(event)
    content: dict[str, Any] = {
        "event_id": event_id,
        "subject": {"type": subject.kind, "id": subject.id},
        "license_id": event.license_id or None,
    }
    if payload is Payload.THIN:
        return _write(event, content)
    of_place = {} if event.activation_id is None else {"activation_id": event.activation_id}
    content |= {"actor": event.actor, "details": of_place | dict(event.details or {}), "license": license}
    body = _write(event, content)
    if len(body) >= MAX_BODY and license is not None:
        body = _write(event, content | {"license": {**license, "metadata": None}})
    return body if len(body) < MAX_BODY else _write(event, content | {"details": {}, "license": None})


def write_headers(
    message_id: str,
    body: bytes,
    now: datetime,
    known_secrets: Sequence[str],
    sign_ed25519: Callable[[bytes], bytes] | None,
) -> dict[str, str]:
    """Build the headers of a request that is sent now."""
    timestamp = int(now.timestamp())
    return {
        "content-type": "application/json",
        "user-agent": _USER_AGENT,
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(message_id, timestamp, body, known_secrets, sign_ed25519),
    }


def body_of(due: Due, payload: Payload) -> bytes | None:
    """Return the body of a delivery; None if its event has been deleted."""
    if due.event is None:
        return None
    return write_body(due.delivery.event_id, due.event, due.license, payload)


def _write(event: Event, content: Mapping[str, Any]) -> bytes:
    return _encode({"type": event.name, "timestamp": event.occurred_at, "data": content})
