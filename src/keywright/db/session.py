"""A connection to PostgreSQL that breaks and is made again, and what its errors mean.

The URL goes to libpq as it is (https://www.postgresql.org/docs/current/libpq-connect.html), several hosts
and ``target_session_attrs=read-write`` included: after a failover, the next connection finds the new
primary.
"""

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, RootTransaction, create_engine, exc, pool

from keywright.core.crypto import KeyRing
from keywright.core.errors import (
    ConfigurationError,
    FateUnknown,
    LockTimeout,
    RejectedByDatabase,
    StoreConflict,
    StoreUnavailable,
)
from keywright.db.secret_ids import QUERY, require_secrets

#: What a connection has unless the URL says otherwise, in seconds and milliseconds: a host that does
#: not answer is given up soon, and so is a connection whose other end has silently gone.
DEFAULTS = {
    "connect_timeout": "2",
    "keepalives_idle": "3",
    "keepalives_interval": "1",
    "keepalives_count": "3",
    "tcp_user_timeout": "6000",
    "application_name": "keywright",
}
#: A session that stands still inside a transaction must not hold its locks for ever; a lock that is not
#: free soon is waited for again. An acknowledged commit is on disk, and on the synchronous standby where
#: there is one, whatever the server's default is; where it is not, a warning says so. Every query has its
#: index; a plan that was made while its table was empty, and reads all of it, must not stay when it has
#: grown.
_SESSION = """
SELECT set_config('lock_timeout', '1s', false),
       set_config('idle_in_transaction_session_timeout', '10s', false),
       set_config('enable_seqscan', 'off', false),
       set_config('client_min_messages', 'warning', false),
       (SELECT set_config(name, '1s', false) FROM pg_settings
        WHERE name = 'client_connection_check_interval'),
       set_config('synchronous_commit',
                  CASE WHEN setting IN ('off', 'local') THEN 'on' ELSE setting END, false)
FROM pg_settings WHERE name = 'synchronous_commit'
"""
#: How long a server may take for the statement above, in seconds.
_SETUP_TIMEOUT = 3.0
_HINT = "In a password, special characters are written as % and two digits: @ as %40, / as %2F, % as %25."
#: After a connection could not be made, everybody is told so for that long, in seconds.
_PAUSE = 0.25
#: Asked for again, these may succeed (https://www.postgresql.org/docs/current/errcodes-appendix.html):
#: serialization failure, deadlock, and a unique value that another transaction inserted meanwhile.
_CONFLICTS = frozenset({"40001", "40P01", "23505"})
#: So may these on another connection: the server has become a standby; a table's columns have changed.
_OUTDATED = frozenset({"25006", "0A000"})
_LOCK_NOT_AVAILABLE = "55P03"
#: What the server says when it is about to hang up.
_GOODBYES = ("08", "57P")
#: What it says of a value: data exceptions, integrity constraints, syntax and access.
_REJECTIONS = ("22", "23", "42")


class _Connection(psycopg.Connection[Any]):
    """A connection whose server answers within ``timeout`` seconds or not at all; None is for ever."""

    timeout: float | None = _SETUP_TIMEOUT

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        return super().wait(gen, interval, self.timeout if timeout is None else timeout)


