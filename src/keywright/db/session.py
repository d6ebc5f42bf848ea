"""A connection to PostgreSQL that reconnects, and the translation of its errors.

libpq gets the URL unchanged (https://www.postgresql.org/docs/current/libpq-connect.html), with several hosts
and ``target_session_attrs=read-write``: after a failover, the next connection finds the new primary.
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

from keywright.core import errors as e
from keywright.core.crypto import KeyRing
from keywright.db.sealed_columns import QUERY, require_secrets

#: Defaults of parameters that the URL may override, in seconds and milliseconds: they give up soon on a host
#: that does not answer, and on a connection whose peer has silently gone.
DEFAULTS = {
    "connect_timeout": "2",
    "keepalives_idle": "3",
    "keepalives_interval": "1",
    "keepalives_count": "3",
    "tcp_user_timeout": "6000",
    "application_name": "keywright",
}
#: A session that is idle inside a transaction must not hold its locks forever; a transaction that waits long
#: for a lock is retried. An acknowledged commit is on disk, and on the synchronous standby if there is one,
#: whatever the server's default is; if the server warns that it is not, the commit raises ``FateUnknown``.
#: Every query has its index; a sequential scan that was planned while the table was empty must not stay when
#: it has grown.
_SETUP = """
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
#: The other sessions of servers and commands on the same database, and the query that counts them.
OTHER_SESSIONS = """
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
AND (application_name LIKE 'keywright%'
     OR split_part(application_name, ' +', 1) = current_setting('application_name'))
"""
COUNT_SESSIONS = f"SELECT count(*) {OTHER_SESSIONS}"
#: The timeout for setting up a connection, in seconds.
_SETUP_TIMEOUT = 3.0
_HINT = "In a password, percent-encode special characters: @ as %40, / as %2F, % as %25."
#: After a failed connection, further attempts fail immediately for this time, in seconds.
_RECONNECT_PAUSE = 0.25
#: Errors after which a retry may succeed (https://www.postgresql.org/docs/current/errcodes-appendix.html):
#: serialization failure, deadlock, and a unique value that another transaction has inserted.
_CONFLICTS = frozenset({"40001", "40P01", "23505"})
#: Errors after which a retry on a new connection may succeed: the server has become a standby; a table's
#: columns have changed.
_STALE_CONNECTION = frozenset({"25006", "0A000"})
_LOCK_NOT_AVAILABLE = "55P03"
_DISK_FULL = "53100"
#: Classes of errors after which the server disconnects.
_DISCONNECTS = ("08", "57P")
#: Classes of errors about a value: data exceptions, integrity constraints, syntax and access.
_REJECTIONS = ("22", "23", "42")


class _Connection(psycopg.Connection[Any]):
    """A connection whose server must answer within ``timeout`` seconds; None waits forever."""

    timeout: float | None = _SETUP_TIMEOUT

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        return super().wait(gen, interval, self.timeout if timeout is None else timeout)


