"""The state of a database besides its rows: figures for the metrics, and outages. Shared by a storage and its
clones.
"""

import logging
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple, Protocol

#: The shortest time between two log lines about the same outage, in seconds.
_LOG_INTERVAL = 60.0

log = logging.getLogger(__name__)


class Watched(Protocol):
    """A connection that may be open."""

    @property
    def is_open(self) -> bool:
        """Whether it is open."""

    @property
    def is_busy(self) -> bool:
        """Whether a transaction is open."""


class ReplicaState(NamedTuple):
    """Whether a replica is set aside, and by how many seconds it was behind at the last check, None if
    unknown.
    """

    is_aside: bool
    lag_seconds: float | None


class Outage:
    """An outage of something: logged when it begins, once a minute while it lasts, and when it ends.
    Thread-safe.
    """

    def __init__(self, sentence: str, end: str, level: int = logging.ERROR) -> None:
        """``end`` is the sentence about its end, with a placeholder for the seconds."""
        self._sentence, self._end, self._level = sentence, end, level
        self._since: float | None = None
        self._is_logged = False
        self._silent_until = 0.0

    @property
    def is_on(self) -> bool:
        """Whether the outage has begun and not ended."""
        return self._since is not None

    def note(self, problem: object) -> None:
        """Note a failure, and its reason."""
        now = monotonic()
        self._since = self._since or now
        if now >= self._silent_until:
            self._silent_until, self._is_logged = now + _LOG_INTERVAL, True
            log.log(self._level, "%s: %s", self._sentence, problem)

    def end(self) -> None:
        """Note that it works again."""
        since, self._since = self._since, None
        if since is not None and self._is_logged:
            self._is_logged = False
            log.warning(self._end, monotonic() - since)


class Watch:
    """The connections of this process, its outages, and what to call after a commit."""

    def __init__(self) -> None:
        self.reading = Outage("the database cannot be read", "the database answers again after %.0f s")
        #: Ends when something is written, not when a transaction ends that has nothing to write.
        self.writing = Outage("the database cannot be written", "changes are possible again after %.0f s")
        #: Called with the duration of a commit in seconds, in any thread.
        self.observe_commit: Callable[[float], None] = lambda _: None
        #: Connections to a server; a file has none.
        self.connections: set[Watched] = set()

    def count_connections(self) -> dict[str, int]:
        """Return the number of open connections with and without a transaction: ``busy`` and ``idle``."""
        is_open = [one.is_busy for one in list(self.connections) if one.is_open]
        return {"busy": sum(is_open), "idle": len(is_open) - sum(is_open)}
