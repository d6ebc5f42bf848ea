"""Backups that were started from the pages or are made daily: files in a folder, each a whole installation
without its secret. And copies of an SQLite database that were made before a migration.
"""

import os
import re
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from keywright.core.errors import NoSuchAddress
from keywright.db.copies import name_pattern

_NAME = re.compile(r"keywright-(?P<day>\d{8})-(?P<time>\d{6})(?P<daily>-daily)?\.tar", re.ASCII)
#: The files of a backup in progress; a complete one has its final name.
_UNFINISHED = ".keywright-*/*"
_CHUNK_SIZE = 1 << 20


class Backup(NamedTuple):
    """A backup, or a copy of the database that was made before it was migrated from ``schema``. Its size is
    in bytes.
    """

    name: str
    size: int
    made_at: datetime
    schema: str | None


class Backups:
    """The backups of an installation. ``database`` is its file; None where that is a PostgreSQL database,
    which has no copies.
    """

    def __init__(self, folder: Path, database: Path | None = None) -> None:
        self.folder = folder
        self._database = database
        self.folder_of_copies = folder if database is None else database.parent / "backups"

    def prepare(self, now: datetime) -> Path:
        """The path for a new backup; makes the folder. Raises ``OSError``."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.folder / f"keywright-{now:%Y%m%d-%H%M%S}.tar"

    def path_of_daily(self, due_at: datetime) -> Path:
        """The path of the daily backup that is due at this time."""
        return self.folder / f"keywright-{due_at:%Y%m%d-%H%M%S}-daily.tar"

    def find_expired(self, keep: int) -> list[Path]:
        """All daily backups but the newest ``keep``."""
        daily = [
            path for path in self.folder.glob("*") if (found := _NAME.fullmatch(path.name)) and found["daily"]
        ]
        return sorted(daily)[:-keep]

    def all(self) -> list[Backup]:
        """Every backup, the newest first."""
        found = [one for folder, ours in self._patterns() for one in _list_folder(folder, ours)]
        return [kept for _, kept in sorted(found, reverse=True)]

    def find(self, name: str) -> Path:
        """The file of this name. Raises ``NoSuchAddress``."""
        for folder, ours in self._patterns():
            if ours.fullmatch(name) and _status(folder / name) is not None:
                return folder / name
        raise NoSuchAddress

    def size_in_progress(self) -> int:
        """The size in bytes of the backup in progress."""
        return sum(status.st_size for status in map(_status, self.folder.glob(_UNFINISHED)) if status)

    def _patterns(self) -> Iterator[tuple[Path, re.Pattern[str]]]:
        """The folders and the names of the files in them that may be downloaded or deleted."""
        yield self.folder, _NAME
        if self._database is not None:
            yield self.folder_of_copies, name_pattern(self._database)


def require_readable(path: Path) -> int:
    """The size of the file in bytes. Raises ``OSError`` when it cannot be read."""
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
