"""The folder of a drill, the processes that live in it, and what an earlier drill left behind."""

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from drill import network
from tools.postgres import a_folder

_OWNER = "drill-owner"


@contextmanager
def own_folder() -> Iterator[Path]:
    """A new folder; it, and every process that works in it, ends with the block."""
    folder = a_folder()
    ours = {"pid": os.getpid(), "started": psutil.Process().create_time()}
    (folder / _OWNER).write_text(json.dumps(ours))
    try:
        yield folder
    finally:
        _clear(folder)


def clear_leftovers() -> list[str]:
    """End what drills left behind that were themselves killed; returns what was found, in words."""
    found = []
    for owner in Path("/tmp").glob(f"kw-*/{_OWNER}"):
        with suppress(OSError, ValueError, KeyError):
            # Anybody can write a file in /tmp; what it says counts only when we wrote it.
            if owner.lstat().st_uid != os.geteuid():
                continue
            pid = _dead_owner(json.loads(owner.read_text()))
            if pid is not None:
                _clear(owner.parent)
                network.remove(pid)
                found.append(f"{owner.parent} of process {pid}")
    return found


def processes_in(folder: Path) -> list[psutil.Process]:
    """The processes that work in this folder or below: PostgreSQL, for one, works in its data."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            cwd = Path(process.cwd())
            if cwd == folder or folder in cwd.parents:
                found.append(process)
    return found


def kill_all_in(folder: Path) -> None:
    """``kill -9`` of all of them at once; returns when they are gone."""
    while processes := processes_in(folder):
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        time.sleep(0.02)


def _dead_owner(owner: dict[str, float]) -> int | None:
    pid = int(owner["pid"])
    with suppress(psutil.NoSuchProcess):
        # Numbers of processes are given out again; the moment of the start is its own.
        if abs(psutil.Process(pid).create_time() - owner["started"]) < 1:
            return None
    return pid


def _clear(folder: Path) -> None:
    kill_all_in(folder)
    shutil.rmtree(folder, ignore_errors=True)
