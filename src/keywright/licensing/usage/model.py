"""Usage of meters."""

from datetime import datetime
from typing import Any

import msgspec


class MeterUsage(msgspec.Struct, frozen=True, gc=False):
    """How much of a meter was used from ``period_start`` up to, not including, ``period_end``, which is
    ``END_OF_TIME`` for never.

    ``meter_limit`` is None until the period is closed or its license is deleted; then the product and the
    customer are those of that moment. After ``closed_at``, nothing changes any more.
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
        """Its license, its meter, and its first second: its place in a list."""
        return self.license_id, self.meter, int(self.period_start.timestamp())

    @property
    def overage(self) -> int:
        """The amount above the limit."""
        return 0 if self.meter_limit is None else max(0, self.used - self.meter_limit)

    def to_details(self) -> dict[str, Any]:
        """The details of the event of a period that was closed."""
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
    """The usage of a meter after an amount was counted; it starts again at ``resets_at``, None for never."""

    usage: MeterUsage
    limit: int
    resets_at: datetime | None
