"""Events, and the commands of the audit log."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from keywright.core.command import Command, Cost


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


class RecordEvent(Command, frozen=True, kw_only=True):
    """Write down, as an event of this name, what was done outside the database: a backup was made."""

    name: str
    details: Mapping[str, Any] | None = None


class SettleEvents(Command, frozen=True, kw_only=True):
    """Find out up to which event none can still be committed; returns whether that is the newest one."""

    cost = Cost.ALONE
    is_internal = True
