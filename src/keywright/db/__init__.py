"""The database.

``open_storage`` opens it; ``run_read`` and ``run_write`` run a function in a transaction, with retries if the
database requires them.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, Union
from urllib.parse import unquote

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from keywright.core.crypto import KeyRing
from keywright.core.errors import ConfigurationError, StoreUnavailable
from keywright.db.migrate import migrate_postgres, migrate_sqlite, read_state
from keywright.db.retry import run_read, run_write
from keywright.db.sqlite import SqliteStorage, make_engine, refuse_network_file_system
from keywright.db.transaction import Question, ReadTransaction, WriteTransaction
from keywright.db.urls import find_unverified_hosts, without_password

if TYPE_CHECKING:
    from keywright.db.postgres import PostgresStorage

__all__ = [
    "Question",
    "ReadTransaction",
    "Storage",
    "WriteTransaction",
    "database_path",
    "find_unverified_hosts",
    "has_database",
    "look_at",
    "open_storage",
    "run_read",
    "run_write",
    "without_password",
]

Answer = TypeVar("Answer")

#: A database. The driver of PostgreSQL is imported only when needed: it would slow down every start with
#: SQLite.
Storage = Union[SqliteStorage, "PostgresStorage"]


def database_path(url: str) -> Path | None:
    """Return the file that a ``sqlite:///`` URL names, None for a PostgreSQL URL.

    Raises ``ConfigurationError`` for any other URL.
    """
    if url.startswith(("postgresql://", "postgres://")):
        return None
    path = unquote(url.removeprefix("sqlite:///"))
    if not url.startswith("sqlite:///") or not path or "\0" in path or "?" in url or "#" in url:
        raise ConfigurationError(
            f"the database URL {without_password(url)!r} is invalid. Write sqlite:///relative/path.db, "
            "sqlite:////absolute/path.db or postgresql://user@host/database."
        )
    return Path(path)


def has_database(url: str) -> bool:
    """Whether the database exists. Raises the errors of ``open_storage``."""
    path = database_path(url)
    return path.exists() if path is not None else look_at(url, read_state).revision is not None


def look_at(url: str, ask: Callable[[Connection, str], Answer]) -> Answer:
    """Query a database of any version without migrating it; ``ask`` also gets its name. Raises the errors of
    ``open_storage``.
    """
    path, name = database_path(url), without_password(url)
    if path is None:
        from keywright.db.session import Session

        with closing(Session(url)) as session, session.transaction() as connection:
            return ask(connection, name)
    try:
        with closing(make_engine(path, "ro").connect()) as connection, connection.begin():
            return ask(connection, str(path))
    except DBAPIError as problem:
        raise StoreUnavailable(f"{path} cannot be used: {problem.orig}") from problem


def open_storage(
    url: str, key_ring: KeyRing, *, read_url: str | None = None, read_lag_limit: int = 1_000
) -> Storage:
    """Open the database, create it if it does not exist, and migrate its schema.

    Reads go to the replica at ``read_url`` while it keeps up (``read_lag_limit`` in milliseconds, see
    ``Replica``). Before a migration, an SQLite database is copied into the folder ``backups`` next to it.
    Raises ``ConfigurationError`` for a URL that names no database, ``StoreError`` for a database that this
    version or this secret cannot use, ``StoreUnavailable`` if it cannot be reached.
    """
    path = database_path(url)
    if path is None:
        return _open_postgres(url, key_ring, read_url, read_lag_limit)
    if read_url is not None:
        raise ConfigurationError("only a PostgreSQL database has replicas: unset read_database_url.")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise ConfigurationError(f"{path.parent} cannot be created: {problem.strerror}") from problem
    refuse_network_file_system(path.parent)
    storage = SqliteStorage(path, key_ring)
    try:
        migrate_sqlite(storage, key_ring)
    except BaseException:
        storage.close()
        raise
    return storage


def _open_postgres(
    url: str, key_ring: KeyRing, read_url: str | None, read_lag_limit: int
) -> "PostgresStorage":
    from keywright.db.postgres import PostgresStorage
    from keywright.db.replica import Replica

    replica = None if read_url is None else Replica(read_url, lag_limit=read_lag_limit)
    storage = PostgresStorage(url, key_ring, replica)
    try:
        migrate_postgres(storage, key_ring)
    except BaseException:
        storage.close()
        raise
    return storage
