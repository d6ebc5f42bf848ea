"""The databases that tests run on: an SQLite file, or one on a PostgreSQL server of the test run's own.

The server is started when it is first needed, and stopped when the run ends (see ``conftest.py``).
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from typing import Any

import psycopg

from keywright.storage import open_storage
from tests.makers import KEY_RING
from tools.postgres import FAST, PostgresServer

#: The kinds of databases.
KINDS = ("sqlite", "postgresql")


@cache
def postgres() -> PostgresServer:
    """The server of this test run."""
    server = PostgresServer(**FAST, max_connections="200")
    server.start()
    return server


def stop_postgres() -> None:
    """Stop and remove the server, if it was ever needed."""
    if postgres.cache_info().currsize:
        postgres().remove()
        postgres.cache_clear()
        _template.cache_clear()


@cache
def _template() -> str:
    """The name of a database with all tables and nothing in them."""
    name = postgres().create_database()
    open_storage(postgres().url(name), KEY_RING).close()
    return name


@contextmanager
def a_postgres_url(*, empty: bool = False) -> Iterator[str]:
    """The URL of a new database with all tables (``empty``: with none), dropped after the block."""
    server = postgres()
    name = server.create_database() if empty else server.create_database(_template())
    try:
        yield server.url(name)
    finally:
        server.drop_database(name)


def unhurried(url: str) -> str:
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
