"""Check that the database answers, and takes changes."""

from typing import Any

from keywright.core.command import Command, Query


class CheckDatabase(Query, frozen=True, kw_only=True):
    """Whether the database answers."""


def check_database(read: Any, _query: CheckDatabase) -> None:
    """Raises what the database meets."""
    read.tx.ping()


class ProbeWrite(Command, frozen=True, kw_only=True):
    """Whether the database takes changes."""


def probe_write(work: Any, _command: ProbeWrite) -> None:
    """Leaves no change. Raises what the database meets."""
    work.tx.probe()
