"""A PostgreSQL database that undoes many transactions, as those of others make it do."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from keywright.core.crypto import KeyRing
from keywright.db import ReadTransaction, WriteTransaction
from keywright.db.postgres import PostgresStorage

_SEQUENCES = ("license_id_seq", "activation_id_seq")


def raise_error(connection: Connection, state: str = "40001") -> None:
    """Let the server itself fail the transaction."""
    connection.exec_driver_sql(f"DO $$ BEGIN RAISE EXCEPTION 'bad luck' USING ERRCODE = '{state}'; END $$")


class Unlucky(PostgresStorage):
    """Every other change, and every third question, is undone at its end with a serialization failure.

    Numbers that an undone change took are given back, so that tests need not know.
    """

    def __init__(self, url: str, key_ring: KeyRing) -> None:
        super().__init__(url, key_ring)
        self._writes = 0
        self._reads = 0

    @contextmanager
    def read(self, *, is_single: bool = False) -> Iterator[ReadTransaction]:
        self._reads += 1
        with super().read(is_single=is_single) as tx:
            yield tx
            if self._reads % 3 == 0:
                raise_error(tx.connection)

    @contextmanager
    def write(self, *, wait: float | None = None) -> Iterator[WriteTransaction]:
        self._writes += 1
        is_unlucky = self._writes % 2 == 1
        kept = {name: list(values) for name, values in self._prefetched.items()}
        with super().write(wait=wait) as tx:
            before = _numbers_given(tx.connection) if is_unlucky else []
            yield tx
            if is_unlucky:
                self._prefetched.clear()
                self._prefetched.update(kept)
                _give_back(tx.connection, before)
                raise_error(tx.connection)


def _numbers_given(connection: Connection) -> list[tuple[int, bool]]:
    return [
        tuple(connection.exec_driver_sql(f"SELECT last_value, is_called FROM {name}").one())  # noqa: S608
        for name in _SEQUENCES
    ]


def _give_back(connection: Connection, before: list[tuple[int, bool]]) -> None:
    for name, (last, is_called) in zip(_SEQUENCES, before, strict=True):
        connection.exec_driver_sql("SELECT setval(%s, %s, %s)", (name, last, is_called))
