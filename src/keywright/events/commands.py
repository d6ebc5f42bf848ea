"""Commands of the audit log."""

from collections.abc import Mapping
from typing import Any

from keywright.core.command import Command


class RecordEvent(Command, frozen=True, kw_only=True):
    """Write down, as an event of this name, what was done outside the database: a backup was made."""

    name: str
    details: Mapping[str, Any] | None = None
