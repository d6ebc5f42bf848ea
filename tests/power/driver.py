"""The standard library's ``sqlite3``, as far as SQLAlchemy and Keywright use it, its files on a ``Disk``.

What Keywright says to its database goes through here unchanged; a control has some of it ``replaced``.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import apsw
import pytest

from keywright.db import sqlite
from tests.power.disk import Disk

Row = tuple[Any, ...]

_ERRORS: dict[type[apsw.Error], type[sqlite3.Error]] = {
    apsw.ConstraintError: sqlite3.IntegrityError,
    apsw.MismatchError: sqlite3.IntegrityError,
    apsw.CorruptError: sqlite3.DatabaseError,
    apsw.NotADBError: sqlite3.DatabaseError,
}


class Driver:
    """Stands where a module has ``sqlite3``. ``statements`` is what was said over all connections."""

    def __init__(self, disk: Disk, replaced: Mapping[str, str] | None = None) -> None:
        self._disk = disk
        self._replaced = replaced or {}
        self.statements: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(sqlite3, name)

    def connect(
        self, database: str, *, uri: bool, isolation_level: None, check_same_thread: bool, timeout: float
    ) -> "Connection":
        """``sqlite3.connect``, with what Keywright says to it."""
        assert uri
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        with _as_sqlite3():
            raw = apsw.Connection(database, flags, self._disk.vfs_name)
            raw.set_busy_timeout(int(timeout * 1000))
        return Connection(raw, self._say)

    def _say(self, statement: str) -> str:
        self.statements.append(statement)
        return self._replaced.get(statement, statement)


class Connection:
    """A ``sqlite3.Connection`` that begins no transaction by itself."""

    isolation_level = None

    def __init__(self, raw: apsw.Connection, say: Callable[[str], str]) -> None:
        self.raw = raw
        self.say = say

    def cursor(self) -> "Cursor":
        return Cursor(self)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> "Cursor":
        return self.cursor().execute(statement, values)

    def create_function(
        self, name: str, narg: int, function: Callable[..., Any], *, deterministic: bool
    ) -> None:
        self.raw.create_scalar_function(name, function, narg, deterministic=deterministic)

    def commit(self) -> None:
        self._end("COMMIT")

    def rollback(self) -> None:
        self._end("ROLLBACK")

    def close(self) -> None:
        with _as_sqlite3():
            self.raw.close()

    def _end(self, how: str) -> None:
        if self.raw.in_transaction:
            with _as_sqlite3():
                self.raw.execute(how)


class Cursor:
    """A ``sqlite3.Cursor`` that has all its rows at once."""

    arraysize = 1

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.description: list[Row] | None = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self._rows: Iterator[Row] = iter(())

    def execute(self, statement: str, values: Sequence[Any] = ()) -> "Cursor":
        with self._running() as raw:
            self._rows = iter(raw.execute(self.connection.say(statement), values).fetchall())
        return self

    def executemany(self, statement: str, runs: Iterable[Sequence[Any]]) -> "Cursor":
        with self._running() as raw:
            self._rows = iter(raw.executemany(self.connection.say(statement), runs).fetchall())
        return self

    def fetchone(self) -> Row | None:
        return next(self._rows, None)

    def fetchmany(self, size: int = 1) -> list[Row]:
        return [row for row, _ in zip(self._rows, range(size), strict=False)]

    def fetchall(self) -> list[Row]:
        return list(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return self._rows

    def close(self) -> None:
        self._rows = iter(())

    @contextmanager
    def _running(self) -> Iterator[apsw.Cursor]:
        raw = self.connection.raw
        before = raw.total_changes()
        self._forget_columns()
        with _as_sqlite3():
            cursor = raw.cursor()
            cursor.exec_trace = self._describe
            yield cursor
        self.rowcount = -1 if self.description else raw.total_changes() - before
        self.lastrowid = raw.last_insert_rowid()

    def _forget_columns(self) -> None:
        self.description = None

    def _describe(self, cursor: apsw.Cursor, _statement: str, _values: object) -> bool:
        columns = cursor.get_description()
        self.description = [(name, *[None] * 6) for name, *_ in columns] or None
        return True


@contextmanager
def _as_sqlite3() -> Iterator[None]:
    """Raise ``sqlite3``'s errors."""
    try:
        yield
    except apsw.Error as problem:
        error = _ERRORS.get(type(problem), sqlite3.OperationalError)(str(problem))
        error.sqlite_errorcode = getattr(problem, "extendedresult", 0)
        raise error from problem


@contextmanager
def driven_by(driver: Driver) -> Iterator[None]:
    """Every SQLite connection that Keywright opens in the block is this driver's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "sqlite3", driver)
        yield
