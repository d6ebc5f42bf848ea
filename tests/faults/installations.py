"""Databases with licenses in them, for Keywrights that have trouble with their connection."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from keywright.core.crypto import KeyRing
from keywright.db import open_storage
from keywright.maintenance.doctor import examine
from keywright.registry import open_executor
from tests.databases import execute, with_long_timeout
from tests.makers import create
from tests.proving import size
from tests.server import NO_LIMITS
from tools.postgres import PostgresServer

SECRET = "a secret of tests with 32 letters"
KEY_RING = KeyRing(SECRET.encode())
#: How the sessions of every Keywright call themselves.
SESSIONS = "application_name LIKE 'keywright%'"


def rounds(full: int) -> pytest.MarkDecorator:
    """Run the test once; or, in ``make prove``, that many times."""
    return pytest.mark.parametrize("round_number", range(1, size(1, full) + 1))


class Store:
    """A new database with tables and some licenses without a limit."""

    def __init__(self, url: str, *, licenses: int = 4) -> None:
        self.url = url
        self.keys = [f"CANARY-{number}" for number in range(licenses)]
        with closing(open_storage(url, KEY_RING)) as storage:
            open_executor(storage).execute([create(key) for key in self.keys])

    def settings(self) -> dict[str, Any]:
        """The settings of a Keywright on this database."""
        return {"database_url": self.url, "secret": SECRET, **NO_LIMITS}

    def sql(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What the database itself says."""
        raise NotImplementedError

    def labels(self) -> Counter[str]:
        """How many activations have which label."""
        return Counter(label for (label,) in self.sql("SELECT label FROM activations"))

    def assert_sound(self) -> None:
        """The doctor finds nothing: every counter is the number of active records, every activation has
        its license and its events, no number was given twice.
        """
        with closing(open_storage(with_long_timeout(self.url), KEY_RING)) as storage:
            assert list(examine(storage, lambda _: None)) == []


class SqliteFile(Store):
    """It is a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__(f"sqlite:///{path}")

    def sql(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as connection:
            return connection.execute(query, values).fetchall()


class Database(Store):
    """It is on the server."""

    def __init__(self, server: PostgresServer, *, licenses: int = 4) -> None:
        self.server = server
        self.name = server.create_database()
        super().__init__(server.url(self.name), licenses=licenses)

    def settings(self, *, port: int | None = None, **parameters: str) -> dict[str, Any]:
        """The same, reached through ``port``; more for its URL."""
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        url = self.server.url(self.name, port=port)
        return super().settings() | {"database_url": f"{url}?{query}"}

    def sql(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What the database itself says, or does, without waiting for a standby."""
        options = "-csynchronous_commit=local -cdefault_transaction_read_only=off"
        return execute(f"{self.url}?options={quote(options)}", query, *values)

    def set(self, name: str, value: str | None) -> None:
        """Change a setting of the server while it runs; None is what it was before."""
        change = f"SET {name} = '{value}'" if value is not None else f"RESET {name}"
        self.sql(f"ALTER SYSTEM {change}")
        self.sql("SELECT pg_reload_conf()")

    def sessions(self, condition: str) -> list[int]:
        """The process numbers of Keywright's sessions of which this is true in ``pg_stat_activity``."""
        query = f"""SELECT pid FROM pg_stat_activity
                    WHERE datname = current_database() AND {SESSIONS} AND {condition}"""  # noqa: S608
        return [pid for (pid,) in self.sql(query)]

    def hang_up(self) -> None:
        """End every session of a Keywright, as an administrator would."""
        for pid in self.sessions("TRUE"):
            self.sql("SELECT pg_terminate_backend(%s)", pid)
