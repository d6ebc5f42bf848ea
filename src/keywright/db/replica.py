"""Reads from replicas, without stale data.

Before a replica answers, it must have replayed everything that was durable on the primary when the query
arrived: the answer includes every change that was acknowledged to any caller before. The primary is asked for
its position once per batch, which is cheap. If a replica does not get that far within a few milliseconds, the
primary answers. A replica that is far behind, or behind repeatedly, is set aside for some seconds, so that
queries do not wait for it.
"""

import logging
import time
from typing import Any

from sqlalchemy import text

from keywright.core.errors import Unavailable
from keywright.db.session import Session
from keywright.db.watch import ReplicaState

#: The primary's write-ahead log location and timeline: every acknowledged commit is before it.
_POSITION = text(
    "SELECT lsn::text, ('x' || left(pg_walfile_name(lsn), 8))::bit(32)::int "
    "FROM pg_current_wal_flush_lsn() AS lsn"
)
#: Whether the replica has replayed up to this position, and the age of its latest transaction in
#: milliseconds; NULL on a primary. A replica that streams from no server, or follows another timeline (which
#: only some roles may see), may have diverged after a failover.
_PROGRESS = text(
    "SELECT pg_last_wal_replay_lsn() >= CAST(:position AS pg_lsn) AND EXISTS ("
    "SELECT 1 FROM pg_stat_wal_receiver WHERE coalesce(received_tli = :timeline, true)), "
    "1000 * extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())"
)
#: How often a replica is checked per batch, and the time between two checks, in seconds.
_MAX_CHECKS = 4
_CHECK_INTERVAL = 0.001
#: A replica that was behind this many times in a row is set aside.
MAX_BEHIND = 5
#: How long a replica is set aside, in seconds; the time doubles with each failure.
MIN_PAUSE, MAX_PAUSE = 1.0, 30.0
#: The timeout for an answer of a replica, in seconds.
_TIMEOUT = 2.0

log = logging.getLogger(__name__)


class Availability:
    """Whether a replica is used. One that is set aside is tried again with a single query after a pause.
    ``now`` is the monotonic clock in seconds.
    """

    def __init__(self, *, log_level: int = logging.WARNING) -> None:
        self._log_level = log_level
        self.is_aside = False
        self._not_before = 0.0
        self._pause = MIN_PAUSE
        self._times_behind = 0

    def may_ask(self, now: float) -> bool:
        """Whether to use the replica for the next query."""
        return not self.is_aside or now >= self._not_before

    def note_answer(self) -> None:
        """Note that the replica is up to date."""
        if self.is_aside:
            log.log(self._log_level, "the replica answers questions again")
        self.is_aside, self._pause, self._times_behind = False, MIN_PAUSE, 0

    def note_behind(self, now: float, *, is_far: bool) -> None:
        """Note that the replica is behind; ``is_far`` if by more than the limit."""
        self._times_behind += 1
        if self.is_aside or is_far or self._times_behind >= MAX_BEHIND:
            self._set_aside(now, "is behind")

    def note_failure(self, now: float) -> None:
        """Note that the replica cannot be used."""
        self._set_aside(now, "does not answer")

    def _set_aside(self, now: float, reason: str) -> None:
        if not self.is_aside:
            log.log(self._log_level, "the replica %s; the primary answers until it can be used", reason)
        self.is_aside, self._not_before = True, now + self._pause
        self._pause = min(2 * self._pause, MAX_PAUSE)


class Replica:
    """One of the servers in the URL; libpq chooses."""

    def __init__(self, url: str, *, lag_limit: int, availability: Availability | None = None) -> None:
        """``lag_limit`` is in milliseconds. Raises ``ConfigurationError`` for an invalid URL."""
        self._url = url
        self._lag_limit = lag_limit
        self._availability = availability or Availability()
        options: dict[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        self._snapshots = Session(url, timeout=_TIMEOUT, **options)
        self._statements = Session(url, timeout=_TIMEOUT, isolation_level="AUTOCOMMIT")
        self.sessions = [self._snapshots, self._statements]
        self._lag_seconds: float | None = None

    @property
    def state(self) -> ReplicaState:
        """Whether it is set aside, and how far it was behind at the last check."""
        return ReplicaState(self._availability.is_aside, self._lag_seconds)

    def session(self, primary: Session, *, is_single: bool) -> Session | None:
        """Return a session on the replica, or None if it has not replayed up to the primary's position.

        Raises the errors of a query on the primary.
        """
        if not self._availability.may_ask(time.monotonic()):
            return None
        with primary.transaction() as connection:
            position, timeline = connection.execute(_POSITION).one()
        # The session that is checked must be the one that answers: two sessions may be on different servers.
        session = self._statements if is_single else self._snapshots
        try:
            has_replayed = self._has_replayed(session, {"position": position, "timeline": timeline})
        except Unavailable:
            self.set_aside()
            return None
        if not has_replayed:
            return None
        self._availability.note_answer()
        return session

    def set_aside(self) -> None:
        """Stop using the replica for a while: it failed."""
        self._availability.note_failure(time.monotonic())

    def clone(self) -> "Replica":
        """Return another object on the same replica, with its own connections, for another thread."""
        # libpq may choose another server for it, which is judged separately; the log is about the first one.
        quiet = Availability(log_level=logging.DEBUG)
        return Replica(self._url, lag_limit=self._lag_limit, availability=quiet)

    def interrupt(self) -> None:
        """Break the connections, from another thread."""
        self._snapshots.interrupt()
        self._statements.interrupt()

    def close(self) -> None:
        """Close the connections."""
        self._snapshots.close()
        self._statements.close()

    def _has_replayed(self, session: Session, position: dict[str, Any]) -> bool:
        lag = None
        for check in range(_MAX_CHECKS):
            if check:
                time.sleep(_CHECK_INTERVAL)
            # Each check is a transaction of its own: the query after it sees at least the same state.
            with session.transaction() as connection:
                has_replayed, lag = connection.execute(_PROGRESS, position).one()
            self._lag_seconds = 0.0 if has_replayed else None if lag is None else float(lag) / 1000
            if has_replayed:
                return True
        is_far = lag is None or lag > self._lag_limit
        self._availability.note_behind(time.monotonic(), is_far=is_far)
        return False
