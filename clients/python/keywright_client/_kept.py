"""What is kept on the disk: the license key, the last signed answer, and the highest time seen."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import Any, NamedTuple

from ._deadline import left

#: In seconds: so long a call waits for another process, also when its deadline is over.
_MIN_PATIENCE = 0.2


class Kept(NamedTuple):
    """``answer`` and ``key_sets`` are signed: what is altered is found out. Times: seconds since 1970."""

    license_key: str = ""
    answer: str = ""
    issued_at: float = 0  # The answer's ``iat``; of two answers, the newer one is kept.
    latest: float = 0  # The highest time that was seen.
    retry_at: float = 0  # Do not ask the server before, unless nothing else helps.
    version: str = ""  # The version and build that the answer was asked for.
    fingerprint: str = ""  # The device when the license was activated, and how it was made.
    source: str = ""
    installation_id: str = ""
    key_sets: tuple[str, ...] = ()
    # What is not in the file: it holds something else; why it cannot be read or written.
    is_damaged: bool = False
    trouble: str = ""


def default_folder(program: str) -> str:
    """The platform's folder for what a program keeps."""
    home = os.path.expanduser("~")
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Application Support")
    return os.path.join(base, "keywright", program)


class Store:
    """A file that many processes share. What cannot be written is remembered by this process."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder, self._path = folder, os.path.join(folder, f"{name}.json")
        self._unwritten: Kept | None = None

    def read(self) -> Kept:
        """What is kept; empty where there is nothing, and with ``trouble`` where it cannot be read."""
        return self._read_file() if self._unwritten is None else self._unwritten

    def change(self, decide: Callable[[Kept], Kept], *, is_trial: bool = False) -> Kept:
        """Keep what ``decide`` makes of what is kept at that moment; no other process comes between.

        Returns it, with ``trouble`` where it could not be written. A trial only finds out whether it could.
        """
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with self._locked():
                kept = self._read_file()
                if kept.trouble:
                    raise OSError(kept.trouble)
                decided = decide(kept)
                if is_trial:
                    os.unlink(self._write_beside(decided))
                elif decided != kept:
                    self._replace(self._write_beside(decided))
                self._unwritten = None
        except OSError as error:
            decided = decide(self.read()._replace(trouble=""))._replace(trouble=self._describe(error))
            self._unwritten = decided
        return decided

    def _read_file(self) -> Kept:
        try:
            with open(self._path, encoding="utf-8") as file:
                return _parse(json.load(file))
        except FileNotFoundError:
            return Kept()
        except OSError as error:
            return Kept(trouble=self._describe(error))
        except (ValueError, AttributeError, RecursionError):
            return Kept(is_damaged=True)

    def _describe(self, error: OSError) -> str:
        reason = error.strerror or str(error)
        if self._path in reason:
            return reason
        return f"The license cannot be kept. {self._path} cannot be read or written: {reason}."

    def _write_beside(self, kept: Kept) -> str:
        document = {name: value for name, value in kept._asdict().items() if name not in _VOLATILE}
        beside = f"{self._path}.{os.getpid()}-{os.urandom(4).hex()}"
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with _removed_on_error(beside), open(descriptor, "w") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        return beside

    def _replace(self, beside: str) -> None:
        with _removed_on_error(beside):
            for attempt in range(20):
                with suppress(PermissionError):  # On Windows, while another process reads it.
                    return os.replace(beside, self._path)
                sleep(0.01 * attempt)
            raise PermissionError(13, "another process reads it")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # Closing the file gives the lock up.
        with open(os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT, 0o600), "rb+") as file:
            ends_at = monotonic() + max(_MIN_PATIENCE, left())
            while not _lock(file.fileno()):
                # Another process may be stopped, or stuck.
                if monotonic() >= ends_at:
                    raise TimeoutError("another process holds its lock")
                sleep(0.005)
            yield


_VOLATILE = ("is_damaged", "trouble")


@contextmanager
def _removed_on_error(path: str) -> Iterator[None]:
    try:
        yield
    except OSError:
        with suppress(OSError):
            os.unlink(path)
        raise


def _lock(descriptor: int) -> bool:
    """Lock a file if no other process has."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _parse(document: Any) -> Kept:
    """Raises ValueError or AttributeError for what this library does not write."""
    empty = {**Kept()._asdict(), "key_sets": []}
    found = {name: document.get(name, value) for name, value in empty.items() if name not in _VOLATILE}
    kinds = {str: (str,), int: (int, float), list: (list,)}
    if not all(isinstance(found[name], kinds[type(empty[name])]) for name in found):
        raise ValueError("It holds something else.")
    return Kept(**{**found, "key_sets": tuple(map(str, found["key_sets"]))})
