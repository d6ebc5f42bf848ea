"""The databases that tests run on: an SQLite file, or one on a PostgreSQL server of the test run's own.

The server is started when it is first needed, and stopped when the run ends (see ``conftest.py``).
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from sqlalchemy import Connection, TextClause, event
from sqlalchemy.engine import Engine
from sqlalchemy.util import LRUCache

from keywright.core.crypto import KeyRing
from keywright.db import open_storage
from tests.makers import KEY_RING
from tools.postgres import FAST, UNPRIVILEGED, PostgresServer

#: The kinds of databases.
KINDS = ("sqlite", "postgresql")

#: Where files are in memory, and how many bytes must be free there. Hundreds of tests have a database of
#: their own, and each is three hundred files: on a disk they take three times as long to make and remove.
_MEMORY = Path("/dev/shm")
_ENOUGH = 4 << 30


class _Compiled(LRUCache[Any, Any]):
    """Compiled statements of all engines. Each test has a database, and so an engine, of its own: to compile
    anew would be a fifth of a test. What is compiled depends on the kind and the version of the database
    alone; but the columns of a text with ``*`` depend on its schema.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(self._without_engine(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        if not isinstance(compiled.statement, TextClause):
            super().__setitem__(self._without_engine(key), compiled)

    def _without_engine(self, key: Any) -> Any:
        dialect, *statement = key
        return (type(dialect), dialect.paramstyle, dialect.server_version_info, *statement)


_COMPILED = _Compiled(2_000)


@event.listens_for(Engine, "engine_connect")
def _share_compiled(connection: Connection) -> None:
    connection.execution_options(compiled_cache=_COMPILED)


def has_memory_for_files() -> bool:
    """Whether the files of tests fit into memory on this machine."""
    return _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ENOUGH


def keep_files_in_memory() -> None:
    """Let ``tmp_path`` be in memory where there is room: SQLite waits for a disk at each commit."""
    if has_memory_for_files():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


@cache
def postgres() -> PostgresServer:
    """The server of this test run."""
    # A checkpoint leaves the log of the last writes where a test may read it.
    server = PostgresServer(**FAST, max_connections="200", wal_keep_size="256MB")
    if folder := _in_memory():
        _move(server.folder / "data" / "base", Path(folder.name))
    server.start()
    return server


@cache
def _in_memory() -> TemporaryDirectory[str] | None:
    """A folder in memory for the databases of this run's server; None where there is no room for them."""
    if not has_memory_for_files():
        return None
    return TemporaryDirectory(prefix="kw-", dir=_MEMORY)


def _move(base: Path, folder: Path) -> None:
    """Put a server's databases into this folder, and a link where they were."""
    shutil.copytree(base, folder, dirs_exist_ok=True)
    if os.geteuid() == 0:
        for one in (folder, *folder.rglob("*")):
            shutil.chown(one, UNPRIVILEGED)
    shutil.rmtree(base)
    base.symlink_to(folder)


def stop_postgres() -> None:
    """Stop and remove the server, if it was ever needed."""
    if postgres.cache_info().currsize:
        postgres().remove()
        if folder := _in_memory():
            folder.cleanup()
        _in_memory.cache_clear()
        postgres.cache_clear()
        _template.cache_clear()


@cache
def _template(key_ring: KeyRing) -> str:
    """The name of a database with all tables and nothing in them."""
    name = postgres().create_database()
    open_storage(postgres().url(name), key_ring).close()
    return name


@contextmanager
def a_postgres_url(*, empty: bool = False, key_ring: KeyRing = KEY_RING) -> Iterator[str]:
    """The URL of a new database with all tables (``empty``: with none), dropped after the block."""
    server = postgres()
    name = server.create_database() if empty else server.create_database(_template(key_ring))
    try:
        yield server.url(name)
    finally:
        server.drop_database(name)


def from_afar(url: str) -> str:
    """The same database under a name that does not say that its server is on this machine."""
    assert "@127.0.0.1:" in url
    return url.replace("@127.0.0.1:", "@127.1:")


def with_long_timeout(url: str) -> str:
    """The same database, for who does not mind how long a busy server takes to let him in."""
    if not url.startswith("postgresql"):
        return url
    query = "" if url.endswith("?") else "&" if "?" in url else "?"
    return f"{url}{query}connect_timeout=60"


def execute(url: str, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement on a connection of its own; its rows, if it has any."""
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        cursor = connection.execute(query, values or None)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def recorded_statements() -> Iterator[list[str]]:
    """The statements that run meanwhile."""
    statements: list[str] = []

    def record(*given: Any) -> None:
        statements.append(given[2])

    event.listen(Engine, "after_cursor_execute", record)
    try:
        yield statements
    finally:
        event.remove(Engine, "after_cursor_execute", record)
