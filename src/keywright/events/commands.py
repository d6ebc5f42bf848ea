"""Commands of the audit log."""

from collections.abc import Mapping
from typing import Any

from keywright.core.command import Command, Cost


class RecordEvent(Command, frozen=True, kw_only=True):
    """Write down, as an event of this name, what was done outside the database: a backup was made."""

    name: str
    details: Mapping[str, Any] | None = None


class SettleEvents(Command, frozen=True, kw_only=True):
    """Find out up to which event none can still be committed; returns whether that is the newest one."""

    cost = Cost.ALONE
    is_internal = True
