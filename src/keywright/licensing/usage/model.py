"""Usage of meters, and its commands."""

from datetime import datetime
from typing import Any

import msgspec

from keywright.core.command import Command, Cost, Query
from keywright.licensing.activations.model import ProgramCommand


class MeterUsage(msgspec.Struct, frozen=True, gc=False):
    """The amount of a meter used from ``period_start`` up to, not including, ``period_end`` (``END_OF_TIME``
    for never).

    ``meter_limit`` is None until the period is closed or its license is deleted; product and customer are
    then those of that moment. After ``closed_at``, nothing changes any more.
    """

    license_id: int
    meter: str
    period_start: datetime
    used: int
    period_end: datetime
    meter_limit: int | None = None
    product_id: int | None = None
    customer_id: int | None = None
    closed_at: datetime | None = None

    @property
    def place(self) -> tuple[int, str, int]:
        """The position in a list: license, meter, and first second."""
        return self.license_id, self.meter, int(self.period_start.timestamp())

    @property
    def overage(self) -> int:
        """The amount above the limit."""
        return 0 if self.meter_limit is None else max(0, self.used - self.meter_limit)

    def to_details(self) -> dict[str, Any]:
        """Return the details of the event of a closed period."""
        return {
            "meter": self.meter,
            "period_start": self.period_start,
            "period_end": self.period_end,
            "used": self.used,
            "limit": self.meter_limit,
            "overage": self.overage,
            "customer_id": self.customer_id,
            "product_id": self.product_id,
        }


class RecordedUsage(msgspec.Struct, frozen=True, gc=False):
    """The usage of a meter after an amount was counted; it restarts at ``resets_at``, None for never."""

    usage: MeterUsage
    limit: int
    resets_at: datetime | None


class RecordUsage(ProgramCommand, frozen=True, kw_only=True):
    """Count an amount on a meter of the license."""

    meter: str
    amount: int


class ClosePeriods(Command, frozen=True, kw_only=True):
    """Close the periods of these licenses that ended long enough ago, including those of deleted licenses."""

    cost = Cost.STEP
    is_internal = True

    license_ids: tuple[int, ...]

    @property
    def locks(self) -> tuple[int, ...]:
        """The licenses."""
        return self.license_ids


class FindDuePeriods(Query, frozen=True, kw_only=True):
    """Some licenses with periods that can be closed."""

    now: datetime


class PeriodFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of a list of periods that begin at ``since`` or later, before ``until``; None: any."""

    only_product_id: int | None = None
    license_id: int | None = None
    product_id: int | None = None
    meter: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    is_closed: bool | None = None


#: The position of a period in a list: its license, its meter, and its first second as stored.
Place = tuple[int, str, int]


class ListPeriods(Query, frozen=True, kw_only=True):
    """Periods by license, meter and time, after a position; or the newest ones."""

    cost = Cost.LIST

    where: PeriodFilter
    after: Place | None = None
    is_newest_first: bool = False
    limit: int
    is_counted: bool = False
