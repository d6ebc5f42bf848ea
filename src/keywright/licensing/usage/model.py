"""Usage of meters."""

from datetime import datetime

import msgspec


class MeterUsage(msgspec.Struct, frozen=True, gc=False):
    """How much of a meter was used in the period that begins at ``period_start``."""

    license_id: int
    meter: str
    period_start: datetime
    used: int


class RecordedUsage(msgspec.Struct, frozen=True, gc=False):
    """The usage of a meter after an amount was counted; it starts again at ``resets_at``, None for never."""

    usage: MeterUsage
    limit: int
    resets_at: datetime | None
