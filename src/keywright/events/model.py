"""Events."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True):
    """Something that happened, named noun.past; ``license_id`` is 0 where it is not about a license, and
    ``details`` never holds a full key.
    """

    occurred_at: datetime
    name: str
    license_id: int
    activation_id: int | None
    actor: str
    ip_address: str
    details: Mapping[str, Any] | None = None
