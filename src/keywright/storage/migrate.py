"""Bring a database's schema up to date, carefully."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from keywright.errors import StoreError, StoreUnavailable
from keywright.keys import KeyRing
from keywright.storage import sqlite

#: The newest revision in ``migrations/versions``; a test compares them.
HEAD = "0001"
_SCRIPTS = "keywright.storage:migrations"

log = logging.getLogger(__name__)


def migrate(storage: sqlite.SqliteStorage, key_ring: KeyRing) -> None:
    """Make the tables, or change them to what this version needs, holding the one-writer lock.

    Raises ``StoreError`` for a database of a newer version, of another program, or sealed with
    another secret; ``StoreUnavailable`` when the file cannot be opened.
    """
    try:
        if storage.path.exists() and _is_current(storage.path, key_ring):
            return
        with storage.exclusively():
            if not storage.path.exists():
                sqlite.create_file(storage.path)
            revision = revision_of(storage.path)
            if revision != HEAD:
                _upgrade(storage.path, revision)
            _check_secret(storage.path, key_ring)
    except (sqlite3.Error, SQLAlchemyError) as problem:
        raise StoreUnavailable(f"{storage.path} cannot be used: {problem}") from problem


def _is_current(path: Path, key_ring: KeyRing) -> bool:
    """Whether there is nothing to do; looking needs no lock."""
    if revision_of(path) != HEAD:
        return False
    with closing(sqlite.connect(path, "ro")) as connection:
        row = connection.execute("SELECT secret_mark FROM installation").fetchone()
    return row is not None and row[0] == key_ring.secret_mark


def revision_of(path: Path) -> str | None:
    """The schema revision of a database, or None when it has no tables yet."""
    with closing(sqlite.connect(path, "ro")) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        if not tables:
            return None
        if not {"alembic_version", "installation"} <= tables:
            raise StoreError(f"{path} is a database of another program; it was left alone.")
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return None if row is None else str(row[0])


def _upgrade(path: Path, revision: str | None) -> None:
    # Imported here: it takes a third of a second and ten megabytes, and is needed once a release.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError
    from sqlalchemy import create_engine, pool

    config = Config()
    config.set_main_option("script_location", _SCRIPTS)
    if revision is not None:
        try:
            ScriptDirectory.from_config(config).get_revision(revision)
        except CommandError:
            raise StoreError(
                f"{path} was made by a newer Keywright (its schema is {revision!r}, this version "
                f"knows up to {HEAD!r}). Install that version, or restore a backup."
            ) from None
        log.info("saved a copy before the migration: %s", _back_up(path, revision))
    engine = create_engine(
        "sqlite://",
        creator=lambda: sqlite.connect(path, "rw"),
        poolclass=pool.NullPool,
        hide_parameters=True,
    )
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        connection.commit()


def _back_up(path: Path, revision: str) -> Path:
    folder = path.parent / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    copy = folder / f"{path.stem}-schema-{revision}-{stamp}{path.suffix}"
    sqlite.copy(path, copy)
    return copy


def _check_secret(path: Path, key_ring: KeyRing) -> None:
    with closing(sqlite.connect(path, "rw")) as connection:
        row = connection.execute("SELECT secret_mark FROM installation").fetchone()
        if row is None:
            now = int(datetime.now(UTC).timestamp())
            connection.execute(
                "INSERT INTO installation (id, secret_mark, created_at) VALUES (1, ?, ?)",
                (key_ring.secret_mark, now),
            )
        elif row[0] != key_ring.secret_mark:
            raise StoreError(
                f"{path} was written with another secret, and its license keys cannot be read with "
                "this one. Use the secret file that belongs to this database."
            )
