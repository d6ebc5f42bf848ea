"""Transactions, which the functions of the stores take.

``find_x`` may return None, ``lock_x`` gets for change, ``list_x`` is paged or small, ``count_x`` counts,
``save_x`` writes.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol

from sqlalchemy import Connection, Row, Select, Table, delete, func, insert, literal, select

from keywright.core.crypto import KeyRing
from keywright.db.bulk import Item, Values, is_postgres
from keywright.db.schema import sequences
from keywright.db.sealed_columns import lock_ring

#: A query that is only asked whether it finds a row; always the same object, so that it is compiled once.
Question = Select[Any]

_PING = select(literal(1))
_CLOCK = select(func.clock_timestamp())
#: The name of a sequence that never exists.
_PROBE = "probe"


@lru_cache(maxsize=8)
def _exist(questions: tuple[Question, ...]) -> Select[Any]:
    return select().add_columns(*(one.exists() for one in questions))


class IdGenerator(Protocol):
    """Generates the IDs of licenses, activations, products and customers, per kind of database."""

    def next(self, kind: str) -> int:
        """Return the ID of a new object of this kind (see ``ID_KINDS``); no ID is returned twice."""

    def skip(self, kind: str, until: int) -> int:
        """Return no ID up to ``until`` from now on; returns the last ID generated before."""

    def save(self) -> None:
        """Save the last IDs."""


def take_free_id(ids: IdGenerator, kind: str, is_taken: Callable[[int], bool]) -> int:
    """Return the next ID of this kind that is not taken.

    IDs from a shop may be ahead: they are skipped in growing steps, so that a long run of them costs few
    lookups.
    """
    number, step = ids.next(kind), 1
    while is_taken(number):
        ids.skip(kind, number + step)
        number, step = ids.next(kind), 2 * step
    return number


class ReadTransaction:
    """A transaction that sees a consistent snapshot of the database and changes nothing."""

    def __init__(self, connection: Connection, key_ring: KeyRing) -> None:
        """``connection`` executes statements; ``key_ring`` seals and signs with the installation's secret."""
        self.connection = connection
        self.key_ring = key_ring
        self.is_postgres = is_postgres(connection)

    def first(
        self, query: Select[Any], convert: Callable[[Row[Any]], Item], **parameters: Any
    ) -> Item | None:
        """Execute a query, and convert its first row; None if there is no row."""
        row = self.connection.execute(query, parameters).first()
        return None if row is None else convert(row)

    def which_exist(self, questions: tuple[Question, ...]) -> tuple[bool, ...]:
        """Return for each question whether it finds a row, with one statement for all."""
        return tuple(map(bool, self.connection.execute(_exist(questions)).one()))

    def read_clock(self) -> datetime | None:
        """Return the time of the database's clock, in UTC, which is the same for all servers; None on SQLite,
        which has no clock of its own.
        """
        if not self.is_postgres:
            return None
        moment: datetime = self.connection.execute(_CLOCK).scalar_one()
        return moment.astimezone(UTC)

    def ping(self) -> None:
        """Execute a statement that needs no table."""
        self.connection.execute(_PING)


class WriteTransaction(ReadTransaction):
    """A transaction that changes rows: all changes are durable after it ends, or none."""

    #: Whether a mail was queued: the sender is woken after the commit.
    has_queued = False

    def __init__(self, connection: Connection, key_ring: KeyRing, ids: IdGenerator) -> None:
        super().__init__(connection, key_ring)
        self.ids = ids
        self._sealing: KeyRing | None = None

    @property
    def sealing(self) -> KeyRing:
        """The secret that seals everything written until the end of the transaction."""
        if self._sealing is None:
            is_rotated = len(self.key_ring.rings) > 1
            self._sealing = lock_ring(self.connection, self.key_ring) if is_rotated else self.key_ring
        return self._sealing

    def probe(self) -> None:
        """Write a row and delete it again: the commit has something to write, but changes nothing."""
        self.connection.execute(insert(sequences).values(name=_PROBE, last_id=0))
        self.connection.execute(delete(sequences).where(sequences.c.name == _PROBE))

    def insert(self, table: Table, values: Values) -> int:
        """Insert a row and return its ID."""
        result = self.connection.execute(insert(table).values(values))
        return int(result.inserted_primary_key[0])  # type: ignore[index]
