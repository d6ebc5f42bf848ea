"""How often a customer may free a device of a license."""

from datetime import datetime

import msgspec


class RemovalsLeft(msgspec.Struct, frozen=True, gc=False):
    """How many devices a customer may free now; ``count`` None is any number. ``next_at`` is when there is
    one more, None where time changes nothing.
    """

    count: int | None = None
    next_at: datetime | None = None
