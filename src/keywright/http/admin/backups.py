"""The backups that the pages have made: files in a folder, each a whole installation but for its secret. And
the copies of an SQLite database that were made before it was changed for a newer version.
"""

import os
import re
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from keywright.core.errors import NoSuchAddress

_NAME = re.compile(r"keywright-(?P<day>\d{8})-(?P<time>\d{6})\.tar", re.ASCII)
#: How the name of a copy goes on and ends, see ``storage.migrate``.
_OF_COPY = r"-schema-(?P<schema>\w+)-(?P<day>\d{8})T(?P<time>\d{6})Z"
#: Where a backup is put together; it has its name when it is whole.
_UNFINISHED = ".keywright-*/*"
_PIECE = 1 << 20


class Kept(NamedTuple):
    """A backup: its file's name, its size in bytes, and when it was there. For a copy of the database that
    was made before an update, ``schema`` is the one that it was updated from.
    """

    name: str
    size: int
    made_at: datetime
    schema: str | None


class Backups:
    """The backups of an installation. ``database`` is its file; None where that is a PostgreSQL database, of
    which no copies are made.
    """

    def __init__(self, folder: Path, database: Path | None = None) -> None:
        self.folder = folder
        self._database = database
        #: Where copies of the database are.
        self.folder_of_copies = folder if database is None else database.parent / "backups"

    def prepare(self, now: datetime) -> Path:
        """The file for a new one; its folder is made where it is missing. Raises ``OSError``."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.folder / f"keywright-{now:%Y%m%d-%H%M%S}.tar"

    def all(self) -> list[Kept]:
        """Every backup, the newest first."""
        found = [one for folder, ours in self._ours() for one in _kept_in(folder, ours)]
        return [kept for _, kept in sorted(found, reverse=True)]

    def find(self, name: str) -> Path:
        """The file of this name. Raises ``NoSuchAddress``."""
        for folder, ours in self._ours():
            if ours.fullmatch(name) and _status(folder / name) is not None:
                return folder / name
        raise NoSuchAddress

    def unfinished(self) -> int:
        """How many bytes there are of one that is being made."""
        return sum(status.st_size for status in map(_status, self.folder.glob(_UNFINISHED)) if status)

    def _ours(self) -> Iterator[tuple[Path, re.Pattern[str]]]:
        """Where they are, and what they are called there; other files are not ours to give out or delete."""
        yield self.folder, _NAME
        if self._database is not None:
            stem, suffix = re.escape(self._database.stem), re.escape(self._database.suffix)
            yield self.folder_of_copies, re.compile(stem + _OF_COPY + suffix, re.ASCII)


def require_readable(path: Path) -> int:
    """How many bytes the file has. Raises ``OSError`` when it cannot be read."""
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_size


def media_type_of(path: Path) -> str:
    """What the file is: an archive, or a database."""
    return "application/x-tar" if path.suffix == ".tar" else "application/vnd.sqlite3"


def pieces_of(path: Path) -> Iterator[bytes]:
    """The file, piece by piece."""
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _kept_in(folder: Path, ours: re.Pattern[str]) -> Iterator[tuple[str, Kept]]:
    """What is there, each with the time in its name."""
    for path in folder.glob("*"):
        found, status = ours.fullmatch(path.name), _status(path)
        if found is not None and status is not None:
            made_at = datetime.fromtimestamp(int(status.st_mtime), UTC)
            kept = Kept(path.name, status.st_size, made_at, found.groupdict().get("schema"))
            yield found["day"] + found["time"], kept


def _status(path: Path) -> os.stat_result | None:
    """None for what is gone, or no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None
