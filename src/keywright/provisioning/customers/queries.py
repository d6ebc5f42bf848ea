"""Read customers."""

from collections.abc import Callable
from typing import Any

from keywright.core.command import Query
from keywright.core.errors import NotFound
from keywright.core.paging import ItemPage
from keywright.provisioning.customers import store as customer_store
from keywright.provisioning.customers.commands import GetCustomer, ListCustomers
from keywright.provisioning.customers.model import Customer


def get_customer(read: Any, query: GetCustomer) -> Customer:
    """One customer. Raises ``NotFound``."""
    customer = customer_store.find_customer(read.tx, query.customer_id)
    if customer is None:
        raise NotFound(f"customer {query.customer_id}")
    return customer


def list_customers(read: Any, query: ListCustomers) -> ItemPage[Customer]:
    """A page of customers."""
    return customer_store.list_customers(read.tx, query)


QUERY_HANDLERS: dict[type[Query], Callable[[Any, Any], Any]] = {
    GetCustomer: get_customer,
    ListCustomers: list_customers,
}
