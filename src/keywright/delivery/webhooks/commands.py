"""Commands and queries about webhooks."""

from datetime import datetime

from msgspec import field

from keywright.core.command import Command, Cost, Query
from keywright.core.nouns import Create, Delete, Get, List, Noun, Paging, Update
from keywright.delivery.webhooks.fields import NewWebhook, WebhookFields, WebhookQuery
from keywright.delivery.webhooks.model import Attempt, Endpoint, State
from keywright.engine.queue import Item


class CreateEndpoint(Create, frozen=True, kw_only=True):
    """Create an endpoint. Without a ``secret``, one is generated."""

    fields: NewWebhook


class UpdateEndpoint(Update, frozen=True, kw_only=True):
    """Change an endpoint. After it is enabled again, it continues at its position."""

    fields: WebhookFields


class DeleteEndpoint(Delete, frozen=True, kw_only=True):
    """Delete an endpoint and its deliveries."""


class RotateSecret(Command, frozen=True, kw_only=True):
    """Give an endpoint a new secret. The previous secret stays valid for 24 hours."""

    endpoint_id: int
    secret: str | None = None


class SendTest(Command, frozen=True, kw_only=True):
    """Record an event that only this endpoint is notified of."""

    endpoint_id: int


class ResendDelivery(Command, frozen=True, kw_only=True):
    """Send a delivery again at once."""

    endpoint_id: int
    delivery_id: int


class ResendSince(Command, frozen=True, kw_only=True):
    """Send all events since a time again, in order; at most those of the last 30 days."""

    endpoint_id: int
    since: datetime


class WorkOnEndpoint(Command, frozen=True, kw_only=True):
    """Claim an endpoint or extend the claim, save the outcomes of attempts, turn the next events into
    deliveries, and return up to ``limit`` due deliveries that are not ``in_flight``. Release the claim if
    nothing is left to do, or with ``is_last``.
    """

    is_internal = True

    item: Item
    claimed_by: str
    attempts: tuple[Attempt, ...] = ()
    in_flight: frozenset[int] = frozenset()
    limit: int = 0
    is_last: bool = False


class PurgeDeliveries(Command, frozen=True, kw_only=True):
    """Delete a batch of deliveries that ended before this time."""

    cost = Cost.STEP
    is_internal = True

    before: datetime


class GetEndpoint(Get, frozen=True, kw_only=True):
    """Get the endpoint with this ID."""


class ListEndpoints(List, frozen=True, kw_only=True):
    """List a page of the endpoints."""

    where: WebhookQuery = field(default_factory=WebhookQuery)


class GetSecrets(Query, frozen=True, kw_only=True):
    """Get the secrets of an endpoint that are valid now, the newest first."""

    endpoint_id: int
    now: datetime


class GetDelivery(Query, frozen=True, kw_only=True):
    """Get a delivery of an endpoint, with the body that an attempt would send now."""

    endpoint_id: int
    delivery_id: int
    now: datetime


class ListDeliveries(Query, frozen=True, kw_only=True):
    """List a page of the deliveries of an endpoint."""

    endpoint_id: int
    paging: Paging
    state: State | None = None
    license_id: int | None = None


WEBHOOK = Noun(
    *("webhook", Endpoint, WebhookFields, NewWebhook, WebhookQuery),
    *(CreateEndpoint, UpdateEndpoint, DeleteEndpoint, GetEndpoint, ListEndpoints),
)
