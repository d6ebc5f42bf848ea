"""Describe the machine that figures were measured on."""

import os
import platform
import sqlite3
import statistics
from pathlib import Path
from time import perf_counter

import msgspec

from keywright import __version__

_SYNCS = 200


class Machine(msgspec.Struct, frozen=True):
    """A machine. ``sync_ms`` is the time to sync a page to disk; commits cannot be faster."""

    processor: str
    cores: int
    system: str
    python: str
    sqlite: str
    keywright: str
    sync_ms: float


def look_around(folder: Path) -> Machine:
    """Describe this machine, and the disk with this folder."""
    return Machine(
        _processor(),
        os.cpu_count() or 1,
        f"{platform.system()} {platform.release()}",
        platform.python_version(),
        sqlite3.sqlite_version,
        __version__,
        _sync_ms(folder / "sync"),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _sync_ms(file: Path) -> float:
    page, times = bytes(4096), []
    with file.open("wb", buffering=0) as opened:
        for _ in range(_SYNCS):
            began = perf_counter()
            opened.write(page)
            os.fsync(opened.fileno())
            times.append(perf_counter() - began)
    file.unlink()
    return statistics.median(times) * 1000
