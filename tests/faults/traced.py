"""What a server asks the system to do with SQLite's log before it answers, seen by strace(1)."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.deploy.programs import program
from tests.server import wait_until

_SEEN = "trace=close,pwrite64,fdatasync,write"
#: A call that was successful, with its descriptor and the file behind it.
_CALL = re.compile(r"(\w+)\((\d+)<([^>]*)>(.*) = \d+$")
_ANSWER = re.compile(r', "HTTP/1\.1 (\d{3})')


class Step(NamedTuple):
    """An answer, and what was done to the log since the one before."""

    status: int
    is_written: bool
    #: Whether a sync was successful after all that was written.
    is_synced: bool
    #: Whether the descriptor that was written to was closed.
    is_closed: bool


def tracing_command(folder: Path) -> list[str]:
    """What to put before a program whose calls are to be written down in this folder.

    The test is skipped where there is no strace.
    """
    return [program("strace"), "-D", "-ff", "-q", "-y", "-s", "20", "-e", _SEEN, "-o", str(folder / "trace")]


def steps(folder: Path, process: int) -> list[Step]:
    """The answers of a server that has ended, to somebody who asked one thing after the other."""
    trace = folder / f"trace.{process}"
    # A process of its own writes it.
    wait_until(lambda: "+++ exited with" in trace.read_text(errors="replace"), "the end of the trace")
    return list(_steps(trace.read_text(errors="replace").splitlines()))


def _steps(lines: list[str]) -> Iterator[Step]:
    written, is_synced, is_closed = "", False, False
    for call, descriptor, file, rest in (found.groups() for found in map(_CALL.match, lines) if found):
        if file.endswith("-wal"):
            if call == "pwrite64":
                written, is_synced, is_closed = descriptor, False, False
            elif descriptor == written:
                is_synced = is_synced or call == "fdatasync"
                is_closed = is_closed or call == "close"
        elif answer := _ANSWER.match(rest):
            yield Step(int(answer[1]), bool(written), is_synced, is_closed)
            written, is_synced, is_closed = "", False, False
