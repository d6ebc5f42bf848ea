"""Questions answered by replicas, without ever showing the past.

Before it answers, a replica has to have replayed all that the primary had made durable at that moment,
whoever changed it: what was acknowledged to anybody before the question came is seen. Asking the primary
how far it is costs it next to nothing, and once per batch. A replica that is not that far in a few
milliseconds is passed over, and one that is far behind is left alone for a while.
"""

import time

from sqlalchemy import text

from keywright.errors import Unavailable
from keywright.storage.session import Session

#: How far the primary is: whatever was acknowledged is before this (write-ahead log location).
_POSITION = text("SELECT pg_current_wal_flush_lsn()::text")
#: Whether the replica is that far, and how many milliseconds old what it knows is; nothing on a primary.
_PROGRESS = text(
    "SELECT pg_last_wal_replay_lsn() >= CAST(:position AS pg_lsn), "
    "1000 * extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())"
)
#: A replica that is nearly there is waited for: that often, that many seconds.
_LOOKS = 4
_BETWEEN = 0.001
#: One that cannot be used is left alone for that long, in seconds.
_REST = 1.0


class Replica:
    """One of the servers that the URL names, as libpq chooses."""

    def __init__(self, url: str, *, lag_limit: int) -> None:
        """``lag_limit`` is in milliseconds. Raises ``ConfigurationError`` for a URL that cannot be used."""
        self._lag_limit = lag_limit
        self._snapshots = Session(url, isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._statements = Session(url, isolation_level="AUTOCOMMIT")
        self._not_before = 0.0

    def session(self, primary: Session, *, is_single: bool) -> Session | None:
        """The session to ask, or None when the replica is not as far as the primary is now.

        Raises what asking the primary raises.
        """
        if time.monotonic() < self._not_before:
            return None
        with primary.transaction() as connection:
            position = connection.execute(_POSITION).scalar_one()
        try:
            is_there = self._reaches(position)
        except Unavailable:
            self.rest()
            return None
        return (self._statements if is_single else self._snapshots) if is_there else None

    def rest(self) -> None:
        """Leave the replica alone for a while."""
        self._not_before = time.monotonic() + _REST

    def interrupt(self) -> None:
        """Break the connections, from another thread."""
        self._snapshots.interrupt()
        self._statements.interrupt()

    def close(self) -> None:
        """Close the connections."""
        self._snapshots.close()
        self._statements.close()

    def _reaches(self, position: str) -> bool:
        behind = None
        for look in range(_LOOKS):
            if look:
                time.sleep(_BETWEEN)
            # Each look is a statement of its own: what is asked afterwards sees at least what it saw.
            with self._statements.transaction() as connection:
                is_there, behind = connection.execute(_PROGRESS, {"position": position}).one()
            if is_there:
                return True
        if behind is None or behind > self._lag_limit:
            self.rest()
        return False