class Session:
    """A single connection, opened when needed, and reopened after it broke."""

    def __init__(
        self, url: str, *, timeout: float | None = None, key_ring: KeyRing | None = None, **options: Any
    ) -> None:
        """``timeout`` limits the wait for an answer, in seconds; None waits forever. With a ``key_ring``, a
        connection to a database that needs another secret is refused, and while there are two secrets, the
        name of the connection shows that.

        Raises ``ConfigurationError`` for a URL that libpq does not accept.
        """
        self._timeout = timeout
        #: Whether a transaction is open.
        self.is_busy = False
        self._warnings: list[str] = []
        self._is_read_only = "isolation_level" in options
        self._key_ring = key_ring
        conninfo = _make_conninfo(url, key_ring)
        self._engine = create_engine(
            "postgresql+psycopg://",
            creator=lambda: self._connect(conninfo),
            poolclass=pool.NullPool,
            hide_parameters=True,
            execution_options=options,
        )
        self._connection: Connection | None = None
        self._raw: psycopg.Connection[Any]
        self._socket: socket.socket | None = None
        self._is_interrupted = False
        self._last_error = ""
        self._not_before = 0.0

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Begin a transaction, which is committed if the block ends without an exception."""
        self.is_busy = True
        try:
            with self._transaction() as connection:
                yield connection
        finally:
            self.is_busy = False

    @property
    def is_open(self) -> bool:
        """Whether it is connected."""
        return self._connection is not None

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        connection = self._open()
        try:
            transaction = connection.begin()
            yield connection
        except exc.DBAPIError as problem:
            self._roll_back(problem)
            if self._is_interrupted:
                raise e.StoreUnavailable(_first_line(problem)) from problem
            raise _translate_error(problem) from problem
        except (OverflowError, UnicodeError) as problem:
            self._roll_back()
            raise e.RejectedByDatabase(str(problem)) from problem
        except BaseException:
            self._roll_back()
            raise
        self._commit(transaction)

    def close(self) -> None:
        """Disconnect."""
        connection, self._connection = self._connection, None
        own_socket, self._socket = self._socket, None
        if own_socket is not None:
            own_socket.close()
        if connection is not None:
            with suppress(exc.DBAPIError):
                connection.close()

    def interrupt(self) -> None:
        """Break the connection, from another thread; the thread that uses it does not retry."""
        if not self.is_busy:
            return
        self._is_interrupted = True
        own_socket = self._socket
        if own_socket is not None:
            with suppress(OSError):
                own_socket.shutdown(socket.SHUT_RDWR)

    def _open(self) -> Connection:
        if self._connection is not None:
            return self._connection
        if monotonic() < self._not_before:
            raise e.StoreUnavailable(self._last_error)
        try:
            self._connection = self._engine.connect()
        except exc.DBAPIError as problem:
            self.close()
            # libpq writes one line per host.
            self._last_error = "; ".join(
                line.strip(" -\t") for line in str(problem.orig).strip().splitlines()
            )
            self._not_before = monotonic() + _RECONNECT_PAUSE
            raise e.StoreUnavailable(self._last_error) from problem
        return self._connection

    def _connect(self, conninfo: str) -> psycopg.Connection[Any]:
        connection = _Connection.connect(conninfo, autocommit=True)
        try:
            connection.execute(_SETUP)
            self._require_secrets(connection)
            connection.autocommit = False
            # A duplicate: libpq may close its descriptor, and another file may get the same number.
            self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        except OSError as problem:
            connection.close()
            raise psycopg.OperationalError(f"no file descriptor: {problem.strerror}") from problem
        except BaseException:
            connection.close()
            raise
        connection.timeout = self._timeout
        connection.add_notice_handler(self._keep_warning)
        self._raw = connection
        self._is_interrupted = False
        return connection

    def _require_secrets(self, connection: psycopg.Connection[Any]) -> None:
        if self._key_ring is None:
            return
        try:
            secret_ids = connection.execute(QUERY).fetchone()
        except psycopg.ProgrammingError:
            # The table or column does not exist yet, or may not be read, which the next query reports.
            return
        require_secrets(secret_ids, self._key_ring, "the database")

    def _keep_warning(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            self._warnings.append(notice.message_primary or "")

    def _roll_back(self, problem: exc.DBAPIError | None = None) -> None:
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
        if self._raw.closed or state in _STALE_CONNECTION or state.startswith(_DISCONNECTS):
            self.close()

    def _commit(self, transaction: RootTransaction) -> None:
        if self._raw.info.transaction_status == TransactionStatus.INERROR:
            # The server would answer COMMIT with ROLLBACK, without an error.
            self.close()
            raise e.StoreConflict("the transaction had failed")
        self._warnings.clear()
        try:
            transaction.commit()
        except exc.DBAPIError as problem:
            self.close()
            if self._is_read_only or _sqlstate(problem) in {"40001", "40P01"}:
                raise e.StoreConflict(_first_line(problem)) from problem
            raise e.FateUnknown(_first_line(problem)) from problem
        except BaseException:
            self.close()
            raise
        if self._warnings:
            # The wait for the synchronous standby was canceled: committed here, perhaps nowhere else.
            self.close()
            raise e.FateUnknown("; ".join(self._warnings))


def name_suffix(key_ring: KeyRing) -> str:
    """Return the end of a connection's name while the process has two secrets: the ID of the newer one."""
    return f" +{key_ring.secret_id}" if len(key_ring.rings) > 1 else ""


def _make_conninfo(url: str, key_ring: KeyRing | None = None) -> str:
    try:
        given = conninfo_to_dict(url)
    except (psycopg.ProgrammingError, UnicodeError):
        # libpq's message may quote part of the password.
        message = "the database URL is invalid: libpq cannot parse it"
        raise e.ConfigurationError(f"{message}. {_HINT}") from None
    if not re.fullmatch(r"[0-9,]*", str(given.get("port", ""))):
        raise e.ConfigurationError(f"the database URL is invalid: its port is not a number. {_HINT}")
    added = {name: value for name, value in DEFAULTS.items() if name not in given}
    if key_ring is not None and (suffix := name_suffix(key_ring)):
        name = given.get("application_name", DEFAULTS["application_name"])
        # PostgreSQL truncates names to 63 bytes.
        added["application_name"] = f"{str(name)[: 63 - len(suffix)]}{suffix}"
    return make_conninfo(url, **added)


def _translate_error(problem: exc.DBAPIError) -> e.StoreConflict | e.StoreUnavailable | e.RejectedByDatabase:
    """Return the error to raise for an error inside a transaction. In each case, nothing was changed."""
    state = _sqlstate(problem)
    message = _first_line(problem)
    # The log of the error and its cause must not contain values of rows.
    problem.args = (message,)
    if problem.orig is not None:
        problem.orig.args = (message,)
    if state == _LOCK_NOT_AVAILABLE:
        return e.LockTimeout(message)
    if state in _CONFLICTS | _STALE_CONNECTION or state.startswith(_DISCONNECTS):
        return e.StoreConflict(message)
    if state.startswith(_REJECTIONS) or isinstance(problem, exc.DataError):
        return e.RejectedByDatabase(message)
    if not state and isinstance(problem, exc.OperationalError | exc.InterfaceError):
        # The connection broke.
        return e.StoreConflict(message)
    if state == _DISK_FULL:
        return e.StoreReadOnly(message)
    return e.StoreUnavailable(message)


def _sqlstate(problem: exc.DBAPIError) -> str:
    return getattr(problem.orig, "sqlstate", None) or ""


def _first_line(problem: exc.DBAPIError) -> str:
    """Return the first line of the server's message; the others may contain values."""
    return str(problem.orig).strip().partition("\n")[0]
