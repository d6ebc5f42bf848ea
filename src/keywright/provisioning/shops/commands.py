"""Commands and queries about connections to shops, and about what shops sent."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from keywright.core.command import Command, Cost, Query
from keywright.core.nouns import Paging
from keywright.provisioning.shops import model


class AddConnection(Command, frozen=True, kw_only=True):
    """Add a connection. ``connection`` has the fields that are given; its ID and times are not looked at.
    Without ``secret``, one is made.
    """

    connection: model.Connection
    secret: str | None = None
    api_key: str | None = None


class UpdateConnection(Command, frozen=True, kw_only=True):
    """Change the given fields, by the names they have in ``Connection``, and the secrets that are given; an
    empty API key takes it away.
    """

    connection_id: int
    changes: Mapping[str, Any] = {}
    secret: str | None = None
    api_key: str | None = None


class RemoveConnection(Command, frozen=True, kw_only=True):
    """Remove a connection with its events: what is many is deleted later, in steps. Licenses
    stay.
    """

    cost = Cost.ALONE

    connection_id: int


class TakeOverSales(Command, frozen=True, kw_only=True):
    """Let a connection go on with what a removed one of the same shop has sold: its orders are not sold
    again, and renewals and refunds reach its licenses. Returns the number of licenses. What the connection
    has sold itself stays.
    """

    cost = Cost.LONG

    connection_id: int
    removed_id: int


class StoreShopEvent(Command, frozen=True, kw_only=True):
    """Keep what a shop sent, once; the sender is going to work on it until ``next_attempt_at``. ``event`` is
    None for a body that could not be read; with a ``reason``, the event waits for a person.
    """

    connection_id: int
    event_id: str
    event: model.ShopEvent | None
    payload: model.Payload
    next_attempt_at: datetime
    detail: str | None = None
    reason: model.Reason | None = None


class ClaimLook(Command, frozen=True, kw_only=True):
    """Begin to ask the shop of a connection what runs, unless that was begun since ``before``. Returns
    whether it is the sender's.
    """

    is_internal = True

    connection_id: int
    before: datetime


class SaveTopics(Command, frozen=True, kw_only=True):
    """Keep which events the shop was not asked to send."""

    is_internal = True

    connection_id: int
    missing: tuple[str, ...]


class WorkShopEvent(Command, frozen=True, kw_only=True):
    """Do what a stored event requests. ``license_ids`` are those of the licenses that it may change, as
    ``FindSoldLicenses`` has found them.
    """

    event_id: int
    connection_id: int
    event: model.ShopEvent
    license_ids: frozenset[int] = frozenset()
    #: What this event has changed already, and whether the shop's API was asked about it, or cannot be.
    notes: Mapping[str, int] = {}
    is_asked: bool = False

    @property
    def locks(self) -> Collection[str | int]:
        """The licenses."""
        return self.license_ids


class WorkShopEventAlone(WorkShopEvent, frozen=True, kw_only=True):
    """The same for one that is about many licenses, or where locks would hold up other commands."""

    cost = Cost.STEP


class PostponeShopEvent(Command, frozen=True, kw_only=True):
    """An attempt at an event could not be finished: the next one comes later, not before ``pause`` has
    passed, or a person has to look. ``event`` is its known content.
    """

    event_id: int
    connection_id: int
    event: model.ShopEvent | None = None
    reason: model.Reason
    detail: str | None = None
    pause: timedelta = timedelta(0)


class TryAgain(Command, frozen=True, kw_only=True):
    """Work now on an event that waits for a person, or changed nothing; with ``overwrite``, it undoes what
    was done by hand. Returns the event.
    """

    connection_id: int
    event_id: int
    overwrite: bool = False


class ReplayEvents(Command, frozen=True, kw_only=True):
    """Work again on events that were received since then and are not waiting, after an ID; the oldest first,
    a bounded number. Returns the last ID, None when there are no more.
    """

    connection_id: int
    since: datetime
    after_id: int = 0


class PurgeShopEvents(Command, frozen=True, kw_only=True):
    """Delete some of the events that were received before then and do not wait. After these, delete events
    of connections that were removed. Returns how many.
    """

    is_internal = True

    before: datetime


class ListConnections(Query, frozen=True, kw_only=True):
    """All connections, by ID."""


class GetConnection(Query, frozen=True, kw_only=True):
    """A connection; raises ``UnknownConnection``."""

    connection_id: int


class ListRemovedSales(Query, frozen=True, kw_only=True):
    """What a connection can take over, as ``RemovedSales``. Raises ``UnknownConnection``."""

    cost = Cost.LIST

    connection_id: int


class OpenConnection(Query, frozen=True, kw_only=True):
    """A connection with its secrets, as ``OpenedConnection``. Raises ``UnknownConnection``; for a ``shop``
    that has no such connection, it is None.
    """

    connection_id: int
    shop: model.Shop | None = None


class ListShopEvents(Query, frozen=True, kw_only=True):
    """A page of a connection's events, the newest first, or of all connections; raises
    ``UnknownConnection``.
    """

    connection_id: int | None = None
    state: model.EventState | None = None
    paging: Paging = Paging(sort="-id")


class OpenShopEvent(Query, frozen=True, kw_only=True):
    """An event with its payload and its connection with secrets, as ``OpenedEvent``; None for one that is not
    there.
    """

    event_id: int


class FindShopEventsNaming(Query, frozen=True, kw_only=True):
    """Of some events that belong to no customer, those that have this customer's e-mail address in them, as
    ``Naming``.
    """

    cost = Cost.LIST

    customer_id: int
    after_id: int = 0


class FindDifference(Query, frozen=True, kw_only=True):
    """What is paid and not held, where an event lists the lines of a subscription: ``paid for 10, holds 3``.
    None where it is, and of a subscription that was not sold here.
    """

    cost = Cost.LIST

    connection_id: int
    event: model.ShopEvent


class FindSoldLicenses(Query, frozen=True, kw_only=True):
    """The IDs of the licenses that a change of a connection may change."""

    connection_id: int
    event: model.ShopEvent
