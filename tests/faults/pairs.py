"""Two servers on one SQLite file, and a record of what they do to it."""

import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from tests.faults.altered import altering_command
from tests.faults.judge import INNOCENT, judge_calls
from tests.faults.load import Call, assert_answers_in_shape
from tests.faults.recorded import Turn, deeds, find_interleaved, turns
from tests.http.asking import Client
from tests.server import NO_LIMITS, RunningServer, environment, running, wait_until

_SECRET = "a secret of tests with 32 letters"
_products = count(1)


class Pair:
    """Two servers on one file, each with a folder of its own beside."""

    def __init__(self, first: RunningServer, second: RunningServer, record: Path) -> None:
        self.first = first
        self.second = second
        #: When a process stopped for ever, by its number.
        self.killed_at: dict[int, float] = {}
        self._record = record
        self._credentials = first.api_key()

    @property
    def lock(self) -> Path:
        """The lock file."""
        return self.first.data_dir / "keywright.db.lock"

    def licenses(self, amount: int = 4, **fields: Any) -> tuple[int, list[str]]:
        """The number of a new product, and the keys of its licenses."""
        product = next(_products)
        with Client(self.first, self._credentials) as vendor:
            return product, [vendor.license(product_id=product, **fields) for _ in range(amount)]

    def turns(self) -> list[Turn]:
        """Every transaction so far."""
        return turns(deeds(self._record), self.killed_at)

    def counted(self) -> dict[str, int]:
        """How many transactions there were so far, and how many began before another process's had ended."""
        found = self.turns()
        return {"transactions": len(found), "interleaved": len(find_interleaved(found))}

    def command(self, *words: str, alterations: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
        """A command that works on the same file."""
        settings = self.first.settings
        return subprocess.Popen(
            [*altering_command("recording", *alterations, record=self._record), *words],
            cwd=self.first.data_dir.parent,
            env=environment(database_url=settings["database_url"], secret=settings["secret"]),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def assert_right(self, product: int, *journals: list[Call]) -> None:
        """What was acknowledged of this product is there once, nothing else is; the doctor finds nothing."""
        journal = [call for one in journals for call in one]
        assert_answers_in_shape(journal)
        query = """SELECT label FROM activations JOIN licenses ON licenses.id = license_id
                   WHERE product_id = ?"""
        assert judge_calls(journal, Counter(label for (label,) in self.first.sql(query, product))) == INNOCENT
        self.first.assert_consistent()


@contextmanager
def a_pair(folder: Path, *alterations: str) -> Iterator[Pair]:
    """Two servers for as long as the block runs."""
    settings = {"database_url": f"sqlite:///{folder}/first/keywright.db", "secret": _SECRET, **NO_LIMITS}
    record = folder / "record"
    program = altering_command("recording", *alterations, record=record)
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(running(folder / name, program=program, **settings))
            for name in ("first", "second")
        )
        yield Pair(first, second, record)


def stop_while_it_writes(server: RunningServer, lock: Path) -> None:
    """Stop a process under load where it holds the lock."""

    def is_stopped_there() -> bool:
        server.signal(signal.SIGSTOP)
        wait_until(lambda: is_stopped(server.pid), "a process that stands still")
        if _is_holding(server.pid, lock):
            return True
        server.signal(signal.SIGCONT)
        return False

    wait_until(is_stopped_there, "a process that stands still and holds the lock")


def is_stopped(process: int) -> bool:
    """Whether the process stands still."""
    return psutil.Process(process).status() == psutil.STATUS_STOPPED


def _is_holding(process: int, lock: Path) -> bool:
    """Whether the process has locked this file (proc_locks(5))."""
    locks = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    inode = str(lock.stat().st_ino)
    return any((one[1], one[4], one[5].split(":")[2]) == ("FLOCK", str(process), inode) for one in locks)
