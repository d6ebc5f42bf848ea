"""When a delivery is attempted again, and which events an endpoint is told of. Pure."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from msgspec.structs import replace

from keywright.core.retry_after import MAX_RETRY_AFTER
from keywright.delivery.webhooks.model import Attempt, Delivery, Endpoint, State
from keywright.events.model import Event

#: The pauses after failed attempts; then the last one, again and again.
SCHEDULE = tuple(
    timedelta(seconds=seconds) for seconds in (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
)
#: Each pause is longer by up to this part of it, so that receivers are not called by all at once.
JITTER = 0.1
#: No attempt is later than after this.
LONGEST_PAUSE = max(SCHEDULE[-1] * (1 + JITTER), MAX_RETRY_AFTER)
#: After so long without a success, a delivery is given up, and an endpoint disabled.
GIVE_UP_AFTER = timedelta(days=5)
#: How long deliveries are kept, and how old an event can be that an endpoint is told of.
KEPT = timedelta(days=30)
#: How long a secret is good beside the one that has replaced it.
SECRET_OVERLAP = timedelta(hours=24)
#: The most deliveries of an endpoint that wait; further events stay in the log until there is room.
MAX_WAITING = 10_000
#: The most endpoints.
MAX_ENDPOINTS = 100
#: The answer of a receiver that has gone for good, and those whose ``Retry-After`` is for all deliveries.
GONE, ASKING_FOR_QUIET = 410, (429, 503)
#: The most requests at a time to a receiver that takes none.
PROBES = 4
#: The event that tests one endpoint.
TESTED = "webhook.tested"
_SHOWN_OF_PATH = 8
_TYPE = re.compile(r"\*|[a-z_]{1,38}\.(\*|[a-z_]{1,38})")


def parse_event_type(text: str) -> str:
    """An event type, or the beginning of some with ``.*``; ``*`` is every one. Raises ``ValueError``."""
    if not _TYPE.fullmatch(text) or len(text) > 40:
        raise ValueError("must be an event type such as license.activated, license.* or *")
    return text


def is_told_of(endpoint: Endpoint, event: Event) -> bool:
    """Whether the endpoint is told of this event; of a test only where the test is its own."""
    name = event.name
    if name == TESTED:
        return (event.details or {}).get("endpoint_id") == endpoint.id
    return any(
        one in (name, "*") or (one.endswith(".*") and name.startswith(one[:-1])) for one in endpoint.events
    )


def pause_after(attempts: int, attempt: Attempt, jitter: float) -> timedelta:
    """The pause after an attempt that failed, the ``attempts``-th one; ``jitter`` is from 0.0 to 1.0."""
    pause = SCHEDULE[min(attempts, len(SCHEDULE)) - 1] * (1 + JITTER * jitter)
    return max(pause, retry_after_of(attempt) or timedelta(0))


def retry_after_of(attempt: Attempt) -> timedelta | None:
    """The pause that the receiver has asked for, at most 24 hours."""
    seconds = attempt.retry_after_seconds
    return None if not seconds else min(timedelta(seconds=seconds), MAX_RETRY_AFTER)


def is_quiet(endpoint: Endpoint, now: datetime) -> bool:
    """Whether the receiver has asked for quiet; a later end was written by a clock that was ahead."""
    until = endpoint.paused_until
    return until is not None and now < until <= now + MAX_RETRY_AFTER


def restart(delivery: Delivery, now: datetime) -> Delivery:
    """The delivery as if it had not been attempted, with its first attempt now."""
    return replace(
        delivery,
        state=State.WAITING,
        attempts=0,
        next_attempt_at=now,
        first_attempt_at=None,
        finished_at=None,
    )


def hide_path(url: str) -> str:
    """A URL for logs and events: its path may be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def short_url(url: str) -> str:
    """A URL for people who know it: with the beginning of its path, too little to give a secret away."""
    path, query = urlsplit(url)[2:4]
    is_whole = len(path) <= _SHOWN_OF_PATH and not query
    return f"{hide_path(url)}{path[:_SHOWN_OF_PATH]}{'' if is_whole else '…'}"


def oldest_event_at(now: datetime) -> datetime:
    """Events before this moment are not delivered any more."""
    return now - KEPT


def normalize_events(events: Sequence[str]) -> list[str]:
    """The types, each once. Raises ``ValueError``."""
    found = list(dict.fromkeys(map(parse_event_type, events)))
    if not found:
        raise ValueError("must have at least one event type")
    return found
