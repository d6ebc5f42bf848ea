"""A transaction, which the functions of the stores take.

``find_x`` may return nothing, ``lock_x`` gets for change, ``list_x`` is paged or small, ``count_x``
counts, ``save_x`` writes.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from sqlalchemy import Connection, Table, insert, literal, select

from keywright.core.crypto import KeyRing
from keywright.db.bulk import Lookup, Values, is_postgres
from keywright.db.secret_ids import lock_ring

_PING = select(literal(1))


class Numbers(Protocol):
    """Where new licenses and activations get their numbers; each database has its own way."""

    def next(self, kind: str) -> int:
        """A number for a new ``license`` or ``activation`` that was never given before."""

    def save(self) -> None:
        """Remember what was given."""


class ReadTransaction:
    """A transaction that sees one moment of the database and changes nothing."""

    def __init__(self, connection: Connection, key_ring: KeyRing) -> None:
        """Statements go over ``connection``; ``key_ring`` seals and signs with the installation's secret."""
        self.connection = connection
        self.key_ring = key_ring
        self.is_postgres = is_postgres(connection)

    def ping(self) -> None:
        """Let the database answer a statement that needs no table."""
        self.connection.execute(_PING)


class WriteTransaction(ReadTransaction):
    """A transaction that changes things: all of it is durable after it ends, or none of it is."""

    def __init__(self, connection: Connection, key_ring: KeyRing, numbers: Numbers) -> None:
        super().__init__(connection, key_ring)
        self._numbers = numbers
        self._sealing: KeyRing | None = None

    @property
    def sealing(self) -> KeyRing:
        """The secret that everything new is written with until the end of the transaction."""
        if self._sealing is None:
            is_rotated = len(self.key_ring.rings) > 1
            self._sealing = lock_ring(self.connection, self.key_ring) if is_rotated else self.key_ring
        return self._sealing

    def next_id(self, kind: str) -> int:
        """A number for a new ``license`` or ``activation`` that was never given before."""
        return self._numbers.next(kind)

    def save_numbers(self) -> None:
        """Remember the numbers that were given out."""
        self._numbers.save()

    def insert(self, table: Table, values: Values) -> int:
        """Insert a row, and return the number that it has from now on."""
        result = self.connection.execute(insert(table).values(values))
        return int(result.inserted_primary_key[0])  # type: ignore[index]


def rows_with(tx: ReadTransaction, query: Lookup, values: Iterable[Any]) -> list[Any]:
    """The rows in which the lookup's one column has one of these values."""
    return query.rows(tx.connection, [(value,) for value in values])
