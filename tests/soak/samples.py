"""What a server takes while it runs: memory, files, threads, sessions, the write-ahead log, the log."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from keywright.db import database_path
from tests.server import RunningServer

MIB = 1024 * 1024
_SESSIONS = """SELECT count(*) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name LIKE 'keywright%'"""


class Sample(NamedTuple):
    """One look."""

    memory_mib: float
    files: int
    threads: int
    #: The file of SQLite's write-ahead log.
    wal_mib: float
    #: Those of PostgreSQL.
    sessions: int
    #: Whether a reader holds a moment open; None soon after it has let go.
    is_held: bool | None


class Minute(NamedTuple):
    """How long the calls of some time took, in milliseconds."""

    p50: float
    p99: float
    longest: float


class Looks:
    """Every look at a server."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._process = psutil.Process(server.pid)
        self._log = server.data_dir.with_name(f"{server.data_dir.name}.log")
        self.samples: list[Sample] = []
        self.minutes: list[Minute] = []
        self.log_bytes = 0
        #: Lines of the log that should not be.
        self.faults: list[str] = []

    def look(self, *, is_held: bool | None) -> None:
        """Take a sample."""
        self.samples.append(
            Sample(
                self._process.memory_info().rss / MIB,
                self._process.num_fds(),
                self._process.num_threads(),
                wal_mib(self._server.database_url),
                self._sessions(),
                is_held,
            )
        )

    def end_minute(self, seconds: Sequence[float]) -> None:
        """Note how long the calls since the last time took, and begin the log anew."""
        if seconds:
            ordered = sorted(1000 * one for one in seconds)
            p99 = ordered[int(0.99 * len(ordered))]
            self.minutes.append(Minute(statistics.median(ordered), p99, ordered[-1]))
        with self._log.open("rb+") as log:
            for line in log:
                self.log_bytes += len(line)
                if b'"level":"info"' not in line and line.startswith(b"{"):
                    self.faults.append(line.decode())
            log.truncate(0)

    def _sessions(self) -> int:
        if database_path(self._server.database_url) is not None:
            return 0
        return int(self._server.sql(_SESSIONS)[0][0])

    def most(
        self, what: Callable[[Sample], float], *, held: Sequence[bool | None] = (True, False, None)
    ) -> float:
        """The highest figure of all samples that were taken while a reader held, or did not hold, on."""
        return max((what(one) for one in self.samples if one.is_held in held), default=0.0)

    @property
    def memory_growth(self) -> float:
        """By how many percent the memory of the last third is above that of the first."""
        return growth([one.memory_mib for one in self.samples])

    @property
    def p99_drift(self) -> float:
        """By how many percent the p99 of the last third's minutes is above that of the first third's."""
        return growth([one.p99 for one in self.minutes])


def growth(series: Sequence[float]) -> float:
    """By how many percent the median of the last third is above that of the first."""
    third = max(1, len(series) // 3)
    return 100 * (statistics.median(series[-third:]) / statistics.median(series[:third]) - 1)


def wal_mib(database_url: str) -> float:
    """How large the file of SQLite's write-ahead log is; 0 where there is none."""
    path = database_path(database_url)
    log = None if path is None else Path(f"{path}-wal")
    return log.stat().st_size / MIB if log is not None and log.exists() else 0.0
