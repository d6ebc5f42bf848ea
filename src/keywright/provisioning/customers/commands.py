"""Commands and queries about customers."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from keywright.core.command import Command, Query
from keywright.core.paging import Paging


class CreateCustomer(Command, frozen=True, kw_only=True):
    """Make a customer; without an id it gets one of Keywright's own. The last two members are for one who was
    deleted and comes back.
    """

    id: int | None = None
    email: str | None = None
    name: str | None = None
    metadata: str | None = None
    language: str | None = None
    external_id: str | None = None
    erasure_requested_at: datetime | None = None
    unsubscribed_at: datetime | None = None


class UpdateCustomer(Command, frozen=True, kw_only=True):
    """Change the given fields, by the names they have in ``Customer``; ``metadata`` is a JSON merge patch."""

    customer_id: int
    changes: Mapping[str, Any]


class DeleteCustomer(Command, frozen=True, kw_only=True):
    """Delete the customer, if no license names it."""

    customer_id: int


class GetCustomer(Query, frozen=True, kw_only=True):
    """The customer with this id."""

    customer_id: int


class ListCustomers(Query, frozen=True, kw_only=True):
    """A page of the customers that match; names match whole, e-mail addresses in any case."""

    paging: Paging
    email: str | None = None
    name: str | None = None
    external_id: str | None = None
    updated_after: datetime | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
