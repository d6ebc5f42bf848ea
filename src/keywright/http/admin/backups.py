"""The backups that the pages have made: files in a folder, each a whole installation but for its secret."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from keywright.errors import NoSuchAddress

_NAME = re.compile(r"keywright-\d{8}-\d{6}\.tar")
#: Where a backup is put together; it has its name when it is whole.
_UNFINISHED = ".keywright-*/*"
_PIECE = 1 << 20


class Kept(NamedTuple):
    """A backup: its file's name, its size in bytes, and when it was there."""

    name: str
    size: int
    made_at: datetime


class Backups:
    """The backups of an installation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self, now: datetime) -> Path:
        """The file for a new one; its folder is made where it is missing. Raises ``OSError``."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.folder / f"keywright-{now:%Y%m%d-%H%M%S}.tar"

    def all(self) -> list[Kept]:
        """Every backup, the newest first."""
        found = [one for one in self.folder.glob("keywright-*.tar") if _NAME.fullmatch(one.name)]
        return sorted(filter(None, map(_kept, found)), key=lambda one: one.name, reverse=True)

    def find(self, name: str) -> Path:
        """The file of this name. Raises ``NoSuchAddress``."""
        path = self.folder / name
        if not _NAME.fullmatch(name) or not path.is_file():
            raise NoSuchAddress
        return path

    def unfinished(self) -> int:
        """How many bytes there are of one that is being made."""
        return sum(kept.size for kept in map(_kept, self.folder.glob(_UNFINISHED)) if kept)


def pieces_of(path: Path) -> Iterator[bytes]:
    """The file, piece by piece."""
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _kept(path: Path) -> Kept | None:
    """None for a file that is gone."""
    try:
        status = path.stat()
    except OSError:
        return None
    return Kept(path.name, status.st_size, datetime.fromtimestamp(int(status.st_mtime), UTC))
