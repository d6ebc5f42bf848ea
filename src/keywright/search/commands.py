"""Commands that keep the search terms and counters up to date."""

from collections.abc import Mapping
from datetime import date, datetime

import msgspec

from keywright.core.command import Command, Cost, Query


class ProjectEvents(Command, frozen=True, kw_only=True):
    """Project the next events, at most ``limit``, or as much of the data from before the first event."""

    cost = Cost.ALONE
    is_internal = True

    limit: int


class CountDevices(Command, frozen=True, kw_only=True):
    """Count some of the active devices of today, once a day; returns whether there are more."""

    cost = Cost.ALONE
    is_internal = True


#: Versions in use are listed for at most so many days.
MAX_VERSION_DAYS = 365


class VersionInUse(msgspec.Struct, frozen=True):
    """The active devices of a product with a version and a platform, "" where none is known, by when they
    were seen last. ``*`` is all other versions, where there are very many.
    """

    app_version: str
    platform: str
    devices: int
    seen_1_day: int
    seen_7_days: int


class VersionOnDay(msgspec.Struct, frozen=True):
    """The active devices with a version on a day."""

    day: date
    app_version: str
    devices: int


class VersionsInUse(msgspec.Struct, frozen=True):
    """The devices of a product that were seen within 30 days, as counted on a day, the most used version
    first; and by version on each day, the oldest first.
    """

    counted_on: date | None
    devices: int
    versions: tuple[VersionInUse, ...]
    days: tuple[VersionOnDay, ...]


class ListVersions(Query, frozen=True, kw_only=True):
    """Which versions of a product are in use, now and on so many days before."""

    product_id: int
    now: datetime
    days: int = 30
    only_product_id: int | None = None


class PurgeRefusals(Command, frozen=True, kw_only=True):
    """Delete some of what is kept of calls that were refused before this moment; returns how much."""

    cost = Cost.ALONE

    before: datetime


class SaveCounters(Command, frozen=True, kw_only=True):
    """Store the counters since the last time: validations, also by product, refusals at the limit by license
    key, the last use of API keys, and calls through a proxy that is not trusted.
    """

    cost = Cost.ALONE
    is_internal = True

    validations: int = 0
    product_validations: Mapping[int, int] = {}
    forwarded_blindly: int = 0
    refused: Mapping[str, int] = {}
    used_api_keys: Mapping[int, datetime] = {}
