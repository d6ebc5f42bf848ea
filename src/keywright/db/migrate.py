"""Create a database's schema, or migrate it.

The previous release works with every new revision: during a rolling update, old and new instances share the
database. The database states the oldest revision whose code may use it.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, Row, TextClause, insert, inspect, text, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from keywright.core.crypto import KeyRing
from keywright.core.errors import LockTimeout, RejectedByDatabase, SecretMissing, StoreError, StoreUnavailable
from keywright.core.parsing import format_size
from keywright.db import sqlite
from keywright.db.copies import make_copy
from keywright.db.retry import with_retries
from keywright.db.schema import FIRST_OWN_ID, ID_KINDS, installation, metadata, sequences
from keywright.db.sealed_columns import SecretIds, describe_missing_secrets

if TYPE_CHECKING:
    from alembic.config import Config

    from keywright.db.postgres import PostgresStorage

#: The newest revision: the names of the files in ``migrations/versions`` begin with theirs.
HEAD = max(one.name[:4] for one in Path(__file__).with_name("migrations").glob("versions/[0-9]*.py"))
#: The oldest revision whose code works with the schema of HEAD: that of the previous release.
OLDEST_COMPATIBLE = "0016"
#: The revision of the first release. Earlier ones belong to versions that cannot be migrated.
_FIRST = "0016"
_SCRIPTS = "keywright.db:migrations"
_VERSION = text("SELECT version_num FROM alembic_version")
_SIZE = {
    "sqlite": text("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"),
    "postgresql": text("SELECT pg_database_size(current_database())"),
}
#: The table in which Alembic stores the revision.
_CREATE_REVISIONS = (
    "CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
#: On PostgreSQL, a starting server reads this table first, and so waits until the transaction ends.
LOCK_OUT_SERVERS = (
    _CREATE_REVISIONS,
    "LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE",
)

log = logging.getLogger(__name__)


class DatabaseState(NamedTuple):
    """A database's revision, compatibility and secrets; all None before it has tables."""

    revision: str | None = None
    oldest_compatible_revision: str | None = None
    secret_id: str | None = None
    previous_secret_id: str | None = None


def migrate_sqlite(storage: sqlite.SqliteStorage, key_ring: KeyRing) -> None:
    """Create or migrate the tables, with the write lock held. An existing database is copied first.

    Raises ``StoreError`` for a database of a newer version, of another program, or sealed with another
    secret; ``StoreUnavailable`` if the file cannot be opened.
    """
    path = storage.path
    try:
        if sqlite.is_complete(path) and _is_current(read_file_state(path), key_ring, str(path)):
            return
        with storage.write_lock():
            if not sqlite.is_complete(path):
                sqlite.create_file(path)
            revision = read_file_state(path).revision
            if revision is not None and revision < HEAD:
                _back_up(path, revision)
            with closing(_connect(path)) as connection, connection.begin():
                _migrate(connection, key_ring, str(path))
    except (sqlite3.Error, SQLAlchemyError) as problem:
        # SQLAlchemy's message is longer than the database's.
        cause = problem.orig if isinstance(problem, DBAPIError) else problem
        raise StoreUnavailable(f"{path} cannot be used: {cause}") from problem


def migrate_postgres(storage: PostgresStorage, key_ring: KeyRing) -> None:
    """Create or migrate the tables. Any number of processes may call this concurrently; one of them migrates.

    Raises the errors of ``migrate_sqlite``.
    """

    def is_current() -> bool:
        with storage.migration_transaction() as connection:
            return _is_current(read_state(connection), key_ring, storage.name)

    def migrate() -> None:
        with storage.migration_transaction() as connection:
            # In one transaction: other processes wait for it, and then find the tables migrated.
            connection.exec_driver_sql("SET LOCAL lock_timeout = '60s'")
            for statement in LOCK_OUT_SERVERS:
                connection.exec_driver_sql(statement)
            _migrate(connection, key_ring, storage.name)

    try:
        if not _try_check(is_current):
            with_retries(migrate)
    except SecretMissing as problem:
        raise StoreError(str(problem)) from None
    except RejectedByDatabase as problem:
        raise StoreError(
            f"the tables cannot be created or changed in {storage.name}: {problem}. The role needs "
            "permission to create tables there."
        ) from problem


def _try_check(is_current: Callable[[], bool]) -> bool:
    try:
        return with_retries(is_current)
    except LockTimeout:
        # Another process is migrating.
        return False


def read_file_state(path: Path) -> DatabaseState:
    """Read the state of an SQLite database. Raises ``StoreError`` for another program's."""
    with closing(_connect(path, "ro")) as connection, connection.begin():
        return read_state(connection, str(path))


