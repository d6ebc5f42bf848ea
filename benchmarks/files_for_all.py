"""Measure a job that makes license files for all licenses under load: its time, and how it slows down calls.

    python -m benchmarks.files_for_all 100000 --devices 1 --seconds 10

Each license has this many devices, and its own customer with an address; there is no mail server. There are
about 300 validations per second. The output is the time of the job, and the p99 of validations with and
without it.
"""

import argparse
import statistics
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import text

from benchmarks import servers, wrk
from benchmarks.databases import Database
from benchmarks.installations import Filled, fill, opened
from keywright.core.command import Context, Origin
from keywright.db import Storage, run_read
from keywright.jobs.model import Job
from keywright.jobs.orders import MakeFiles, start_command
from keywright.jobs.store import find_job
from keywright.registry import open_executor

_CONNECTIONS, _PAUSE_MS = 64, 210
_STATEMENTS = (
    "INSERT INTO customers (id, name, email, created_at, updated_at) "
    "SELECT id, 'C', 'c' || id || '@example.com', created_at, created_at FROM licenses",
    "UPDATE licenses SET customer_id = id",
    "UPDATE activations SET deactivated_at = created_at WHERE id > :devices AND deactivated_at IS NULL",
)


def _prepare(storage: Storage, devices: int) -> None:
    with storage.write() as tx:
        for statement in _STATEMENTS:
            values = {"devices": devices} if ":devices" in statement else {}
            tx.connection.execute(text(statement), values)


def _order(storage: Storage) -> int:
    context = Context(datetime.now(UTC), Origin("cli:benchmark", "", ""))
    (job,) = open_executor(storage).execute([start_command(MakeFiles(alg="EdDSA"), context=context)])
    if not isinstance(job, Job):
        raise TypeError(f"no job: {job}")
    return job.id


def measure(filled: Filled, devices: int, seconds: int) -> str:
    """Measure, and return the figures as text."""
    with opened(filled.data_dir, filled.database) as storage:
        _prepare(storage, devices)
        with servers.started(servers.keywright(), filled.data_dir, servers.UNLIMITED) as server:
            server.wait_until_idle()
            alone = [_drive(server, filled, seconds) for _ in range(3)]
            number, beside = _order(storage), list[float]()
            while (job := run_read(storage, lambda tx: find_job(tx, number))) and not job.finished_at:
                beside.append(_drive(server, filled, seconds))
    if job is None or job.finished_at is None or job.started_at is None:
        raise RuntimeError("the job is gone")
    took = (job.finished_at - job.started_at).total_seconds()
    p99, p99_alone = statistics.median(beside), statistics.median(alone)
    return (
        f"{filled.licenses:,} licenses: {took:,.0f} s. {(job.messages or '').splitlines()[0]}\n"
        f"p99 of validations: {p99:.1f} ms during the job, {p99_alone:.1f} ms alone: {p99 / p99_alone:.2f}"
    )


def _drive(server: servers.Server, filled: Filled, seconds: int) -> float:
    return wrk.drive(server, filled, "validate", _CONNECTIONS, seconds, pause_ms=_PAUSE_MS).p99_ms


if __name__ == "__main__":
    _parser = argparse.ArgumentParser(prog="python -m benchmarks.files_for_all")
    _parser.add_argument("licenses", type=int)
    _parser.add_argument("--devices", type=int, choices=(1, 2, 3), default=1)
    _parser.add_argument("--seconds", type=int, default=10)
    _given = _parser.parse_args()
    with TemporaryDirectory() as _folder:
        _filled = fill(Path(_folder), Database(), _given.licenses, lambda line: print(line, file=sys.stderr))
        print(measure(_filled, _given.devices, _given.seconds))
