"""The handlers of the queries about connections and the events of shops."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from keywright.core.command import Query
from keywright.core.errors import UnknownConnection
from keywright.core.nouns import ItemPage
from keywright.db import ReadTransaction
from keywright.provisioning.shops import commands, event_rules, later_store, model, rules, sold_store, store
from keywright.provisioning.shops.later_purchases import Holding
from keywright.provisioning.shops.line_rules import list_lines
from keywright.provisioning.shops.outcome_rules import compare_held
from keywright.provisioning.store import CUSTOMERS


def list_connections(read: Any, query: commands.ListConnections) -> list[model.Connection]:
    """List all connections."""
    return store.list_connections(read.tx)


def get_connection(read: Any, query: commands.GetConnection) -> model.Connection:
    """Return a connection. Raises ``UnknownConnection``."""
    connection = store.find_connection(read.tx, query.connection_id)
    if connection is None:
        raise UnknownConnection(query.connection_id)
    return connection


def list_removed_sales(read: Any, query: commands.ListRemovedSales) -> list[model.RemovedSales]:
    """List the sales that a connection can take over. Raises ``UnknownConnection``."""
    connection = get_connection(read, commands.GetConnection(connection_id=query.connection_id))
    return sold_store.list_removed(read.tx, connection.shop)


def open_connection(read: Any, query: commands.OpenConnection) -> model.OpenedConnection | None:
    """Return a connection with its secrets. Raises ``UnknownConnection``; with ``shop``, it may be None."""
    opened = store.open_connection(read.tx, query.connection_id)
    if query.shop is not None:
        return opened if opened is not None and opened.connection.shop is query.shop else None
    if opened is None:
        raise UnknownConnection(query.connection_id)
    return opened


def list_events(read: Any, query: commands.ListShopEvents) -> ItemPage[model.StoredEvent]:
    """Return a page of events. Raises ``UnknownConnection``."""
    if query.connection_id is not None and store.find_connection(read.tx, query.connection_id) is None:
        raise UnknownConnection(query.connection_id)
    return store.list_events(read.tx, query)


def open_event(read: Any, query: commands.OpenShopEvent) -> model.OpenedEvent | None:
    """Return an event with its payload and its connection."""
    stored = store.find_event(read.tx, query.event_id)
    opened = None if stored is None else store.open_connection(read.tx, stored.connection_id)
    if stored is None or opened is None:
        return None
    return model.OpenedEvent(stored, store.find_payload(read.tx, query.event_id), opened)


def find_sold(read: Any, query: commands.FindSoldLicenses) -> frozenset[int]:
    """Return the IDs of the licenses that an event may change."""
    number, change = query.connection_id, query.event.change
    later = later_store.list_ids(read.tx, number, change)
    return frozenset(sold_store.list_sold_ids(read.tx, number, change) | later)


def find_difference(read: Any, query: commands.FindDifference) -> str | None:
    """Describe the difference between what is paid for and held."""
    change = query.event.change
    if not isinstance(change, model.Lines):
        return None
    connection = get_connection(read, commands.GetConnection(connection_id=query.connection_id))
    ref = sold_store.find_subscription(read.tx, connection.id, change.subscription) or change.subscription
    holding = Holding(read.tx, connection.id, connection.mapping, lambda _: None)
    held = holding.read_held(None, ref)
    if not held.lines:
        return None
    resolve = holding.resolver(held)
    known = rules.learn(
        sold_store.find_known(read.tx, connection.id, None, ref),
        replace(change, subscription=ref),
        event_rules.to_milliseconds(query.event.at or connection.updated_at),
    )
    lines = list_lines(known, resolve)
    paid = [one.line for one in lines if one.gone_at is None and not one.is_once]
    return compare_held(paid, held, {one.key for one in lines if one.is_once}, resolve)


def find_naming(read: Any, query: commands.FindShopEventsNaming) -> model.Naming:
    """Find the events that contain a customer's e-mail address; none for a customer without one."""
    return find_naming_in(read.tx, query)


def find_naming_in(tx: ReadTransaction, query: commands.FindShopEventsNaming) -> model.Naming:
    """Do the same in a transaction."""
    customer = CUSTOMERS.find(tx, query.customer_id)
    if customer is None or customer.email is None:
        return model.Naming((), None)
    return later_store.find_naming(tx, customer.email, query.after_id)


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    commands.ListConnections: list_connections,
    commands.GetConnection: get_connection,
    commands.ListRemovedSales: list_removed_sales,
    commands.OpenConnection: open_connection,
    commands.ListShopEvents: list_events,
    commands.OpenShopEvent: open_event,
    commands.FindDifference: find_difference,
    commands.FindSoldLicenses: find_sold,
    commands.FindShopEventsNaming: find_naming,
}
