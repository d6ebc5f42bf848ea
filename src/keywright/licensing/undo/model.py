"""What can be undone, and what came of it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec


class PastChange(msgspec.Struct, frozen=True, array_like=True):
    """A change of a license, as its event tells it."""

    name: str
    changed_at: datetime
    activation_id: int | None = None
    details: Mapping[str, Any] | None = None


class Undone(msgspec.Struct, frozen=True):
    """The license whose changes were undone; ``is_deleted`` if it was made by them, and is gone now."""

    license_id: int
    is_deleted: bool = False
