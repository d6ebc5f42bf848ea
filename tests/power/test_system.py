"""The simulated disk sees what the system sees: SQLite, as it is in this Python, asks both for the same."""

import subprocess
import sys
from itertools import groupby
from pathlib import Path

from tests.concurrency.callers import ROOT
from tests.power.disk import Disk
from tests.power.driver import Driver, driven_by
from tests.power.test_driver import live
from tests.power.wire import SystemCall, has_ended, read_trace, tracing_command
from tests.server import wait_until

_LIVE = """
import sys
from pathlib import Path
from tests.power.test_driver import live

live(Path(sys.argv[1]))
"""
_FILES = ("keywright.db", "keywright.db-journal", "keywright.db-wal")


def test_files_are_written_and_synced_in_the_same_order(tmp_path: Path) -> None:
    trace, folder = tmp_path / "trace", tmp_path / "anywhere"
    process = subprocess.Popen(tracing_command(trace, sys.executable, "-c", _LIVE, str(folder)), cwd=ROOT)
    assert process.wait() == 0
    wait_until(lambda: has_ended(trace, process.pid), "the end of the trace")
    with trace.open(encoding="latin-1") as lines:
        asked = [in_words(call, folder) for call in read_trace(lines)]
    disk = Disk(tmp_path / "disk")
    with driven_by(Driver(disk)):
        live(tmp_path / "disk")
    seen = [f"{one.kind} {one.name}".strip() for one in disk.operations]
    # How many pages there are in a row, chance decides.
    expected = [one for one, _ in groupby(one for one in seen if one.startswith(("write", "sync")))]
    # The disk begins with a folder that is safe.
    assert ["sync folder", *(one for one, _ in groupby(filter(None, asked)))] == expected


def in_words(call: SystemCall, folder: Path) -> str:
    """What the disk calls it; nothing for what is no file of the database."""
    if call.what == str(folder) and call.name in ("fsync", "fdatasync"):
        return "sync folder"
    path = Path(call.what)
    if path.parent != folder or path.name not in _FILES:
        return ""
    return f"{'write' if 'write' in call.name else 'sync'} {path.name}"
