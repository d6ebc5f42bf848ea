"""Bring a database's schema up to date, carefully.

Every revision leaves the previous release's code able to work: while instances are updated one after the
other, old and new ones share the database. What the oldest usable code is stands in the database itself.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, Row, TextClause, insert, inspect, text, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from keywright.core.crypto import KeyRing
from keywright.core.errors import LockTimeout, RejectedByDatabase, SecretMissing, StoreError, StoreUnavailable
from keywright.db import pre_release, sqlite
from keywright.db.retry import with_retries
from keywright.db.schema import installation, metadata
from keywright.db.secret_ids import SecretIds, describe_missing_secrets

if TYPE_CHECKING:
    from keywright.db.postgres import PostgresStorage

#: The newest revision in ``migrations/versions``; a test compares them.
HEAD = "0008"
#: The oldest revision whose code works with HEAD's schema: that of the previous release.
OLDEST_COMPATIBLE = "0008"
_SCRIPTS = "keywright.db:migrations"
_VERSION = text("SELECT version_num FROM alembic_version")
_LOCK = "LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE"

log = logging.getLogger(__name__)


class State(NamedTuple):
    """What a database says of itself; all None when it has no tables yet."""

    revision: str | None = None
    oldest_compatible_revision: str | None = None
    secret_id: str | None = None
    previous_secret_id: str | None = None


def migrate_sqlite(storage: sqlite.SqliteStorage, key_ring: KeyRing) -> None:
    """Make the tables, or change them to what this version needs, holding the one-writer lock.

    A database that exists is copied first. Raises ``StoreError`` for a database of a newer version, of
    another program, or sealed with another secret; ``StoreUnavailable`` when the file cannot be opened.
    """
    path = storage.path
    try:
        if sqlite.is_made(path) and _is_current(state_of_file(path), key_ring, str(path)):
            return
        with storage.exclusively():
            if not sqlite.is_made(path):
                sqlite.create_file(path)
            revision = state_of_file(path).revision
            if revision is not None and revision < HEAD:
                log.info("saved a copy before the migration: %s", _back_up(path, revision))
            with closing(_connected(path)) as connection, connection.begin():
                _bring_up_to_date(connection, key_ring, str(path))
    except (sqlite3.Error, SQLAlchemyError) as problem:
        # What SQLAlchemy adds to the database's words are lines of its own.
        said = problem.orig if isinstance(problem, DBAPIError) else problem
        raise StoreUnavailable(f"{path} cannot be used: {said}") from problem


def migrate_postgres(storage: PostgresStorage, key_ring: KeyRing) -> None:
    """Make the tables, or change them to what this version needs; any number of processes may try at
    once, one of them does it.

    Raises what ``migrate_sqlite`` raises.
    """

    def with_what_is_there() -> bool:
        with storage.exclusively() as connection:
            return _is_current(state_of(connection), key_ring, storage.name)

    def under_lock() -> None:
        with storage.exclusively() as connection:
            # One transaction for all of it: whoever comes meanwhile waits, and then finds it done.
            connection.exec_driver_sql("SET LOCAL lock_timeout = '60s'")
            connection.exec_driver_sql(
                "CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL, "
                "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
            )
            connection.exec_driver_sql(_LOCK)
            _bring_up_to_date(connection, key_ring, storage.name)

    try:
        if not _is_seen_to_be_current(with_what_is_there):
            with_retries(under_lock)
    except SecretMissing as problem:
        raise StoreError(str(problem)) from None
    except RejectedByDatabase as problem:
        raise StoreError(
            f"the tables cannot be made or changed in {storage.name}: {problem}. The role needs the right "
            "to create tables there."
        ) from problem


def _is_seen_to_be_current(look: Callable[[], bool]) -> bool:
    try:
        return with_retries(look)
    except LockTimeout:
        # Somebody is at it; whoever waits for that lock finds it done.
        return False


def state_of_file(path: Path) -> State:
    """What an SQLite database says of itself. Raises ``StoreError`` for another program's."""
    with closing(_connected(path, "ro")) as connection, connection.begin():
        return state_of(connection, str(path))


