"""A database on a PostgreSQL server: concurrent writers, IDs from sequences, replicas.

An object has one connection for writes and one or two for reads: calls arrive in batches, so more connections
would only wait for each other.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter

from sqlalchemy import Connection, bindparam, func, select

from keywright.core.crypto import KeyRing
from keywright.core.errors import StoreConflict, Unavailable
from keywright.db.replica import Replica
from keywright.db.schema import ID_KINDS
from keywright.db.session import Session
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.db.urls import without_password
from keywright.db.watch import ReplicaState, Watch

_MAX_PREFETCHED = 128

_NEXT_IDS = select(func.nextval(bindparam("name"))).select_from(func.generate_series(1, bindparam("amount")))


class PostgresStorage:
    """A database on a server. Any number of processes may ``read`` and ``write`` concurrently.

    An object serves one ``write`` and one ``read`` at a time, from any thread; callers with several threads
    must ensure that (the desk does).
    """

    #: Answers come over a network: an event loop must wait for them in another thread.
    is_local = False

    def __init__(
        self, url: str, key_ring: KeyRing, replica: Replica | None = None, *, watch: Watch | None = None
    ) -> None:
        self.name = without_password(url)
        self._url = url
        self._key_ring = key_ring
        self._snapshots = Session(
            url, key_ring=key_ring, isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._statements = Session(url, key_ring=key_ring, isolation_level="AUTOCOMMIT")
        self._writer = Session(url, key_ring=key_ring)
        self._replica = replica
        self._prefetched: dict[str, list[int]] = {}
        self.watch = watch or Watch()
        self._sessions = [self._snapshots, self._statements, self._writer]
        self._sessions += [] if replica is None else replica.sessions
        self.watch.connections.update(self._sessions)

    @contextmanager
    def read(self, *, is_single: bool = False) -> Iterator[ReadTransaction]:
        """Begin a transaction that sees a consistent snapshot of the database. With ``is_single``, each
        statement sees its own, which saves two round trips. Raises ``StoreConflict`` and
        ``StoreUnavailable``.
        """
        replica = self._replica
        session = None if replica is None else replica.session(self._statements, is_single=is_single)
        if session is None:
            session = self._statements if is_single else self._snapshots
            replica = None
        try:
            with session.transaction() as connection:
                yield ReadTransaction(connection, self._key_ring)
        except Unavailable as fault:
            if replica is None:
                raise
            # The retry reads from the primary.
            replica.set_aside()
            raise StoreConflict(str(fault)) from fault

    @contextmanager
    def write(self, *, wait: float | None = None) -> Iterator[WriteTransaction]:
        """Begin a transaction that is durable when the block ends without an exception.

        Raises ``StoreConflict`` if it must be retried, ``StoreUnavailable`` if the server cannot be reached
        or refuses, ``RejectedByDatabase`` if it rejected a value: in each case, nothing was changed. Raises
        ``FateUnknown`` if the answer to the commit did not arrive.
        """
        try:
            with self._writer.transaction() as connection:
                yield WriteTransaction(connection, self._key_ring, _IdGenerator(connection, self._prefetched))
                began = perf_counter()
            self.watch.observe_commit(perf_counter() - began)
        except BaseException:
            # After a crash, a sequence may return the IDs of uncommitted transactions again.
            self._prefetched.clear()
            raise

    def migration_transaction(self) -> AbstractContextManager[Connection]:
        """Begin a transaction on the connection for writes."""
        return self._writer.transaction()

    @property
    def key_ring(self) -> KeyRing:
        """The key ring that seals and signs with the installation's secret."""
        return self._key_ring

    def clone(self) -> "PostgresStorage":
        """Return another object on the same database, for another thread; the caller closes it."""
        replica = None if self._replica is None else self._replica.clone()
        return PostgresStorage(self._url, self._key_ring, replica, watch=self.watch)

    @property
    def replica_state(self) -> ReplicaState | None:
        """The state of the replica; None without one."""
        return None if self._replica is None else self._replica.state

    def interrupt(self, *, writing: bool) -> None:
        """Break the connection for writes, or those for reads, from another thread; pending waits fail."""
        for session in (self._writer,) if writing else (self._snapshots, self._statements):
            session.interrupt()
        if self._replica is not None and not writing:
            self._replica.interrupt()

    def close(self) -> None:
        """Close the connections."""
        self.watch.connections.difference_update(self._sessions)
        self._snapshots.close()
        self._statements.close()
        self._writer.close()
        if self._replica is not None:
            self._replica.close()


class _IdGenerator:
    """Generates IDs from the database's sequences: no two processes get the same ID.

    IDs of activations are prefetched, in growing amounts, and ``prefetched`` keeps them between transactions.
    IDs of licenses, which people see, are not prefetched.
    """

    def __init__(self, connection: Connection, prefetched: dict[str, list[int]]) -> None:
        self._connection = connection
        self._left: dict[str, list[int]] = {kind: [] for kind in ID_KINDS}
        self._left["activation"] = prefetched.setdefault("activation", [])
        self._amounts = {kind: [1] for kind in ID_KINDS}
        self._amounts["activation"] = prefetched.setdefault("amount", [1])

    def next(self, kind: str) -> int:
        left, amount = self._left[kind], self._amounts[kind]
        if not left:
            values = {"name": f"{kind}_id_seq", "amount": amount[0]}
            left += sorted(self._connection.execute(_NEXT_IDS, values).scalars(), reverse=True)
            amount[0] = min(2 * amount[0], _MAX_PREFETCHED)
        return left.pop()

    def skip(self, kind: str, until: int) -> int:
        name = f"{kind}_id_seq"
        last = self._last(name)
        if last is None or last < until:
            # ALTER keeps others from taking IDs until the end of the transaction; reading does not.
            self._connection.exec_driver_sql(f"ALTER SEQUENCE {name} INCREMENT BY 1")
            last = self._last(name) or 0
        if last < until:
            self._connection.exec_driver_sql(f"ALTER SEQUENCE {name} RESTART WITH {until + 1:d}")
        return last

    def _last(self, name: str) -> int | None:
        """The last ID that was taken; None while another transaction that altered the sequence commits."""
        words = f"SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM {name}"  # noqa: S608
        last: int | None = self._connection.exec_driver_sql(words).scalar()
        return last

    def save(self) -> None:
        """Do nothing: the sequences are already saved."""
