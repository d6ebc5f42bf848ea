"""Figures of a database for the metrics; a storage and its clones share them."""

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Watched(Protocol):
    """A connection that may be open."""

    @property
    def is_open(self) -> bool:
        """Whether it is open."""

    @property
    def is_busy(self) -> bool:
        """Whether it has a transaction."""


class ReplicaState(NamedTuple):
    """Whether a replica is set aside; and by how many seconds it was behind when it was checked last, None
    where that is unknown.
    """

    is_aside: bool
    lag_seconds: float | None


class Watch:
    """The connections of this process, and what to call after a commit."""

    def __init__(self) -> None:
        #: Called with the seconds that a commit took, in any thread.
        self.observe_commit: Callable[[float], None] = lambda _: None
        #: Connections to a server; a file has none.
        self.connections: set[Watched] = set()

    def count_connections(self) -> dict[str, int]:
        """The open connections with and without a transaction: ``busy`` and ``idle``."""
        is_open = [one.is_busy for one in list(self.connections) if one.is_open]
        return {"busy": sum(is_open), "idle": len(is_open) - sum(is_open)}
