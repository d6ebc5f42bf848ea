"""What is special about PostgreSQL: many writers at once, numbers from sequences, replicas.

One object keeps one connection for changes and one or two for questions: callers meet in batches before
they come here, so more would only wait for each other.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, bindparam, func, select

from keywright.core.crypto import KeyRing
from keywright.core.errors import StoreConflict, Unavailable
from keywright.db.replica import Replica
from keywright.db.session import Session
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.db.urls import without_password

_MOST_NUMBERS = 128

_NEW_NUMBERS = select(func.nextval(bindparam("name"))).select_from(
    func.generate_series(1, bindparam("amount"))
)


class PostgresStorage:
    """One database on a server. Any number of processes may ``read`` and ``write`` at once.

    One object is for one ``write`` and one ``read`` at a time, from whichever thread; whoever has
    several threads sees to that (the desk does).
    """

    #: Its answers come over a network: whoever has other things to do waits in another thread.
    is_local = False

    def __init__(self, url: str, key_ring: KeyRing, replica: Replica | None = None) -> None:
        self.name = without_password(url)
        self._url = url
        self._key_ring = key_ring
        self._reading = Session(
            url, key_ring=key_ring, isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self._answering = Session(url, key_ring=key_ring, isolation_level="AUTOCOMMIT")
        self._writing = Session(url, key_ring=key_ring)
        self._replica = replica
        self._numbers: dict[str, list[int]] = {}

    @contextmanager
    def read(self, *, is_single: bool = False) -> Iterator[ReadTransaction]:
        """One moment of the database, or one for each statement, which saves two ways to the server and
        back. Raises ``StoreConflict`` and ``StoreUnavailable``.
        """
        replica = self._replica
        session = None if replica is None else replica.session(self._answering, is_single=is_single)
        if session is None:
            session = self._answering if is_single else self._reading
            replica = None
        try:
            with session.transaction() as connection:
                yield ReadTransaction(connection, self._key_ring)
        except Unavailable as fault:
            if replica is None:
                raise
            # Asked again, the primary answers.
            replica.rest()
            raise StoreConflict(str(fault)) from fault

    @contextmanager
    def write(self, *, wait: float | None = None) -> Iterator[WriteTransaction]:
        """A transaction that is durable when the block ends without an exception.

        Raises ``StoreConflict`` when it has to be run again, ``StoreUnavailable`` when the server
        cannot be reached or refuses, ``RejectedByDatabase`` when it turned a value down: in each case
        nothing was changed. Raises ``FateUnknown`` when the answer to the commit did not come.
        """
        try:
            with self._writing.transaction() as connection:
                yield WriteTransaction(connection, self._key_ring, _Numbers(connection, self._numbers))
        except BaseException:
            # A crash takes back what a sequence gave to a transaction that was not committed, and the
            # sequence gives it again.
            self._numbers.clear()
            raise

    @contextmanager
    def exclusively(self) -> Iterator[Connection]:
        """A transaction on the writing connection, for migrations."""
        with self._writing.transaction() as connection:
            yield connection

    def beside(self) -> "PostgresStorage":
        """Another object on the same database, for another thread, with connections of its own, made when
        they are needed; whoever asks for it closes it.
        """
        replica = None if self._replica is None else self._replica.beside()
        return PostgresStorage(self._url, self._key_ring, replica)

    def interrupt(self, *, writing: bool) -> None:
        """Break the connection for changes, or those for questions; from another thread than that which waits
        for an answer, and gets an error instead.
        """
        for session in (self._writing,) if writing else (self._reading, self._answering):
            session.interrupt()
        if self._replica is not None and not writing:
            self._replica.interrupt()

    def close(self) -> None:
        """Close the connections."""
        self._reading.close()
        self._answering.close()
        self._writing.close()
        if self._replica is not None:
            self._replica.close()


class _Numbers:
    """Numbers from the database's sequences: never the same twice, whoever asks.

    Numbers of activations are fetched in advance, more each time, and kept from one transaction to the
    next. Numbers of licenses, which people see, are not.
    """

    def __init__(self, connection: Connection, kept: dict[str, list[int]]) -> None:
        self._connection = connection
        self._left = {"activation": kept.setdefault("activation", []), "license": []}
        self._fetched = {"activation": kept.setdefault("fetched", [1]), "license": [1]}

    def next(self, kind: str) -> int:
        left, fetched = self._left[kind], self._fetched[kind]
        if not left:
            values = {"name": f"{kind}_id_seq", "amount": fetched[0]}
            left += sorted(self._connection.execute(_NEW_NUMBERS, values).scalars(), reverse=True)
            fetched[0] = min(2 * fetched[0], _MOST_NUMBERS)
        return left.pop()

    def save(self) -> None:
        """The sequences know already."""
