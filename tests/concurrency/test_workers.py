"""Several server processes behind one address."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests import forking
from tests.concurrency.callers import calling
from tests.http.asking import V2, Client, core
from tests.server import NO_LIMITS, RunningServer, environment, running, wait_until

WORKERS = 3


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with running(tmp_path / "data", "postgresql", workers=WORKERS, **NO_LIMITS) as server:
        yield server
        server.assert_consistent()


def workers_of(server: RunningServer) -> list[psutil.Process]:
    """The workers that are alive."""
    found: list[psutil.Process] = psutil.Process(server.pid).children()
    return [one for one in found if is_alive(one)]


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def some_path(server: RunningServer) -> str:
    with Client(server, server.api_key()) as vendor:
        return V2 + core("activate", vendor.license(product_id=1))


def wait_for_load(server: RunningServer) -> None:
    before = server.count("activations")
    wait_until(lambda: server.count("activations") > before + 200, "some load")


def test_sqlite_has_one_server_process(tmp_path: Path) -> None:
    command = [forking.command(), "serve", "--data-dir", str(tmp_path), "--port", "0", "--workers", "2"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: 2 workers (from --workers) need PostgreSQL")
    assert "Traceback" not in done.stderr


def test_every_worker_serves(server: RunningServer) -> None:
    assert len(workers_of(server)) == WORKERS
    path = some_path(server)
    before = {one.pid: sum(one.cpu_times()[:2]) for one in workers_of(server)}

    def has_each_worked() -> bool:
        with calling([server], [[path] * 200] * 3, connections=30) as callers:
            assert {entry.status for entry in callers.journal()} == {200}
        return all(sum(one.cpu_times()[:2]) > before[one.pid] for one in workers_of(server))

    wait_until(has_each_worked, "work for every worker")


def test_a_worker_that_dies_is_replaced_and_nothing_it_said_is_lost(server: RunningServer) -> None:
    path = some_path(server)
    victim = workers_of(server)[0]
    with calling([server], [[path], [path]], connections=30, repeating=True) as callers:
        wait_for_load(server)
        victim.kill()
        wait_until(lambda: len(workers_of(server)) == WORKERS and not is_alive(victim), "another worker")
        wait_for_load(server)
        assert server.stop() == 0
        journal = callers.journal()
    assert f"worker {victim.pid} ended (signal 9); another takes its place" in server.log
    assert {entry.status for entry in journal if entry.fate == "answered"} == {200}
    acknowledged = {entry.token for entry in journal if entry.status == 200}
    assert acknowledged <= {token for (token,) in server.sql("SELECT token FROM activations")}


def test_all_workers_finish_what_they_accepted_when_told_to_stop(server: RunningServer) -> None:
    path = some_path(server)
    workers = workers_of(server)
    with calling([server], [[path], [path]], connections=30, repeating=True) as callers:
        wait_for_load(server)
        assert server.stop() == 0
        journal = callers.journal()
    assert not any(is_alive(one) for one in workers)
    assert {entry.status for entry in journal if entry.fate == "answered"} == {200}
    assert {entry.fate for entry in journal} <= {"answered", "closed"}
    acknowledged = {entry.token for entry in journal if entry.status == 200}
    assert acknowledged == {token for (token,) in server.sql("SELECT token FROM activations")}
    assert '"level":"error"' not in server.log


def test_workers_end_when_their_parent_is_gone(server: RunningServer) -> None:
    workers = workers_of(server)
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    wait_until(lambda: not any(is_alive(one) for one in workers), "the end of the workers")
