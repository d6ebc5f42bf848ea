"""Count the use of meters; close their periods, and list them."""

from datetime import datetime

import msgspec

from keywright.core.command import Command, Cost, Query
from keywright.licensing.activations.commands import ProgramCommand


class RecordUsage(ProgramCommand, frozen=True, kw_only=True):
    """Count an amount of a meter of the license."""

    meter: str
    amount: int


class ClosePeriods(Command, frozen=True, kw_only=True):
    """Close the periods of these licenses that have been over for long enough; also of deleted ones."""

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
    """Which periods are listed: those that begin in a span (``until`` is not in it); None is all."""

    only_product_id: int | None = None
    license_id: int | None = None
    product_id: int | None = None
    meter: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    is_closed: bool | None = None


#: The place of a period in a list: its license, its meter, and its first second as it is stored.
Place = tuple[int, str, int]


class ListPeriods(Query, frozen=True, kw_only=True):
    """Periods by license, meter and time, those after a place; or the newest ones."""

    cost = Cost.LIST

    where: PeriodFilter
    after: Place | None = None
    is_newest_first: bool = False
    limit: int
    is_counted: bool = False
