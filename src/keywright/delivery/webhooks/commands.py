"""Commands and queries about webhooks."""

from datetime import datetime

from msgspec import field

from keywright.core.command import Command, Cost, Query
from keywright.core.nouns import Create, Delete, Get, List, Noun, Paging, Update
from keywright.delivery.webhooks.fields import NewWebhook, WebhookFields, WebhookQuery
from keywright.delivery.webhooks.model import Attempt, Endpoint, State
from keywright.engine.queue import Item


class CreateEndpoint(Create, frozen=True, kw_only=True):
    """Make an endpoint. Without a ``secret``, it gets one."""

    fields: NewWebhook


class UpdateEndpoint(Update, frozen=True, kw_only=True):
    """Change an endpoint. Enabled again, it goes on where it stood."""

    fields: WebhookFields


class DeleteEndpoint(Delete, frozen=True, kw_only=True):
    """Delete an endpoint, with its deliveries."""


class RotateSecret(Command, frozen=True, kw_only=True):
    """Give an endpoint a new secret; the one before is good for another 24 hours."""

    endpoint_id: int
    secret: str | None = None


class SendTest(Command, frozen=True, kw_only=True):
    """Record an event that only this endpoint is notified of."""

    endpoint_id: int


class ResendDelivery(Command, frozen=True, kw_only=True):
    """Send a delivery again, now."""

    endpoint_id: int
    delivery_id: int


class ResendSince(Command, frozen=True, kw_only=True):
    """Send all events since a moment again, in their order; those of 30 days at most."""

    endpoint_id: int
    since: datetime


class WorkOnEndpoint(Command, frozen=True, kw_only=True):
    """Claim an endpoint, or extend the claim; save what came of attempts; make deliveries of the next events;
    return up to ``limit`` of those whose time has come, without those ``in_flight``. With nothing left to be
    done, or ``is_last``, the claim is given up.
    """

    is_internal = True

    item: Item
    claimed_by: str
    attempts: tuple[Attempt, ...] = ()
    in_flight: frozenset[int] = frozenset()
    limit: int = 0
    is_last: bool = False


class PurgeDeliveries(Command, frozen=True, kw_only=True):
    """Delete some deliveries that ended before this moment."""

    cost = Cost.STEP
    is_internal = True

    before: datetime


class GetEndpoint(Get, frozen=True, kw_only=True):
    """The endpoint with this ID."""


class ListEndpoints(List, frozen=True, kw_only=True):
    """A page of the endpoints."""

    where: WebhookQuery = field(default_factory=WebhookQuery)


class GetSecrets(Query, frozen=True, kw_only=True):
    """The secrets of an endpoint that are good at this moment, the newest first."""

    endpoint_id: int
    now: datetime


class GetDelivery(Query, frozen=True, kw_only=True):
    """A delivery of an endpoint, with what an attempt would send now."""

    endpoint_id: int
    delivery_id: int
    now: datetime


class ListDeliveries(Query, frozen=True, kw_only=True):
    """A page of the deliveries of an endpoint."""

    endpoint_id: int
    paging: Paging
    state: State | None = None
    license_id: int | None = None


WEBHOOK = Noun(
    *("webhook", Endpoint, WebhookFields, NewWebhook, WebhookQuery),
    *(CreateEndpoint, UpdateEndpoint, DeleteEndpoint, GetEndpoint, ListEndpoints),
)
