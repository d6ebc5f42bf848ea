"""Check that the database answers queries and accepts changes."""

from typing import Any

from keywright.core.command import Command, Query


class CheckDatabase(Query, frozen=True, kw_only=True):
    """Check that the database answers."""


def check_database(read: Any, _query: CheckDatabase) -> None:
    """Raise the error of the database, if it does not answer."""
    read.tx.ping()


class ProbeWrite(Command, frozen=True, kw_only=True):
    """Check that the database accepts changes."""


def probe_write(work: Any, _command: ProbeWrite) -> None:
    """Raise the error of the database, if it accepts no changes. Changes nothing."""
    work.tx.probe()
