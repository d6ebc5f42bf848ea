"""The manifest of a backup, and the folder of daily backups and those started from the pages."""

import os
import re
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from sqlalchemy import Connection, func, inspect, select

from keywright.core.errors import NoSuchAddress, StoreError
from keywright.core.parsing import format_count, write_time
from keywright.db.copies import name_pattern
from keywright.db.migrate import HEAD, DatabaseState, read_state
from keywright.db.rows import to_datetime
from keywright.db.schema import (
    activations,
    api_keys,
    events,
    installation,
    licenses,
    metadata,
    policies,
    users,
)

_COUNTED = (licenses, activations, events, policies, api_keys, users)
_NEWEST_EVENT = select(events.c.occurred_at).order_by(events.c.id.desc()).limit(1)

Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class Contents(msgspec.Struct, frozen=True):
    """The row counts of the main tables, and the time of the newest event."""

    licenses: int
    activations: int
    events: int
    policies: int
    api_keys: int
    users: int
    newest_event_at: Moment | None

    @property
    def is_empty(self) -> bool:
        """Whether replacing the database loses nothing."""
        return not any(getattr(self, table.name) for table in _COUNTED)


class Description(msgspec.Struct, frozen=True):
    """The state of a database at one moment."""

    state: DatabaseState
    installed_at: datetime
    contents: Contents


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a backup."""

    format: int
    #: The moment of the snapshot.
    made_at: Moment
    #: The version of Keywright, and that of pg_dump (None for SQLite).
    made_by: str
    dumped_by: str | None
    database: Literal["sqlite", "postgresql"]
    #: The revision of the schema.
    revision: str
    #: Identifies the secret that the license keys are sealed with, without revealing it.
    secret_id: str
    #: During a rotation, the ID of the secret that some keys are still sealed with.
    previous_secret_id: str | None = None
    has_secret: bool
    #: The number of release files in it.
    files: int = 0
    installed_at: Moment
    contents: Contents


def describe(connection: Connection, name: str) -> Description | None:
    """Describe the database as this transaction sees it; None if it has no Keywright tables.

    Raises ``StoreError`` for a database of another program, or of a newer Keywright.
    """
    state = read_state(connection, name)
    if state.revision is None or state.secret_id is None:
        return None
    if state.revision > HEAD:
        raise StoreError(
            f"{name} was made by a newer Keywright (its schema is {state.revision!r}, this version supports "
            f"up to {HEAD!r}). Install that version, and try again."
        )
    installed_at = connection.execute(select(installation.c.created_at)).scalar_one()
    return Description(state, to_datetime(installed_at), _count_rows(connection))


def list_tables(connection: Connection) -> list[str]:
    """List Keywright's tables in this database, including the table with the schema's revision."""
    ours = {*metadata.tables, "alembic_version"}
    return sorted(ours & set(inspect(connection).get_table_names()))


def require_match(database: Description | None, manifest: Manifest, file: Path) -> None:
    """Raise ``StoreError`` unless the database matches the manifest of the backup in this file."""
    expected = (manifest.revision, manifest.secret_id, manifest.previous_secret_id, manifest.contents)
    if database is not None:
        state = database.state
        ids = (state.secret_id, state.previous_secret_id)
        if (state.revision, *ids, database.contents) == expected:
            return
    raise StoreError(f"the manifest of {file} does not match its database. Use another backup.")


def require_replaceable(
    existing: Description | None, manifest: Manifest, name: str, consequence: str, *, is_overwriting: bool
) -> None:
    """Raise ``StoreError`` with the ``consequence`` if there are contents, unless ``is_overwriting``."""
    if existing is None or existing.contents.is_empty or is_overwriting:
        return
    raise StoreError(
        f"{name} already contains an installation: {summarize(existing.contents)}. The backup of "
        f"{write_time(manifest.made_at)} (UTC) would replace it; {consequence}. If you want that, use "
        "--overwrite."
    )


def summarize(contents: Contents) -> str:
    """Summarize the contents for a sentence: ``2 licenses, 1 activation and 3 events …``."""
    licenses, activations, events = (
        format_count(number, noun)
        for number, noun in (
            (contents.licenses, "license"),
            (contents.activations, "activation"),
            (contents.events, "event"),
        )
    )
    words = f"{licenses}, {activations} and {events}"
    newest = contents.newest_event_at
    return words if newest is None else f"{words}, the newest of {write_time(newest)} (UTC)"


def _count_rows(connection: Connection) -> Contents:
    counts = {
        table.name: int(connection.execute(select(func.count()).select_from(table)).scalar_one())
        for table in _COUNTED
    }
    newest: Any = connection.execute(_NEWEST_EVENT).scalar()
    return Contents(**counts, newest_event_at=None if newest is None else to_datetime(newest))


_NAME = re.compile(r"keywright-(?P<day>\d{8})-(?P<time>\d{6})(?P<daily>-daily)?\.tar", re.ASCII)
#: A glob for the files of a backup in progress; a complete one has its final name.
_UNFINISHED = ".keywright-*/*"
_CHUNK_SIZE = 1 << 20


class Backup(NamedTuple):
    """A backup, or a copy of the database from before its migration from ``schema``. The size is in bytes."""

    name: str
    size: int
    made_at: datetime
    schema: str | None


class Backups:
    """The backups of an installation. ``database`` is the SQLite file; None for PostgreSQL, which is not
    copied before a migration.
    """

    def __init__(self, folder: Path, database: Path | None = None) -> None:
        self.folder = folder
        self._database = database
        self.folder_of_copies = folder if database is None else database.parent / "backups"

    def prepare(self, now: datetime) -> Path:
        """Create the folder and return the path for a new backup. Raises ``OSError``."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.folder / f"keywright-{now:%Y%m%d-%H%M%S}.tar"

    def path_of_daily(self, due_at: datetime) -> Path:
        """The path of the daily backup that is due at this time."""
        return self.folder / f"keywright-{due_at:%Y%m%d-%H%M%S}-daily.tar"

    def find_expired(self, keep: int) -> list[Path]:
        """All daily backups except the newest ``keep``."""
        daily = [
            path for path in self.folder.glob("*") if (found := _NAME.fullmatch(path.name)) and found["daily"]
        ]
        return sorted(daily)[:-keep]

    def all(self) -> list[Backup]:
        """All backups, newest first."""
        found = [one for folder, ours in self._patterns() for one in _list_folder(folder, ours)]
        return [kept for _, kept in sorted(found, reverse=True)]

    def find(self, name: str) -> Path:
        """Find the backup with this file name. Raises ``NoSuchAddress``."""
        for folder, ours in self._patterns():
            if ours.fullmatch(name) and _status(folder / name) is not None:
                return folder / name
        raise NoSuchAddress

    def size_in_progress(self) -> int:
        """The size in bytes of the backup in progress."""
        return sum(status.st_size for status in map(_status, self.folder.glob(_UNFINISHED)) if status)

    def _patterns(self) -> Iterator[tuple[Path, re.Pattern[str]]]:
        """The folders, and patterns of the file names in them that may be downloaded or deleted."""
        yield self.folder, _NAME
        if self._database is not None:
            yield self.folder_of_copies, name_pattern(self._database)


def require_readable(path: Path) -> int:
    """The size of the file in bytes. Raises ``OSError`` if it cannot be read."""
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_size


def media_type_of(path: Path) -> str:
    """The media type of an archive or a database."""
    return "application/x-tar" if path.suffix == ".tar" else "application/vnd.sqlite3"


def read_chunks(path: Path) -> Iterator[bytes]:
    """Read the file in chunks."""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_SIZE):
            yield chunk


def _list_folder(folder: Path, ours: re.Pattern[str]) -> Iterator[tuple[str, Backup]]:
    """The backups in a folder, each with the time in its name."""
    for path in folder.glob("*"):
        found, status = ours.fullmatch(path.name), _status(path)
        if found is not None and status is not None:
            made_at = datetime.fromtimestamp(int(status.st_mtime), UTC)
            kept = Backup(path.name, status.st_size, made_at, found.groupdict().get("schema"))
            yield found["day"] + found["time"], kept


def _status(path: Path) -> os.stat_result | None:
    """The status of a regular file; None for anything else."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None
