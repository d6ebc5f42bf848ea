"""Locks on files and folders that processes share (flock(2)), whose descriptors stay open: a process that has
run out of descriptors can still take them.
"""

import fcntl
import os
from pathlib import Path
from time import monotonic, sleep

from keywright.core.errors import StoreBusy, StoreUnavailable

_POLL = 0.005


class PathLock:
    """The exclusive lock on whatever is at a path. One object is for one holder at a time."""

    def __init__(self, path: Path, flags: int) -> None:
        """``flags`` are those of open(2) that make or open what is locked."""
        self._path = path
        self._flags = flags
        self._descriptor = -1
        self._opened_by = 0

    def acquire(self, end: float) -> None:
        """Return when the lock is held.

        Raises ``StoreBusy`` when it is not free until ``end``, a moment of ``monotonic``, and
        ``StoreUnavailable`` when the path cannot be opened.
        """
        try:
            while not self._is_acquired():
                if monotonic() >= end:
                    raise StoreBusy
                sleep(_POLL)
        except OSError as problem:
            raise StoreUnavailable(str(problem)) from problem

    def release(self) -> None:
        """Let others have the lock; the descriptor stays open."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the descriptor; the next ``acquire`` opens another one."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _is_acquired(self) -> bool:
        if not self._is_in_place():
            self.close()
            self._descriptor = os.open(self._path, self._flags | os.O_CLOEXEC, 0o600)
            self._opened_by = os.getpid()
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if self._is_in_place():
            return True
        # It was removed, and others lock what is there now.
        self.release()
        return False

    def _is_in_place(self) -> bool:
        """Whether the descriptor is this process's own, and of what is at the path now."""
        if self._descriptor < 0 or self._opened_by != os.getpid():
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False
