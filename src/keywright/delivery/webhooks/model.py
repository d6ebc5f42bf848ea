"""Webhook endpoints and deliveries."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from keywright.events.model import Event


class Payload(StrEnum):
    """How much a delivery contains."""

    #: The event's type and the IDs of its subjects.
    THIN = "thin"
    #: Also the event's details, and the license at the time of sending.
    FULL = "full"
    #: Also the customer's name and e-mail address.
    WITH_EMAIL = "with_email"


class DisabledReason(StrEnum):
    """Why an endpoint is disabled."""

    BY_HAND = "by_hand"
    #: The receiver answered 410.
    GONE = "gone"
    #: Nothing was delivered for five days.
    FAILING = "failing"


class State(StrEnum):
    """The state of a delivery."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


class Endpoint(msgspec.Struct, frozen=True):
    """A URL that is notified of events. ``events`` are event types, or prefixes that end in ``.*``. With
    ``product_id``, it is notified only of events about that product.
    """

    id: int
    url: str
    description: str | None
    events: tuple[str, ...]
    product_id: int | None
    payload: Payload
    created_at: datetime
    updated_at: datetime
    disabled_at: datetime | None = None
    disabled_reason: DisabledReason | None = None
    #: The first failure since the last successful delivery.
    failing_at: datetime | None = None
    #: The end of the pause that the receiver has requested.
    paused_until: datetime | None = None
    #: The ID of the last event that became a delivery or was skipped, and when that happened.
    position: int = 0
    position_at: datetime | None = None


class NewEndpoint(msgspec.Struct, frozen=True):
    """An endpoint with its secret, which is shown once."""

    endpoint: Endpoint
    secret: str

    @property
    def id(self) -> int:
        """The ID of the endpoint."""
        return self.endpoint.id


class Delivery(msgspec.Struct, frozen=True):
    """The delivery of an event to an endpoint. ``attempts`` counts since it was queued, or queued again."""

    id: int
    endpoint_id: int
    event_id: int
    license_id: int
    name: str
    state: State
    attempts: int
    next_attempt_at: datetime | None
    first_attempt_at: datetime | None
    last_attempt_at: datetime | None
    duration_ms: int | None
    status: int | None
    answer: str | None
    created_at: datetime
    finished_at: datetime | None

    @property
    def message_id(self) -> str:
        """The ``webhook-id``, which is the same for every attempt."""
        return f"msg_{self.endpoint_id}_{self.event_id}"


class Due(msgspec.Struct, frozen=True):
    """A due delivery. ``event`` is None if it has been deleted; ``license`` is the license as in a full
    payload, None if there is none.
    """

    delivery: Delivery
    event: Event | None
    license: Mapping[str, Any] | None


class Attempt(msgspec.Struct, frozen=True):
    """The outcome of an attempt. If there was no answer, ``status`` is None and ``answer`` states why.
    ``retry_after_seconds`` is the pause that the receiver requested.
    """

    delivery_id: int
    status: int | None
    answer: str
    duration_ms: int
    retry_after_seconds: int | None = None
    #: Another attempt would be pointless, because the event has been deleted.
    is_hopeless: bool = False

    @property
    def is_delivered(self) -> bool:
        """Whether the receiver has accepted the delivery."""
        return self.status is not None and 200 <= self.status < 300


class Step(msgspec.Struct, frozen=True):
    """The next work for an endpoint: deliveries to attempt now, with the secrets that sign them.

    ``is_over``: the claim was released or lost. ``has_more``: more events can become deliveries. ``is_full``:
    they have to wait, because the limit of waiting deliveries is reached.
    """

    due: tuple[Due, ...] = ()
    endpoint: Endpoint | None = None
    secrets: tuple[str, ...] = ()
    has_more: bool = False
    is_over: bool = False
    is_full: bool = False
