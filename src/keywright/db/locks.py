"""Files that get their name when they are complete, and locks on files shared by processes (flock(2))."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import BinaryIO

from keywright.core.errors import StoreBusy, StoreUnavailable


@contextmanager
def private_folder(parent: Path) -> Iterator[Path]:
    """Create a folder that only its owner can enter; it is removed after the block, with its contents."""
    with TemporaryDirectory(prefix=".keywright-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Create a file for its owner only; it is synced to disk when the block ends without an exception."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(descriptor)


def rename_durably(draft: Path, path: Path, *, is_overwriting: bool) -> None:
    """Rename a complete file so that the new name survives a power loss.

    Raises ``FileExistsError`` if the name is taken, unless ``is_overwriting``.
    """
    if is_overwriting:
        draft.replace(path)
    else:
        _rename_if_free(draft, path)
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Make the contents of a file survive a power loss."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power loss, if the file system supports that."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename_if_free(draft: Path, path: Path) -> None:
    try:
        # Unlike a rename, a link never replaces a file.
        path.hardlink_to(draft)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems, such as those of network drives, have no links.
        if path.exists():
            raise FileExistsError(f"{path} exists") from None
        draft.rename(path)


_POLL_INTERVAL = 0.005


class PathLock:
    """The exclusive lock on the file or folder at a path. An object has one holder at a time."""

    def __init__(self, path: Path, flags: int) -> None:
        """``flags`` are those of open(2) that open or create the file."""
        self._path = path
        self._flags = flags
        self._descriptor = -1
        self._opened_by = 0

    def acquire(self, deadline: float) -> None:
        """Wait for the lock until ``deadline``, a time of ``monotonic``.

        Raises ``StoreBusy`` if it is not free by then, ``StoreUnavailable`` if the path cannot be opened.
        """
        try:
            while not self._try_acquire():
                if monotonic() >= deadline:
                    raise StoreBusy
                sleep(_POLL_INTERVAL)
        except OSError as problem:
            raise StoreUnavailable(str(problem)) from problem

    def release(self) -> None:
        """Release the lock; the descriptor stays open."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the descriptor; the next ``acquire`` opens the path again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _try_acquire(self) -> bool:
        if not self._is_current():
            self.close()
            self._descriptor = os.open(self._path, self._flags | os.O_CLOEXEC, 0o600)
            self._opened_by = os.getpid()
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if self._is_current():
            return True
        # The file was deleted or replaced, and other processes lock the new one.
        self.release()
        return False

    def _is_current(self) -> bool:
        """Whether this process opened the descriptor, and it refers to the file that is now at the path."""
        if self._descriptor < 0 or self._opened_by != os.getpid():
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False
