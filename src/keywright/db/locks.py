"""Locks on files and folders, shared by processes (flock(2)). Their descriptors stay open, so that a process
without free descriptors can still lock.
"""

import fcntl
import os
from pathlib import Path
from time import monotonic, sleep

from keywright.core.errors import StoreBusy, StoreUnavailable

_POLL_INTERVAL = 0.005


class PathLock:
    """The exclusive lock on the file or folder at a path. One object is for one holder at a time."""

    def __init__(self, path: Path, flags: int) -> None:
        """``flags`` are those of open(2) that open or make the file."""
        self._path = path
        self._flags = flags
        self._descriptor = -1
        self._opened_by = 0

    def acquire(self, deadline: float) -> None:
        """Wait for the lock until ``deadline``, a time of ``monotonic``.

        Raises ``StoreBusy`` when it is not free by then, ``StoreUnavailable`` when the path cannot be opened.
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
        # It was deleted or replaced, and other processes lock the new one.
        self.release()
        return False

    def _is_current(self) -> bool:
        """Whether this process opened the descriptor, and it is of the file that is at the path now."""
        if self._descriptor < 0 or self._opened_by != os.getpid():
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False
