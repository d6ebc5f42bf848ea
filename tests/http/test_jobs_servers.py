"""Jobs in real server processes: killed at any moment, several on one database, and stopped."""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from keywright.core.crypto import KeyRing
from keywright.db import Storage, open_storage, run_read
from keywright.jobs import files, store
from keywright.jobs.model import Job, JobState
from keywright.jobs.orders import Order
from keywright.registry import open_executor
from tests.concurrency.instances import instances
from tests.databases import execute, with_long_timeout
from tests.jobs import ACTOR, a_change, a_generation, decide, get_job, make_orderer, start, start_import
from tests.makers import create, create_policy
from tests.proving import size
from tests.server import NO_LIMITS, RunningServer, running, wait_until

#: Starts are slow on a busy machine.
pytestmark = [pytest.mark.timeout(600), pytest.mark.tier("rest")]

SECRET = "a secret of tests with 32 letters"
LICENSES, GENERATED, IMPORTED, DAYS = 1_000, 5_000, size(5_000, 10_000), 30
KILLS = 4
EXPIRY = datetime(2030, 1, 1, tzinfo=UTC)
#: The latest time of a kill, in seconds after progress of a job.
LATEST_KILL = 1.5


class Vendor:
    """Orders jobs in the database of a server."""

    def __init__(self, storage: Storage, server: RunningServer) -> None:
        self.storage = storage
        self.executor = open_executor(storage)
        self._server = server

    def fill(self, licenses: int = LICENSES) -> None:
        make_orderer(self.storage)
        keys = [f"KEY-{number}" for number in range(licenses)]
        for first in range(0, licenses, 100):
            self.executor.execute([create(key, expires_at=EXPIRY) for key in keys[first : first + 100]])
        self.executor.execute([create_policy()])

    def order(self, *orders: Order) -> list[int]:
        """Order jobs; return their IDs."""
        return [decide(self.executor, start(order)).id for order in orders]

    def jobs(self, numbers: Sequence[int]) -> list[Job]:
        return [get_job(self.storage, number) for number in numbers]

    def are_over(self, numbers: Sequence[int]) -> bool:
        return all(job.finished_at for job in self.jobs(numbers))

    def wait_for_step(self, numbers: Sequence[int]) -> None:
        """Wait until one of these jobs has progressed, or all have ended."""
        before = self.progress()
        wait_until(lambda: self.progress() > before or self.are_over(numbers), "a step")

    def wait_for_end(self, numbers: Sequence[int]) -> None:
        """Wait as long as the jobs progress, however slow the machine is."""
        while not self.are_over(numbers):
            self.wait_for_step(numbers)

    def progress(self) -> int:
        jobs = run_read(self.storage, lambda tx: store.list_jobs(tx, before_id=None, limit=99))
        return sum(job.done for job in jobs)

    def events(self, name: str) -> list[int]:
        """Count the events with this name per license that the user's jobs caused."""
        query = """SELECT count(*) FROM events WHERE name = ? AND actor = ? AND license_id > 0
                   GROUP BY license_id"""
        return [number for (number,) in self._server.sql(query, name, ACTOR)]

    def assert_once(self) -> None:
        """Check that each license was extended once, and as many were generated as ordered, each with its
        event.
        """
        later = int((EXPIRY + timedelta(days=DAYS)).timestamp())
        old = "SELECT DISTINCT expires_at FROM licenses WHERE id <= ?"
        assert self._server.sql(old, LICENSES) == [(later,)]
        assert self.events("license.updated") == [1] * LICENSES
        assert self._server.count("licenses") == LICENSES + GENERATED
        assert self.events("license.created") == [1] * GENERATED


@contextmanager
def vendor_of(server: RunningServer) -> Iterator[Vendor]:
    with closing(open_storage(with_long_timeout(server.database_url), KeyRing(SECRET.encode()))) as storage:
        yield Vendor(storage, server)


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[RunningServer]:
    with running(tmp_path / "data", database, secret=SECRET, **NO_LIMITS) as server:
        yield server
        server.assert_consistent()


@pytest.fixture
def vendor(server: RunningServer) -> Iterator[Vendor]:
    with vendor_of(server) as vendor:
        vendor.fill()
        yield vendor


def test_everything_is_done_once_by_a_server_that_is_killed_again_and_again(
    server: RunningServer, vendor: Vendor
) -> None:
    numbers = vendor.order(a_generation(GENERATED), a_change("extend", DAYS))
    killed_at_work = 0
    for _ in range(KILLS):
        vendor.wait_for_step(numbers)
        # Not a wait for a condition: the moment must be independent of the server's state.
        time.sleep(random.uniform(0, LATEST_KILL))
        killed_at_work += not vendor.are_over(numbers)
        server.kill()
        server.start()
    assert killed_at_work > 1
    vendor.wait_for_end(numbers)
    ended = vendor.jobs(numbers)
    assert [(job.state, job.done, job.refused) for job in ended] == [
        (JobState.DONE, GENERATED, 0),
        (JobState.DONE, LICENSES, 0),
    ]
    vendor.assert_once()


def test_an_import_that_is_killed_brings_every_line_once(server: RunningServer, vendor: Vendor) -> None:
    bad = IMPORTED // 500
    lines = [f"LINE-{number},{'' if number % 500 else 'odd'}\n" for number in range(IMPORTED)]
    numbers = [start_import(vendor.executor, "key,limit\n" + "".join(lines), "key", "times_activated_max").id]
    for amount in sorted(random.sample(range(IMPORTED - 2_000), 3)):
        wait_until(lambda: vendor.progress() > amount, f"progress beyond {amount}")  # noqa: B023
        server.kill()
        assert not vendor.are_over(numbers), "never killed in the middle"
        server.start()
    vendor.wait_for_end(numbers)
    (job,) = vendor.jobs(numbers)
    assert (job.state, job.done, job.refused) == (JobState.DONE, IMPORTED, bad)
    assert vendor.events("license.imported") == [1] * (IMPORTED - bad)
    assert server.count("licenses") == LICENSES + IMPORTED - bad
    file = b"".join(files.read_file(lambda question: run_read(vendor.storage, question), job.id))
    failed = [line.split(",")[0] for line in file.decode().splitlines()[1:]]
    assert failed == [f"LINE-{number}" for number in range(0, IMPORTED, 500)]


def test_a_database_in_trouble_only_delays_a_job(
    server: RunningServer, vendor: Vendor, database: str
) -> None:
    numbers = vendor.order(a_generation(GENERATED), a_change("extend", DAYS))
    wait_until(vendor.progress, "a step")
    with server.holding_changes():
        if database == "postgresql":
            hang_up = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                         WHERE datname = current_database() AND application_name = 'keywright'"""
            execute(server.database_url, hang_up)
        time.sleep(1.0)
    vendor.wait_for_end(numbers)
    vendor.assert_once()


@pytest.fixture
def both(tmp_path: Path) -> Iterator[list[RunningServer]]:
    with instances(tmp_path, 2, secret=SECRET) as servers:
        yield servers
        servers[0].assert_consistent()


def test_two_servers_share_the_jobs_and_one_goes_on_for_the_other(both: list[RunningServer]) -> None:
    with vendor_of(both[0]) as vendor:
        vendor.fill()
        numbers = vendor.order(a_generation(GENERATED), a_change("extend", DAYS))
        claims = "SELECT DISTINCT claimed_by FROM jobs WHERE claimed_by IS NOT NULL"
        wait_until(lambda: len(both[0].sql(claims)) == 2, "two servers at work")
        both[0].kill()
        vendor.wait_for_end(numbers)
        vendor.assert_once()
        both[0].start()
