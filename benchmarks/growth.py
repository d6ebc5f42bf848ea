"""Measure what an SQLite installation needs as it grows: disk, memory, and the time of operations on all
data.

    python -m benchmarks.growth 10000 100000 1000000

Prints a row of the page *Capacity* for each number of licenses, with three activations each. ``--no-search``
omits the search terms, whose projection takes hours after a bulk insert.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks import servers
from benchmarks.databases import Database
from benchmarks.installations import Filled, fill, opened
from keywright.core.command import Context, Origin
from keywright.core.parsing import format_size
from keywright.db import copies
from keywright.registry import open_executor
from keywright.search.statistics import ProjectEvents

_PROGRAM = Path(sys.executable).with_name("keywright")


class Growth(NamedTuple):
    """Sizes in bytes, times in seconds; a restore includes its checks."""

    licenses: int
    database: int
    backup: int
    memory: int
    ready: float
    copied: float
    backed_up: float
    restored: float
    examined: float

    def as_row(self) -> str:
        """A row of the table."""
        sizes = (format_size(one) for one in (self.database, self.backup, self.memory))
        seconds = (self.ready, self.copied, self.backed_up, self.restored, self.examined)
        times = (f"{one:,.1f} s" for one in seconds)
        return f"| {self.licenses:,} | {' | '.join((*sizes, *times))} |"


def measure(folder: Path, licenses: int, *, with_search: bool) -> Growth:
    """Create an installation, and time operations on all of its data."""
    filled = fill(folder, Database(), licenses, lambda text: print(text, file=sys.stderr))
    if with_search:
        _project(filled)
    database = filled.data_dir / "keywright.db"
    memory, ready = _start(filled)
    copied = _time(lambda: copies.write_copy(database, folder / "copy"))
    (folder / "copy").unlink()
    backup = folder / "backup.tar"
    backed_up = _time(lambda: _run("backup", str(backup), data_dir=filled.data_dir))
    examined = _time(lambda: _run("doctor", data_dir=filled.data_dir))
    restored = _time(lambda: _run("restore", str(backup), "--overwrite", data_dir=filled.data_dir))
    size = database.stat().st_size
    return Growth(licenses, size, backup.stat().st_size, memory, ready, copied, backed_up, restored, examined)


def _project(filled: Filled) -> None:
    with opened(filled.data_dir, filled.database) as storage:
        executor = open_executor(storage)
        step = ProjectEvents(context=Context(datetime.now(UTC), Origin("benchmark", "", "")), limit=500)
        while not executor.execute([step])[0].lag.is_complete:
            pass


def _start(filled: Filled) -> tuple[int, float]:
    """Start a server; return its memory in bytes once ready, and the time until then."""
    began = time.monotonic()
    with servers.running(filled) as server:
        ready = time.monotonic() - began
        return int((server.memory("VmRSS") or 0) * 1024 * 1024), ready


def _run(*arguments: str, data_dir: Path) -> None:
    subprocess.run([_PROGRAM, *arguments, "--data-dir", str(data_dir)], check=True, stdout=subprocess.DEVNULL)


def _time(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


if __name__ == "__main__":
    _numbers = [int(one) for one in sys.argv[1:] if one.isdecimal()]
    for _number in _numbers:
        with TemporaryDirectory() as _folder:
            _growth = measure(Path(_folder), _number, with_search="--no-search" not in sys.argv)
            print(_growth.as_row(), flush=True)
