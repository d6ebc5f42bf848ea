"""Commands and queries about connections to shops, and about their events."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from keywright.core.command import Command, Cost, Query
from keywright.core.nouns import Paging
from keywright.provisioning.shops import model


class AddConnection(Command, frozen=True, kw_only=True):
    """Add a connection with the fields of ``connection``, whose ID and times are ignored. Without ``secret``,
    one is generated.
    """

    connection: model.Connection
    secret: str | None = None
    api_key: str | None = None


class UpdateConnection(Command, frozen=True, kw_only=True):
    """Change the given fields, named as in ``Connection``, and secrets; an empty API key removes it."""

    connection_id: int
    changes: Mapping[str, Any] = {}
    secret: str | None = None
    api_key: str | None = None


class RemoveConnection(Command, frozen=True, kw_only=True):
    """Remove a connection. Its licenses stay; its many events are deleted later, in steps."""

    cost = Cost.ALONE

    connection_id: int


class TakeOverSales(Command, frozen=True, kw_only=True):
    """Assign the sales of a removed connection of the same shop to this one: its orders are not sold again,
    and renewals and refunds reach its licenses. The connection's own sales take precedence. Returns the
    number of licenses.
    """

    cost = Cost.LONG

    connection_id: int
    removed_id: int


class StoreShopEvent(Command, frozen=True, kw_only=True):
    """Store an event of a shop, once; the sender processes it until ``next_attempt_at``. ``event`` is None
    for a body that could not be read; with a ``reason``, the event waits for a person.
    """

    connection_id: int
    event_id: str
    event: model.ShopEvent | None
    payload: model.Payload
    next_attempt_at: datetime
    detail: str | None = None
    reason: model.Reason | None = None


class ClaimLook(Command, frozen=True, kw_only=True):
    """Claim the check of what runs in the connection's shop, unless one was started since ``before``. Returns
    whether the sender has the claim.
    """

    is_internal = True

    connection_id: int
    before: datetime


class SaveTopics(Command, frozen=True, kw_only=True):
    """Store which topics the shop is not set up to send."""

    is_internal = True

    connection_id: int
    missing: tuple[str, ...]


class WorkShopEvent(Command, frozen=True, kw_only=True):
    """Apply a stored event. ``license_ids`` are the IDs of the licenses that it may change, as returned by
    ``FindSoldLicenses``.
    """

    event_id: int
    connection_id: int
    event: model.ShopEvent
    license_ids: frozenset[int] = frozenset()
    #: What earlier attempts have changed, and whether the shop's API was asked about the event, or cannot be.
    notes: Mapping[str, int] = {}
    is_asked: bool = False

    @property
    def locks(self) -> Collection[str | int]:
        """The licenses that the event may change."""
        return self.license_ids


class WorkShopEventAlone(WorkShopEvent, frozen=True, kw_only=True):
    """The same for an event about many licenses, or whose locks would hold up other commands."""

    cost = Cost.STEP


class PostponeShopEvent(Command, frozen=True, kw_only=True):
    """Postpone an event that could not be applied: schedule another attempt, not before ``pause`` has passed,
    or let it wait for a person. ``event`` is its content, if known.
    """

    event_id: int
    connection_id: int
    event: model.ShopEvent | None = None
    reason: model.Reason
    detail: str | None = None
    pause: timedelta = timedelta(0)


class TryAgain(Command, frozen=True, kw_only=True):
    """Schedule an event for now, unless it is done; with ``overwrite``, it replaces what was done by hand.
    Returns the event.
    """

    connection_id: int
    event_id: int
    overwrite: bool = False


class ReplayEvents(Command, frozen=True, kw_only=True):
    """Schedule again a batch of the events received since then, after an ID, oldest first. Returns the last
    ID, None if there are no more.
    """

    connection_id: int
    since: datetime
    after_id: int = 0


class PurgeShopEvents(Command, frozen=True, kw_only=True):
    """Delete a batch of the events received before then that are done or ignored; after these, of the events
    of removed connections. Returns their number.
    """

    is_internal = True

    before: datetime


class ListConnections(Query, frozen=True, kw_only=True):
    """All connections, by ID."""


class GetConnection(Query, frozen=True, kw_only=True):
    """The connection with this ID. Raises ``UnknownConnection``."""

    connection_id: int


class ListRemovedSales(Query, frozen=True, kw_only=True):
    """The sales that a connection can take over, as ``RemovedSales``. Raises ``UnknownConnection``."""

    cost = Cost.LIST

    connection_id: int


class OpenConnection(Query, frozen=True, kw_only=True):
    """A connection with its secrets, as ``OpenedConnection``. Raises ``UnknownConnection``; with ``shop``, it
    is None if that shop has no such connection.
    """

    connection_id: int
    shop: model.Shop | None = None


class ListShopEvents(Query, frozen=True, kw_only=True):
    """A page of the events of a connection, or of all, newest first. Raises ``UnknownConnection``."""

    connection_id: int | None = None
    state: model.EventState | None = None
    paging: Paging = Paging(sort="-id")


class OpenShopEvent(Query, frozen=True, kw_only=True):
    """An event with its payload, and its connection with secrets, as ``OpenedEvent``, or None."""

    event_id: int


class FindShopEventsNaming(Query, frozen=True, kw_only=True):
    """In a batch of events without a customer, those with this customer's e-mail address, as ``Naming``."""

    cost = Cost.LIST

    customer_id: int
    after_id: int = 0


class FindDifference(Query, frozen=True, kw_only=True):
    """The difference between what a subscription has paid for and holds, by an event that lists its lines:
    ``paid for 10, holds 3``. None if there is no difference, or the subscription was not sold here.
    """

    cost = Cost.LIST

    connection_id: int
    event: model.ShopEvent


class FindSoldLicenses(Query, frozen=True, kw_only=True):
    """The IDs of the licenses that an event of a connection may change."""

    connection_id: int
    event: model.ShopEvent
