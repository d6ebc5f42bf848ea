"""Read endpoints and deliveries."""

from collections.abc import Callable
from typing import Any

from keywright.core.command import Query
from keywright.core.errors import NotFound
from keywright.core.paging import ItemPage
from keywright.delivery.webhooks import store
from keywright.delivery.webhooks.commands import (
    GetDelivery,
    GetEndpoint,
    GetSecrets,
    ListDeliveries,
    ListEndpoints,
)
from keywright.delivery.webhooks.model import Delivery, Due, Endpoint, Payload
from keywright.delivery.webhooks.payloads import body_of, show_license
from keywright.events.store import find_event
from keywright.licensing.licenses.store import find_licenses_by_id


def get_endpoint(read: Any, query: GetEndpoint) -> Endpoint:
    """One endpoint. Raises ``NotFound``."""
    endpoint = store.find_endpoint(read.tx, query.endpoint_id)
    if endpoint is None:
        raise NotFound(f"webhook {query.endpoint_id}")
    return endpoint


def list_endpoints(read: Any, query: ListEndpoints) -> ItemPage[Endpoint]:
    """A page of the endpoints."""
    return store.list_endpoints(read.tx, query)


def get_secrets(read: Any, query: GetSecrets) -> list[str]:
    """The secrets that are good, the newest first. Raises ``NotFound``."""
    get_endpoint(read, GetEndpoint(endpoint_id=query.endpoint_id))
    return store.list_secrets(read.tx, query.endpoint_id, query.now)


def list_deliveries(read: Any, query: ListDeliveries) -> ItemPage[Delivery]:
    """A page of the deliveries of an endpoint. Raises ``NotFound``."""
    get_endpoint(read, GetEndpoint(endpoint_id=query.endpoint_id))
    return store.list_deliveries(read.tx, query)


def get_delivery(read: Any, query: GetDelivery) -> tuple[Delivery, bytes | None]:
    """A delivery, and the body that an attempt would send now; None where its event is kept no longer.
    Raises ``NotFound``.
    """
    endpoint = get_endpoint(read, GetEndpoint(endpoint_id=query.endpoint_id))
    delivery = store.find_delivery(read.tx, endpoint.id, query.delivery_id)
    if delivery is None:
        raise NotFound(f"delivery {query.delivery_id}")
    event = find_event(read.tx, delivery.event_id)
    license = None
    if event is not None and event.license_id and endpoint.payload is Payload.FULL:
        license = find_licenses_by_id(read.tx, [event.license_id]).get(event.license_id)
    shown = None if license is None else show_license(license, query.now)
    return delivery, body_of(Due(delivery, event, shown), endpoint.payload)


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    GetEndpoint: get_endpoint,
    ListEndpoints: list_endpoints,
    GetSecrets: get_secrets,
    GetDelivery: get_delivery,
    ListDeliveries: list_deliveries,
}
