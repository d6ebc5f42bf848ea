"""What is kept on the disk: the license key, the last signed answer, and the highest time seen."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import sleep
from typing import Any, NamedTuple


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
    is_damaged: bool = False


def default_folder(vendor: str) -> str:
    """The platform's folder for what a program keeps."""
    home = os.path.expanduser("~")
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Application Support")
    return os.path.join(base, "keywright", vendor)


class Store:
    """A file that many processes share. Without a folder to write to, it keeps for this process only."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder, self._path = folder, os.path.join(folder, f"{name}.json")
        self._unwritten: Kept | None = None

    def read(self) -> Kept:
        """What is kept; empty where there is nothing."""
        if self._unwritten is not None:
            return self._unwritten
        try:
            with open(self._path, encoding="utf-8") as file:
                return _parse(json.load(file))
        except FileNotFoundError:
            return Kept()
        except (OSError, ValueError, AttributeError, RecursionError):
            return Kept(is_damaged=True)

    def change(self, decide: Callable[[Kept], Kept]) -> Kept:
        """Keep what ``decide`` makes of what is kept at that moment; no other process comes between."""
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with self._locked():
                kept = self.read()
                decided = decide(kept)
                if decided != kept:
                    self._write(json.dumps(decided._replace(is_damaged=False)._asdict()))
        except OSError:
            self._unwritten = decided = decide(self.read())
        return decided

    def _write(self, text: str) -> None:
        beside = f"{self._path}.{os.getpid()}-{os.urandom(4).hex()}"
        try:
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            for attempt in range(20):
                with suppress(PermissionError):  # On Windows, while another process reads it.
                    return os.replace(beside, self._path)
                sleep(0.01 * attempt)
            raise PermissionError(self._path)
        except OSError:
            with suppress(OSError):
                os.unlink(beside)
            raise

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # Closing the file gives the lock up.
        with open(os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT, 0o600), "rb+") as file:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            else:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _parse(document: Any) -> Kept:
    """Raises ValueError or AttributeError for what this library does not write."""
    empty = {**Kept()._asdict(), "key_sets": []}
    found = {name: document.get(name, default) for name, default in empty.items()}
    kinds = {str: (str,), int: (int, float), bool: (bool,), list: (list,)}
    if not all(isinstance(found[name], kinds[type(default)]) for name, default in empty.items()):
        raise ValueError("It holds something else.")
    return Kept(**{**found, "key_sets": tuple(map(str, found["key_sets"]))})
