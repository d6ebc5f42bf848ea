"""Check that the database answers."""

from typing import Any

from keywright.core.command import Query
from keywright.provisioning.generators import store as generator_store


class CheckStore(Query, frozen=True, kw_only=True):
    """Whether the database answers."""


def check(read: Any, _query: CheckStore) -> None:
    """The database answers."""
    generator_store.list_generators(read.tx)
