"""Maintenance commands: erase personal data, and delete old events and addresses."""

from collections.abc import Collection, Mapping
from datetime import datetime

from keywright.core.command import Command, Cost, Query


class EraseCustomer(Command, frozen=True, kw_only=True):
    """Erase some of the data of the customer with this number; with ``is_step``, not the last of it. Of these
    events of shops, which belong to no customer, what was sent is erased, too.
    """

    customer_id: int
    is_step: bool = False
    shop_event_ids: Collection[int] = ()


class ExportCustomer(Query, frozen=True, kw_only=True):
    """Everything stored about the customer with this number."""

    cost = Cost.LIST

    customer_id: int


class RequireCustomerData(Query, frozen=True, kw_only=True):
    """Whether anything is stored about the customer with this number."""

    cost = Cost.LIST

    customer_id: int


class PurgeEvents(Command, frozen=True, kw_only=True):
    """Delete some events from before this moment (None: none), or find licenses that may have too many
    events; with a license, delete some of its surplus events.
    """

    cost = Cost.ALONE

    before: datetime | None = None
    license_id: int | None = None


class PurgeDeletedLicenses(Command, frozen=True, kw_only=True):
    """Delete some of what is kept of licenses that were deleted before this moment."""

    cost = Cost.ALONE

    before: datetime


class PurgeUsage(Command, frozen=True, kw_only=True):
    """Delete some usage of meters in periods that began before this moment."""

    cost = Cost.ALONE

    before: datetime


class PurgeAddresses(Command, frozen=True, kw_only=True):
    """Erase the addresses of those of these activations (license id, token) that were given up before this
    moment, and of some earlier events.
    """

    cost = Cost.ALONE
    is_internal = True

    before: datetime
    places: tuple[tuple[int, str], ...] = ()


class SaveSettings(Command, frozen=True, kw_only=True):
    """Store settings that were changed in the pages, as texts; None is the default again."""

    changes: Mapping[str, str | None]


class ListSettings(Query, frozen=True, kw_only=True):
    """Every setting that is stored, as a text, by its name."""


class BelieveClock(Command, frozen=True, kw_only=True):
    """The clock is right now; with ``is_confirmed``, a person says so."""

    is_confirmed: bool = False


class FindBelieved(Query, frozen=True, kw_only=True):
    """The last moment at which the clock was believed; None where nothing has ever happened."""