def state_of(connection: Connection, name: str = "this database") -> State:
    """What the database says of itself. Raises ``StoreError`` for another program's."""
    tables = set(inspect(connection).get_table_names())
    if "installation" not in tables:
        # An empty table of revisions is of a migration that has just begun.
        is_begun = "alembic_version" in tables and not _first(connection, _VERSION)
        if _in_the_way(connection, tables - {"alembic_version"} if is_begun else tables):
            raise StoreError(f"{name} is a database of another program; it was left alone.")
        return State()
    if "alembic_version" not in tables:
        raise StoreError(f"{name} is a database of another program; it was left alone.")
    version, row = _first(connection, _VERSION), _first(connection, text("SELECT * FROM installation"))
    said = {} if row is None else row._mapping
    return State(
        version and version[0],
        said.get("oldest_compatible_revision"),
        said.get("secret_id"),
        said.get("previous_secret_id"),
    )


def _in_the_way(connection: Connection, tables: set[str]) -> set[str]:
    """The tables of other programs: on a PostgreSQL server they may stay beside ours."""
    if connection.dialect.name == "sqlite":
        return tables
    return tables & {*metadata.tables, "alembic_version"}


def _first(connection: Connection, query: TextClause) -> Row[Any] | None:
    return connection.execute(query).first()


def _is_current(state: State, key_ring: KeyRing, name: str) -> bool:
    """Whether there is nothing to do; looking needs no lock. Raises ``StoreError`` for a newer one."""
    if state.revision is None or state.revision < HEAD or state.secret_id is None:
        return False
    _check_code(state, name)
    _check_secret(state, key_ring, name)
    return True


def _bring_up_to_date(connection: Connection, key_ring: KeyRing, name: str) -> None:
    state = state_of(connection, name)
    if state.revision is not None and state.revision <= pre_release.REVISION:
        pre_release.convert(connection, state.revision, name)
    if state.revision is None or state.revision < HEAD:
        _upgrade(connection)
        connection.execute(update(installation).values(oldest_compatible_revision=OLDEST_COMPATIBLE))
        state = state_of(connection, name)
    _check_code(state, name)
    if state.secret_id is None:
        now = int(datetime.now(UTC).timestamp())
        values = {
            "id": 1,
            "secret_id": key_ring.secret_id,
            "created_at": now,
            "oldest_compatible_revision": OLDEST_COMPATIBLE,
        }
        connection.execute(insert(installation).values(values))
    else:
        _check_secret(state, key_ring, name)


def _check_code(state: State, name: str) -> None:
    if state.revision is None or state.revision <= HEAD:
        return
    if state.oldest_compatible_revision is None or state.oldest_compatible_revision > HEAD:
        raise StoreError(
            f"{name} was made by a newer Keywright (its schema is {state.revision!r}, this version "
            f"knows up to {HEAD!r}). Install that version, or restore a backup."
        )
    log.warning("%s was updated by a newer Keywright; this version still works with it", name)


def _check_secret(state: State, key_ring: KeyRing, name: str) -> None:
    secret_ids = SecretIds(state.secret_id or "", state.previous_secret_id)
    complaint = describe_missing_secrets(secret_ids, key_ring, name)
    if complaint is not None:
        raise StoreError(complaint)


def _upgrade(connection: Connection) -> None:
    # Imported here: it takes a third of a second and ten megabytes, and is needed once a release.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _SCRIPTS)
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _connected(path: Path, mode: str = "rw") -> Connection:
    return sqlite.engine(path, mode).connect()


def _back_up(path: Path, revision: str) -> Path:
    folder = path.parent / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    copy = folder / f"{path.stem}-schema-{revision}-{stamp}{path.suffix}"
    sqlite.copy(path, copy)
    return copy