class Session:
    """One connection, made when it is needed, and again after it broke."""

    def __init__(
        self, url: str, *, patience: float | None = None, key_ring: KeyRing | None = None, **options: Any
    ) -> None:
        """``patience`` is how long an answer is waited for, in seconds; for ever without it. With a
        ``key_ring``, no connection is used to a database that needs another secret, and while there are two
        secrets, the connection's name says so.

        Raises ``ConfigurationError`` for a URL that libpq does not understand.
        """
        self._patience = patience
        self._is_busy = False
        self._warnings: list[str] = []
        self._only_asks = "isolation_level" in options
        self._key_ring = key_ring
        parameters = _parameters(url, key_ring)
        self._engine = create_engine(
            "postgresql+psycopg://",
            creator=lambda: self._connect(parameters),
            poolclass=pool.NullPool,
            hide_parameters=True,
            execution_options=options,
        )
        self._connection: Connection | None = None
        self._raw: psycopg.Connection[Any]
        self._plug: socket.socket | None = None
        self._is_interrupted = False
        self._problem = ""
        self._not_before = 0.0

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction, committed when the block ends without an exception."""
        self._is_busy = True
        try:
            with self._transaction() as connection:
                yield connection
        finally:
            self._is_busy = False

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        connection = self._opened()
        try:
            transaction = connection.begin()
            yield connection
        except exc.DBAPIError as problem:
            self._undo(problem)
            if self._is_interrupted:
                raise StoreUnavailable(_in_words(problem)) from problem
            raise _undone(problem) from problem
        except (OverflowError, UnicodeError) as problem:
            self._undo()
            raise RejectedByDatabase(str(problem)) from problem
        except BaseException:
            self._undo()
            raise
        self._commit(transaction)

    def close(self) -> None:
        """Hang up."""
        connection, self._connection = self._connection, None
        plug, self._plug = self._plug, None
        if plug is not None:
            plug.close()
        if connection is not None:
            with suppress(exc.DBAPIError):
                connection.close()

    def interrupt(self) -> None:
        """Break the connection; for another thread than that which uses it, and does not try again."""
        if not self._is_busy:
            return
        self._is_interrupted = True
        plug = self._plug
        if plug is not None:
            with suppress(OSError):
                plug.shutdown(socket.SHUT_RDWR)

    def _opened(self) -> Connection:
        if self._connection is not None:
            return self._connection
        if monotonic() < self._not_before:
            raise StoreUnavailable(self._problem)
        try:
            self._connection = self._engine.connect()
        except exc.DBAPIError as problem:
            self.close()
            # One line for each host that was tried.
            self._problem = "; ".join(line.strip(" -\t") for line in str(problem.orig).strip().splitlines())
            self._not_before = monotonic() + _PAUSE
            raise StoreUnavailable(self._problem) from problem
        return self._connection

    def _connect(self, parameters: str) -> psycopg.Connection[Any]:
        connection = _Connection.connect(parameters, autocommit=True)
        try:
            connection.execute(_SESSION)
            self._require_secrets(connection)
            connection.autocommit = False
            # A descriptor of our own, which stays this connection's whatever libpq closes and others open.
            self._plug = socket.socket(fileno=os.dup(connection.fileno()))
        except OSError as problem:
            connection.close()
            raise psycopg.OperationalError(f"no descriptor: {problem.strerror}") from problem
        except BaseException:
            connection.close()
            raise
        connection.timeout = self._patience
        connection.add_notice_handler(self._hear)
        self._raw = connection
        self._is_interrupted = False
        return connection

    def _require_secrets(self, connection: psycopg.Connection[Any]) -> None:
        if self._key_ring is None:
            return
        try:
            secret_ids = connection.execute(QUERY).fetchone()
        except psycopg.ProgrammingError:
            # There is no such table or column yet, or no right to read it, which the next query says better.
            return
        require_secrets(secret_ids, self._key_ring, "the database")

    def _hear(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            self._warnings.append(notice.message_primary or "")

    def _undo(self, problem: exc.DBAPIError | None = None) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            transaction = connection.get_transaction()
            if transaction is not None:
                transaction.rollback()
        except exc.DBAPIError:
            self.close()
            return
        state = _sqlstate(problem) if problem is not None else ""
        if self._raw.closed or state in _OUTDATED or state.startswith(_GOODBYES):
            self.close()

    def _commit(self, transaction: RootTransaction) -> None:
        if self._raw.info.transaction_status == TransactionStatus.INERROR:
            # A COMMIT would be answered with ROLLBACK, and nobody would notice.
            self.close()
            raise StoreConflict("the transaction had failed")
        self._warnings.clear()
        try:
            transaction.commit()
        except exc.DBAPIError as problem:
            self.close()
            if self._only_asks or _sqlstate(problem) in {"40001", "40P01"}:
                raise StoreConflict(_in_words(problem)) from problem
            raise FateUnknown(_in_words(problem)) from problem
        except BaseException:
            self.close()
            raise
        if self._warnings:
            # The wait for the synchronous standby was cut short: committed here, perhaps nowhere else.
            self.close()
            raise FateUnknown("; ".join(self._warnings))


def knowledge(key_ring: KeyRing) -> str:
    """The end of a connection's name when the process knows two secrets: the ID of the newer one."""
    return f" +{key_ring.secret_id}" if len(key_ring.rings) > 1 else ""


def _parameters(url: str, key_ring: KeyRing | None = None) -> str:
    try:
        given = conninfo_to_dict(url)
    except (psycopg.ProgrammingError, UnicodeError):
        # What libpq says may quote a part of the password.
        words = "the database URL cannot be used: it is not one that libpq understands"
        raise ConfigurationError(f"{words}. {_HINT}") from None
    if not re.fullmatch(r"[0-9,]*", str(given.get("port", ""))):
        raise ConfigurationError(f"the database URL cannot be used: its port is no number. {_HINT}")
    added = {name: value for name, value in DEFAULTS.items() if name not in given}
    if key_ring is not None and (known := knowledge(key_ring)):
        name = given.get("application_name", DEFAULTS["application_name"])
        # PostgreSQL cuts names off after 63 bytes.
        added["application_name"] = f"{str(name)[: 63 - len(known)]}{known}"
    return make_conninfo(url, **added)


def _undone(problem: exc.DBAPIError) -> StoreConflict | StoreUnavailable | RejectedByDatabase:
    """What an error inside a transaction means. In each case, nothing was changed."""
    state = _sqlstate(problem)
    words = _in_words(problem)
    _forget_values(problem, words)
    if state == _LOCK_NOT_AVAILABLE:
        return LockTimeout(words)
    if state in _CONFLICTS | _OUTDATED or state.startswith(_GOODBYES):
        return StoreConflict(words)
    if state.startswith(_REJECTIONS) or isinstance(problem, exc.DataError):
        return RejectedByDatabase(words)
    if not state and isinstance(problem, exc.OperationalError | exc.InterfaceError):
        # The connection broke.
        return StoreConflict(words)
    return StoreUnavailable(words)


def _forget_values(problem: exc.DBAPIError, words: str) -> None:
    """Whoever writes the error with its cause into a log finds ``words`` there, and no row's values."""
    problem.args = (words,)
    if problem.orig is not None:
        problem.orig.args = (words,)


def _sqlstate(problem: exc.DBAPIError) -> str:
    return getattr(problem.orig, "sqlstate", None) or ""


def _in_words(problem: exc.DBAPIError) -> str:
    """The first line of what the server said; the others may hold values."""
    return str(problem.orig).strip().partition("\n")[0]
