"""Questions answered by replicas, without ever showing the past.

Before it answers, a replica has to have replayed all that the primary had made durable at that moment,
whoever changed it: what was acknowledged to anybody before the question came is seen. Asking the primary
how far it is costs it next to nothing, and once per batch. A replica that is not that far in a few
milliseconds is passed over, and one that is far behind is left alone for a while.
"""

import time
from typing import Any

from sqlalchemy import text

from keywright.core.errors import Unavailable
from keywright.db.session import Session

#: How far the primary is, and on which timeline: whatever was acknowledged is before this (write-ahead log
#: location).
_POSITION = text(
    "SELECT lsn::text, ('x' || left(pg_walfile_name(lsn), 8))::bit(32)::int "
    "FROM pg_current_wal_flush_lsn() AS lsn"
)
#: Whether the replica is that far, and how many milliseconds old what it knows is; nothing on a primary. A
#: replica that follows nobody, or another timeline (which only some roles may see), may have a history of
#: its own after a failover.
_PROGRESS = text(
    "SELECT pg_last_wal_replay_lsn() >= CAST(:position AS pg_lsn) AND EXISTS ("
    "SELECT 1 FROM pg_stat_wal_receiver WHERE coalesce(received_tli = :timeline, true)), "
    "1000 * extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())"
)
#: A replica that is nearly there is waited for: that often, that many seconds.
_LOOKS = 4
_BETWEEN = 0.001
#: One that cannot be used is left alone for that long, in seconds, and twice as long each time.
_REST = 1.0
_LONGEST_REST = 30.0
#: How long a replica's answer is waited for, in seconds.
_PATIENCE = 2.0


class Replica:
    """One of the servers that the URL names, as libpq chooses."""

    def __init__(self, url: str, *, lag_limit: int) -> None:
        """``lag_limit`` is in milliseconds. Raises ``ConfigurationError`` for a URL that cannot be used."""
        self._url = url
        self._lag_limit = lag_limit
        options: dict[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        self._snapshots = Session(url, patience=_PATIENCE, **options)
        self._statements = Session(url, patience=_PATIENCE, isolation_level="AUTOCOMMIT")
        self._rest = _REST
        self._not_before = 0.0

    def session(self, primary: Session, *, is_single: bool) -> Session | None:
        """The session to ask, or None when the replica is not as far as the primary is now.

        Raises what asking the primary raises.
        """
        if time.monotonic() < self._not_before:
            return None
        with primary.transaction() as connection:
            position, timeline = connection.execute(_POSITION).one()
        # The session that will answer is the one that is asked: two of them may be on different servers.
        session = self._statements if is_single else self._snapshots
        try:
            is_there = self._reaches(session, {"position": position, "timeline": timeline})
        except Unavailable:
            self.rest()
            return None
        if not is_there:
            return None
        self._rest = _REST
        return session

    def rest(self) -> None:
        """Leave the replica alone for a while."""
        self._not_before = time.monotonic() + self._rest
        self._rest = min(2 * self._rest, _LONGEST_REST)

    def beside(self) -> "Replica":
        """The same replica, with connections of its own, for another thread."""
        return Replica(self._url, lag_limit=self._lag_limit)

    def interrupt(self) -> None:
        """Break the connections, from another thread."""
        self._snapshots.interrupt()
        self._statements.interrupt()

    def close(self) -> None:
        """Close the connections."""
        self._snapshots.close()
        self._statements.close()

    def _reaches(self, session: Session, position: dict[str, Any]) -> bool:
        behind = None
        for look in range(_LOOKS):
            if look:
                time.sleep(_BETWEEN)
            # Each look is a statement of its own: what is asked afterwards sees at least what it saw.
            with session.transaction() as connection:
                is_there, behind = connection.execute(_PROGRESS, position).one()
            if is_there:
                return True
        if behind is None or behind > self._lag_limit:
            self.rest()
        return False