def read_state(connection: Connection, name: str = "this database") -> DatabaseState:
    """Read the state of a database. Raises ``StoreError`` for another program's."""
    tables = set(inspect(connection).get_table_names())
    if "installation" not in tables:
        # Another process, which has just begun to migrate, has created an empty table of revisions.
        is_begun = "alembic_version" in tables and not _first(connection, _VERSION)
        if _find_foreign_tables(connection, tables - {"alembic_version"} if is_begun else tables):
            raise StoreError(f"{name} is a database of another program; it was not changed.")
        return DatabaseState()
    if "alembic_version" not in tables:
        raise StoreError(f"{name} is a database of another program; it was not changed.")
    version, row = _first(connection, _VERSION), _first(connection, text("SELECT * FROM installation"))
    columns = {} if row is None else row._mapping
    return DatabaseState(
        version and version[0],
        columns.get("oldest_compatible_revision"),
        columns.get("secret_id"),
        columns.get("previous_secret_id"),
    )


def read_usable_state(connection: Connection, key_ring: KeyRing, name: str) -> DatabaseState:
    """Read the state of a database. Raises ``StoreError`` for one that this version or secret cannot use."""
    state = read_state(connection, name)
    _check_revision(state, name)
    _check_secret(state, key_ring, name)
    return state


def read_size(connection: Connection) -> int:
    """Return the size of the database in bytes."""
    return int(connection.execute(_SIZE[connection.dialect.name]).scalar_one())


def _find_foreign_tables(connection: Connection, tables: set[str]) -> set[str]:
    """Find tables of other programs. On PostgreSQL, only those named like Keywright's tables matter."""
    if connection.dialect.name == "sqlite":
        return tables
    return tables & {*metadata.tables, "alembic_version"}


def _first(connection: Connection, query: TextClause) -> Row[Any] | None:
    return connection.execute(query).first()


def _is_current(state: DatabaseState, key_ring: KeyRing, name: str) -> bool:
    """Whether no migration is needed. Raises ``StoreError`` for a database that this version cannot use."""
    _check_revision(state, name)
    if state.revision is None or state.revision < HEAD or state.secret_id is None:
        return False
    _check_secret(state, key_ring, name)
    return True


def _migrate(connection: Connection, key_ring: KeyRing, name: str) -> None:
    state = read_state(connection, name)
    if state.revision is None:
        _create_tables(connection)
        state = read_state(connection, name)
    elif state.revision < HEAD:
        _upgrade(connection, key_ring, state.revision, name)
        connection.execute(update(installation).values(oldest_compatible_revision=OLDEST_COMPATIBLE))
        state = read_state(connection, name)
    _check_revision(state, name)
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


def _check_revision(state: DatabaseState, name: str) -> None:
    if state.revision is not None and state.revision < _FIRST:
        raise StoreError(
            f"{name} was made by a version before the first release (its schema is {state.revision!r}), "
            "and cannot be migrated; it was not changed. Export its licenses with that version (keywright "
            "export), start with a new database, and import them (keywright import)."
        )
    if state.revision is None or state.revision <= HEAD:
        return
    if state.oldest_compatible_revision is None or state.oldest_compatible_revision > HEAD:
        raise StoreError(
            f"{name} was made by a newer Keywright (its schema is {state.revision!r}, this version "
            f"supports up to {HEAD!r}). Install that version, or restore a backup."
        )
    log.warning("%s was updated by a newer Keywright; this version still works with it", name)


def _check_secret(state: DatabaseState, key_ring: KeyRing, name: str) -> None:
    secret_ids = SecretIds(state.secret_id or "", state.previous_secret_id)
    message = describe_missing_secrets(secret_ids, key_ring, name)
    if message is not None:
        raise StoreError(message)


def list_pending(revision: str) -> list[str]:
    """Return the revisions after this one, oldest first, each with its description."""
    if revision >= HEAD:
        return []
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(_read_config()).iterate_revisions("head", revision)
    return [f"{one.revision} ({one.doc})" for one in reversed(list(scripts))]


def _create_tables(connection: Connection) -> None:
    """Create what all migrations together create, as tests verify: it makes a first start faster."""
    metadata.create_all(connection, checkfirst=False)
    first_ids = {"product": FIRST_OWN_ID, "customer": FIRST_OWN_ID}
    rows = [{"name": kind, "last_id": first_ids.get(kind, 1) - 1} for kind in ID_KINDS]
    connection.execute(insert(sequences), rows)
    connection.exec_driver_sql(_CREATE_REVISIONS)
    connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})


def _upgrade(connection: Connection, key_ring: KeyRing, revision: str, name: str) -> None:
    # Imported here: it takes a third of a second and ten megabytes, and is needed once per release.
    from alembic import command

    began = monotonic()
    size = format_size(read_size(connection))
    pending = ", ".join(list_pending(revision))
    log.info("migrating %s (%s) from schema %s: %s", name, size, revision, pending)
    config = _read_config()
    config.attributes.update(connection=connection, key_ring=key_ring)
    command.upgrade(config, "head")
    log.info("migrated %s to schema %s in %.1f s", name, HEAD, monotonic() - began)


def _read_config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _SCRIPTS)
    return config


def _connect(path: Path, mode: str = "rw") -> Connection:
    return sqlite.make_engine(path, mode).connect()


def _back_up(path: Path, revision: str) -> None:
    began = monotonic()
    copy, is_new = make_copy(path, revision)
    if is_new:
        log.info("saved a copy before the migration: %s (%.1f s)", copy, monotonic() - began)
    else:
        log.info("the database is as in the copy of an earlier attempt: %s", copy)
