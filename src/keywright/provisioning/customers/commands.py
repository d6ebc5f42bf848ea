"""Commands and queries about customers."""

from datetime import datetime
from typing import Any

from msgspec import field

from keywright.core.nouns import Create, Delete, Get, List, Noun, Update
from keywright.provisioning.customers.fields import CustomerFields, CustomerQuery, NewCustomer
from keywright.provisioning.customers.model import Customer


class CreateCustomer(Create, frozen=True, kw_only=True):
    """Make a customer. The last two members are for one who was deleted and is restored."""

    fields: NewCustomer
    erasure_requested_at: datetime | None = None
    unsubscribed_at: datetime | None = None

    def restored(self) -> dict[str, Any]:
        """What is stored with the fields."""
        return {
            "erasure_requested_at": self.erasure_requested_at,
            "unsubscribed_at": self.unsubscribed_at,
        }


class UpdateCustomer(Update, frozen=True, kw_only=True):
    """Change a customer."""

    fields: CustomerFields


class DeleteCustomer(Delete, frozen=True, kw_only=True):
    """Delete the customer, if no license names it."""


class GetCustomer(Get, frozen=True, kw_only=True):
    """The customer with this ID."""


class ListCustomers(List, frozen=True, kw_only=True):
    """A page of the customers that match; names match whole, e-mail addresses in any case."""

    where: CustomerQuery = field(default_factory=CustomerQuery)


CUSTOMER = Noun(
    *("customer", Customer, CustomerFields, NewCustomer, CustomerQuery),
    *(CreateCustomer, UpdateCustomer, DeleteCustomer, GetCustomer, ListCustomers),
)
