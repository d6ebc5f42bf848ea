"""Read connections, and what shops sent."""

from collections.abc import Callable
from typing import Any

from keywright.core.command import Query
from keywright.core.errors import UnknownConnection
from keywright.core.paging import ItemPage
from keywright.provisioning.customers.store import find_customer
from keywright.provisioning.shops import forgetting_store, sold_store, store
from keywright.provisioning.shops.commands import (
    FindShopEventsNaming,
    FindSoldLicenses,
    GetConnection,
    ListConnections,
    ListDueEvents,
    ListRemovedSales,
    ListShopEvents,
    OpenConnection,
    OpenShopEvent,
)
from keywright.provisioning.shops.model import (
    Connection,
    DueEvent,
    Naming,
    OpenedConnection,
    OpenedEvent,
    RemovedSales,
    StoredEvent,
)


def list_connections(read: Any, query: ListConnections) -> list[Connection]:
    """All connections."""
    return store.list_connections(read.tx)


def get_connection(read: Any, query: GetConnection) -> Connection:
    """One connection. Raises ``UnknownConnection``."""
    connection = store.find_connection(read.tx, query.connection_id)
    if connection is None:
        raise UnknownConnection(query.connection_id)
    return connection


def list_removed_sales(read: Any, query: ListRemovedSales) -> list[RemovedSales]:
    """What a connection can take over. Raises ``UnknownConnection``."""
    connection = get_connection(read, GetConnection(connection_id=query.connection_id))
    return sold_store.list_removed(read.tx, connection.shop)


def open_connection(read: Any, query: OpenConnection) -> OpenedConnection | None:
    """One connection with its secrets. Raises ``UnknownConnection``, but for a shop's."""
    opened = store.open_connection(read.tx, query.connection_id)
    if query.shop is not None:
        return opened if opened is not None and opened.connection.shop is query.shop else None
    if opened is None:
        raise UnknownConnection(query.connection_id)
    return opened


def list_events(read: Any, query: ListShopEvents) -> ItemPage[StoredEvent]:
    """A page of events. Raises ``UnknownConnection``."""
    if query.connection_id is not None and store.find_connection(read.tx, query.connection_id) is None:
        raise UnknownConnection(query.connection_id)
    return store.list_events(read.tx, query)


def list_due(read: Any, query: ListDueEvents) -> list[DueEvent]:
    """Events whose next attempt is due."""
    return store.list_due(read.tx, query.now)


def open_event(read: Any, query: OpenShopEvent) -> OpenedEvent | None:
    """An event with its payload and its connection."""
    stored = store.find_event(read.tx, query.event_id)
    opened = None if stored is None else store.open_connection(read.tx, stored.connection_id)
    if stored is None or opened is None:
        return None
    return OpenedEvent(stored, store.find_payload(read.tx, query.event_id), opened)


def find_sold(read: Any, query: FindSoldLicenses) -> frozenset[int]:
    """The licenses that a change may change."""
    return frozenset(sold_store.list_sold_ids(read.tx, query.connection_id, query.event.change))


def find_naming(read: Any, query: FindShopEventsNaming) -> Naming:
    """Events that name a customer; none of one who has no e-mail address."""
    customer = find_customer(read.tx, query.customer_id)
    if customer is None or customer.email is None:
        return Naming((), None)
    return forgetting_store.find_naming(read.tx, customer.email, query.after_id)


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    ListConnections: list_connections,
    GetConnection: get_connection,
    ListRemovedSales: list_removed_sales,
    OpenConnection: open_connection,
    ListShopEvents: list_events,
    ListDueEvents: list_due,
    OpenShopEvent: open_event,
    FindSoldLicenses: find_sold,
    FindShopEventsNaming: find_naming,
}
