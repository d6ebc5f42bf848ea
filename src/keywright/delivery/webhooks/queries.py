"""Handlers for queries about endpoints and deliveries."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from keywright.core.command import Query
from keywright.core.errors import NotFound
from keywright.core.nouns import ItemPage
from keywright.db.transaction import ReadTransaction
from keywright.delivery.webhooks import store
from keywright.delivery.webhooks.commands import (
    GetDelivery,
    GetEndpoint,
    GetSecrets,
    ListDeliveries,
    ListEndpoints,
)
from keywright.delivery.webhooks.model import Delivery, Due, Endpoint, Payload
from keywright.delivery.webhooks.rules import body_of, show_license
from keywright.events.model import Event
from keywright.events.store import find_event
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.provisioning.store import find_customers


def get_endpoint(read: Any, query: GetEndpoint) -> Endpoint:
    """Return an endpoint. Raises ``NotFound``."""
    endpoint = store.WEBHOOKS.find(read.tx, query.id)
    if endpoint is None:
        raise NotFound(f"webhook {query.id}")
    return endpoint


def list_endpoints(read: Any, query: ListEndpoints) -> ItemPage[Endpoint]:
    """Return a page of the endpoints."""
    return store.WEBHOOKS.list_page(read.tx, query)


def get_secrets(read: Any, query: GetSecrets) -> list[str]:
    """Return the valid secrets, the newest first. Raises ``NotFound``."""
    get_endpoint(read, GetEndpoint(id=query.endpoint_id))
    return store.list_secrets(read.tx, query.endpoint_id, query.now)


def list_deliveries(read: Any, query: ListDeliveries) -> ItemPage[Delivery]:
    """Return a page of the deliveries of an endpoint. Raises ``NotFound``."""
    get_endpoint(read, GetEndpoint(id=query.endpoint_id))
    return store.list_deliveries(read.tx, query)


def get_delivery(read: Any, query: GetDelivery) -> tuple[Delivery, bytes | None]:
    """Return a delivery, and the body that an attempt would send now (None if its event has been deleted).
    Raises ``NotFound``.
    """
    endpoint = get_endpoint(read, GetEndpoint(id=query.endpoint_id))
    delivery = store.find_delivery(read.tx, endpoint.id, query.delivery_id)
    if delivery is None:
        raise NotFound(f"delivery {query.delivery_id}")
    found = [(delivery, find_event(read.tx, delivery.event_id))]
    return delivery, body_of(show_due(read.tx, endpoint, found, query.now)[0], endpoint.payload)


def show_due(
    tx: ReadTransaction, endpoint: Endpoint, due: Sequence[tuple[Delivery, Event | None]], now: datetime
) -> tuple[Due, ...]:
    """Return the deliveries with the licenses and customers that the endpoint's payload includes."""
    ids = {one.license_id for one, _ in due if one.license_id and endpoint.payload is not Payload.THIN}
    known = find_licenses_by_id(tx, sorted(ids)) if ids else {}
    numbers = {one.customer_id for one in known.values() if one.customer_id is not None}
    customers = find_customers(tx, numbers) if endpoint.payload is Payload.WITH_EMAIL else {}
    shown = {one.id: show_license(one, now, customers.get(one.customer_id)) for one in known.values()}
    return tuple(Due(one, event, shown.get(one.license_id)) for one, event in due)


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    GetEndpoint: get_endpoint,
    ListEndpoints: list_endpoints,
    GetSecrets: get_secrets,
    GetDelivery: get_delivery,
    ListDeliveries: list_deliveries,
}
