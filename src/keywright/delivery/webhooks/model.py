"""Endpoints and deliveries."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from keywright.events.model import Event


class Payload(StrEnum):
    """How much a delivery contains."""

    #: What happened, and the IDs of its subjects.
    THIN = "thin"
    #: The event with its details, and the license as it is when the delivery is sent.
    FULL = "full"
    #: The same with the customer's name and e-mail address.
    WITH_EMAIL = "with_email"


class DisabledReason(StrEnum):
    """Why an endpoint is disabled."""

    BY_HAND = "by_hand"
    #: The receiver has answered 410.
    GONE = "gone"
    #: Nothing was delivered for five days.
    FAILING = "failing"


class State(StrEnum):
    """The state of a delivery."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


class Endpoint(msgspec.Struct, frozen=True):
    """An address that is notified of events. ``events`` are event types; one that ends in ``.*`` is the
    beginning of types. With ``product_id``, it is notified of that product alone.
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
    #: The first failure since the last delivery.
    failing_at: datetime | None = None
    #: Until when the receiver has asked for quiet.
    paused_until: datetime | None = None
    #: The last event that was made a delivery or left out, and when that was.
    position: int = 0
    position_at: datetime | None = None


class NewEndpoint(msgspec.Struct, frozen=True):
    """An endpoint with its secret, which is shown once."""

    endpoint: Endpoint
    secret: str

    @property
    def id(self) -> int:
        """That of the endpoint."""
        return self.endpoint.id


class Delivery(msgspec.Struct, frozen=True):
    """An event for an endpoint, and what came of it. ``attempts`` counts since it began to wait."""

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
        """The ``webhook-id``: the same for every attempt."""
        return f"msg_{self.endpoint_id}_{self.event_id}"


class Due(msgspec.Struct, frozen=True):
    """A delivery whose time has come. ``event`` is None where it is kept no longer; ``license`` is what a
    full payload contains of the license, None where there is none.
    """

    delivery: Delivery
    event: Event | None
    license: Mapping[str, Any] | None


class Attempt(msgspec.Struct, frozen=True):
    """What came of an attempt. ``status`` is None where there was no answer, and ``answer`` is why;
    ``retry_after_seconds`` is what the receiver has asked for.
    """

    delivery_id: int
    status: int | None
    answer: str
    duration_ms: int
    retry_after_seconds: int | None = None
    #: Another attempt would have nothing to send: the event is kept no longer.
    is_hopeless: bool = False

    @property
    def is_delivered(self) -> bool:
        """Whether the receiver has taken it."""
        return self.status is not None and 200 <= self.status < 300


class Step(msgspec.Struct, frozen=True):
    """What is to be done next for an endpoint: deliveries to attempt now, with the secrets that sign them.

    ``is_over``: the claim was given up or is lost. ``has_more``: events wait to be made
    deliveries, ``is_full`` that they have to: as many deliveries wait as may.
    """

    due: tuple[Due, ...] = ()
    endpoint: Endpoint | None = None
    secrets: tuple[str, ...] = ()
    has_more: bool = False
    is_over: bool = False
    is_full: bool = False
