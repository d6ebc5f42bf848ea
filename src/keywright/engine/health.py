"""Check that the database answers."""

from typing import Any

from keywright.core.command import Query


class CheckDatabase(Query, frozen=True, kw_only=True):
    """Whether the database answers."""


def check_database(read: Any, _query: CheckDatabase) -> None:
    """Raises what the database meets."""
    read.tx.ping()
