"""A disk that writes down what is done to it.

It is a VFS (https://sqlite.org/vfs.html) over the system's own: SQLite works on real files in one folder, and
every operation that changes one of them is recorded in its order. What of it survives the loss of power is
judged by ``tests.power.survivors``.

The ``-shm`` file is not on this disk: it is shared memory, and nothing of it is there afterwards.
"""

from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple

import apsw

_numbers = count(1)
#: SQLite syncs the folder with the first sync of these kinds of files, for they may be new
#: (unixSync in https://sqlite.org/src/file/src/os_unix.c).
_SYNCED_WITH_FOLDER = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL

Kind = Literal["create", "delete", "sync folder", "write", "truncate", "sync"]


class Operation(NamedTuple):
    """Something that was done to a file, or to the folder.

    ``file`` is a number that each file has for itself: one that is made under the name of a deleted one is
    another file. ``offset`` is where a write begins, or the size after a truncation.
    """

    kind: Kind
    name: str = ""
    file: int = 0
    offset: int = 0
    data: bytes = b""


class Disk(apsw.VFS):
    """A folder of real files; ``operations`` is all that was done to them. What is there already is safe."""

    def __init__(self, folder: Path) -> None:
        self.vfs_name = f"disk-{next(_numbers)}"
        super().__init__(self.vfs_name, "unix")
        self.folder = folder
        self.operations: list[Operation] = []
        self._files: dict[str, int] = {}
        self._file_numbers = count(1)
        for path in sorted(folder.iterdir()) if folder.exists() else ():
            name, number = self._made(path.name)
            self.operations.append(Operation("write", name, number, 0, path.read_bytes()))
            self.operations.append(Operation("sync", name, number))
        self.operations.append(Operation("sync folder"))

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None:
            # Nobody misses a temporary file.
            return apsw.VFSFile("unix", name, flags)
        return _File(self, name, path, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        name = self.name_of(filename)
        self.operations.append(Operation("delete", name, self._files.pop(name)))
        if syncdir:
            self.operations.append(Operation("sync folder"))

    def name_of(self, path: str) -> str:
        """The name of a file in the folder."""
        assert Path(path).parent == self.folder, f"{path} is on another disk"
        return Path(path).name

    def opened(self, path: str) -> tuple[str, int]:
        """The name and number of a file that was opened; one that was not known is new, and empty."""
        name = self.name_of(path)
        if name in self._files:
            return name, self._files[name]
        assert Path(path).stat().st_size == 0, f"{path} was written behind the disk's back"
        return self._made(name)

    def _made(self, name: str) -> tuple[str, int]:
        number = self._files[name] = next(self._file_numbers)
        self.operations.append(Operation("create", name, number))
        return name, number


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, path: str, flags: list[int]) -> None:
        is_maybe_new = flags[0] & apsw.SQLITE_OPEN_CREATE
        self._is_synced_with_folder = bool(is_maybe_new and flags[0] & _SYNCED_WITH_FOLDER)
        self._is_read_only = bool(flags[0] & apsw.SQLITE_OPEN_READONLY)
        super().__init__("unix", name, flags)
        self._operations = disk.operations
        self._name, self._number = disk.opened(path)

    def xDeviceCharacteristics(self) -> int:
        # All that SQLite may count on, and does on every system.
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE

    def xLock(self, level: int) -> None:
        if self._is_read_only and level == apsw.SQLITE_LOCK_EXCLUSIVE:
            # The system would say that it cannot, which APSW takes for worse than it is: at its end every
            # connection asks whether it is the last one, and goes on when it is not told so.
            raise apsw.BusyError
        super().xLock(level)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._note("write", offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._note("truncate", newsize)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._note("sync")
        if self._is_synced_with_folder:
            self._is_synced_with_folder = False
            self._operations.append(Operation("sync folder"))

    def _note(self, kind: Kind, offset: int = 0, data: bytes = b"") -> None:
        self._operations.append(Operation(kind, self._name, self._number, offset, data))
