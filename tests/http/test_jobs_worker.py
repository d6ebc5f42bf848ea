"""The task that works on jobs, with a desk of the test."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from keywright.background import job_runner
from keywright.background import queue as work_queue
from keywright.background.clean_up import JOBS_KEPT, delete_old_jobs
from keywright.background.job_runner import JobRunner
from keywright.core.errors import FateUnknown, FileGone, StoreUnavailable, UnknownJob
from keywright.db import ReadTransaction, Storage, WriteTransaction, open_storage, run_read, session
from keywright.engine import lane
from keywright.engine.desk import Desk
from keywright.events import store as event_store
from keywright.jobs import files as job_files
from keywright.jobs import planning
from keywright.jobs import store as job_store
from keywright.jobs.model import Job, JobState
from keywright.jobs.orders import Export, Order
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import License, LicenseFilter
from keywright.provisioning.policies.model import GetPolicy
from keywright.registry import open_executor
from tests.concurrency.desks import a_desk, a_url, in_a_loop
from tests.jobs import (
    ALL,
    a_change,
    a_generation,
    cancel,
    claim,
    decide,
    events_of,
    make_orderer,
    run_job,
    start,
)
from tests.makers import KEY_RING, NOW, activate, create, create_policy, deactivate, update, validate

_PATIENCE = 60.0


class Troubled:
    """A database that can be unavailable, and whose commits can have an unknown fate."""

    def __init__(self, inner: Storage, trouble: set[str]) -> None:
        self.inner = inner
        self.is_local = inner.is_local
        self.watch = inner.watch
        #: The current faults, by name; shared with ``beside``.
        self.trouble = trouble
        self._writes = self.reads = 0

    @contextmanager
    def write(self, *, wait: float | None = None) -> Iterator[WriteTransaction]:
        self._fail_if_away()
        with self.inner.write(wait=wait) as tx:
            yield tx
        self._writes += 1
        if "unsure" in self.trouble and self._writes % 3 == 0:
            raise FateUnknown("no answer")

    @contextmanager
    def read(self, *, is_single: bool = False) -> Iterator[ReadTransaction]:
        self._fail_if_away()
        with self.inner.read(is_single=is_single) as tx:
            yield tx
        self.reads += 1

    def _fail_if_away(self) -> None:
        if "away" in self.trouble:
            self.trouble.add("noticed")
            raise StoreUnavailable("away")

    def clone(self) -> "Troubled":
        return Troubled(self.inner.clone(), self.trouble)

    def interrupt(self, *, writing: bool) -> None:
        self.inner.interrupt(writing=writing)

    def close(self) -> None:
        self.inner.close()


class House:
    """A database, and a second storage for it."""

    def __init__(self, storage: Storage, other: Storage) -> None:
        self.troubled = Troubled(storage, set())
        self.storage = other
        self.executor = open_executor(other)

    @asynccontextmanager
    async def open(self, keep_addresses_days: int = 0) -> AsyncIterator[tuple[Desk, JobRunner]]:
        """Run the task that works on jobs."""
        troubled = cast(Storage, self.troubled)
        desk = a_desk(troubled)
        try:
            async with work_queue.working(desk) as queue:
                work = JobRunner(desk, troubled, queue, keep_addresses_days=lambda: keep_addresses_days)
                queue.add(work)
                yield desk, work
        finally:
            await desk.close()

    def job(self, job_id: int) -> Job:
        found = run_read(self.storage, lambda tx: job_store.find_job(tx, job_id))
        assert found is not None
        return found

    async def ended(self, job_id: int) -> Job:
        """Wait until the job has ended, and return it."""
        await until(lambda: self.job(job_id).finished_at, f"the end of job {job_id}")
        return self.job(job_id)

    def limits(self) -> set[int | None]:
        """The limits of the licenses that existed from the beginning."""
        return {one.times_activated_max for one in self.licenses() if one.key.startswith("KEY-")}

    def licenses(self) -> list[License]:
        every = partial(license_store.list_licenses, where=LicenseFilter(), limit=100_000)
        return run_read(self.storage, every)


def a_moment_ago() -> datetime:
    """A time so recent that jobs that ended then are not purged yet."""
    return datetime.now(UTC).replace(microsecond=0)


async def until(condition: Callable[[], Any], what: str) -> None:
    end = asyncio.get_running_loop().time() + _PATIENCE
    while not condition():
        assert asyncio.get_running_loop().time() < end, f"waited in vain for {what}"
        await asyncio.sleep(0.01)


@pytest.fixture
def house(database: str, tmp_path: Path) -> Iterator[House]:
    with ExitStack() as stack:
        url = stack.enter_context(a_url(database, tmp_path))
        house = House(*(stack.enter_context(closing(open_storage(url, KEY_RING))) for _ in range(2)))
        make_orderer(house.storage)
        house.executor.execute([create_policy(), *(create(f"KEY-{n}", 1) for n in range(1, 121))])
        yield house


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_runner, "_PAUSE", 0.01)
    monkeypatch.setattr(work_queue, "_INTERVAL", 0.01)


@in_a_loop
async def test_whoever_is_woken_looks_for_work_at_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "_INTERVAL", 3600.0)
    async with house.open() as (desk, work):
        bell = work._queue.bell
        await until(lambda: house.troubled.reads and not bell._has_rung.is_set(), "the first look")
        job = await desk.execute(start(a_change("disable")))
        await asyncio.to_thread(bell.ring)
        assert (await house.ended(job.id)).state is JobState.DONE


@in_a_loop
async def test_calls_are_answered_between_the_steps(house: House) -> None:
    job = decide(house.executor, start(a_generation(1_000)))
    answers = 0
    async with house.open() as (desk, _):
        while (await desk.query(GetPolicy(policy_id=1))) and house.job(job.id).finished_at is None:
            await asyncio.gather(
                desk.query(validate("KEY-1")), desk.execute(update("KEY-1", customer_id=answers))
            )
            answers += 1
    assert house.job(job.id).done == 1_000
    assert answers > 1_000 / planning.KEYS_PER_STEP


@in_a_loop
async def test_a_job_is_given_back_when_the_server_stops_and_goes_on_at_once(house: House) -> None:
    job = decide(house.executor, start(a_generation(1_000)))
    async with house.open():
        await until(lambda: house.job(job.id).done, "a step")
    stopped = house.job(job.id)
    assert (stopped.state, stopped.claimed_by) == (JobState.RUNNING, None)
    assert 0 < stopped.done < 1_000
    assert len(house.licenses()) == 120 + stopped.done
    async with house.open():
        assert (await house.ended(job.id)).done == 1_000
    assert len(house.licenses()) == 1_120


@in_a_loop
async def test_a_canceled_job_stops_and_the_next_one_goes_on(house: House) -> None:
    first, second = house.executor.execute([start(a_generation(1_000_000)), start(a_change("disable"))])
    async with house.open() as (desk, _):
        await until(lambda: house.job(first.id).done, "a step")
        canceled = await desk.execute(cancel(first.id, a_moment_ago()))
        await house.ended(second.id)
    assert house.job(first.id) == canceled
    assert len(house.licenses()) == 120 + canceled.done


@in_a_loop
async def test_a_database_that_is_away_for_a_while_only_delays_a_job(house: House) -> None:
    job = decide(house.executor, start(a_change("raise_limit", 1)))
    generation = decide(house.executor, start(a_generation(500)))
    async with house.open():
        await until(lambda: house.job(generation.id).done, "a step")
        house.troubled.trouble.add("away")
        # By then, a step that had begun before has ended.
        await until(lambda: "noticed" in house.troubled.trouble, "a step that fails")
        before = house.job(generation.id)
        await asyncio.sleep(work_queue._INTERVAL)
        assert house.job(generation.id) == before
        house.troubled.trouble.clear()
        for one in (job, generation):
            assert (await house.ended(one.id)).state is JobState.DONE
    assert house.limits() == {2}
    assert len(house.licenses()) == 620


@pytest.mark.usefixtures("no_pauses")
@in_a_loop
async def test_a_step_of_unknown_fate_is_not_done_twice(house: House) -> None:
    house.troubled.trouble.add("unsure")
    orders: list[Order] = [a_generation(300), a_change("raise_limit", 1), Export(search=ALL)]
    started = house.executor.execute([start(order) for order in orders])
    async with house.open():
        ended = [await house.ended(job.id) for job in started]
        house.troubled.trouble.clear()
    assert [(job.state, job.refused) for job in ended] == [(JobState.DONE, 0)] * 3
    assert len(house.licenses()) == 420
    assert house.limits() == {2}
    for license_id in range(1, 121):
        names = [event.name for event in events_of(house.storage, license_id)]
        assert names == ["license.created", "license.updated"]


@pytest.mark.usefixtures("no_pauses")
@in_a_loop
async def test_a_job_that_meets_a_fault_again_and_again_is_given_up(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(planning, "_generate_step", broken)
    bad, good = house.executor.execute([start(a_generation(10)), start(a_change("disable"))])
    async with house.open():
        failed, done = await house.ended(bad.id), await house.ended(good.id)
    assert failed.state is JobState.FAILED
    assert failed.messages == "An unexpected error; see the server's log."
    assert (done.state, done.done) == (JobState.DONE, 120)
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in logged] == ["job 1 met an unexpected error"] * 3


@in_a_loop
async def test_jobs_are_forgotten_after_a_season_and_their_files_after_a_day(house: House) -> None:
    recently = a_moment_ago() - JOBS_KEPT + timedelta(hours=1)
    old, new = (
        run_job(house.executor, house.storage, a_change("disable"), now=moment)
        for moment in (recently - timedelta(hours=2), recently)
    )
    # For the server, this is long ago.
    with_file = run_job(house.executor, house.storage, Export(search=ALL), now=NOW)
    kept = decide(house.executor, start(Export(search=ALL)))
    async with house.open() as (_, work):
        await house.ended(kept.id)
        await until(lambda: not has_file(house, with_file.id), "the end of the old file")
        await until(lambda: not is_known(house, old), "the end of the old job")
        await delete_old_jobs(work._aside.read, work._desk.execute)
    assert (has_file(house, kept.id), is_known(house, new)) == (True, True)


def is_known(house: House, job: Job) -> bool:
    return run_read(house.storage, lambda tx: job_store.find_job(tx, job.id)) is not None


def has_file(house: House, job_id: int) -> bool:
    try:
        return bool(list(job_files.read_file(lambda question: run_read(house.storage, question), job_id)))
    except (FileGone, UnknownJob):
        return False


@in_a_loop
async def test_pauses_are_longer_while_calls_wait(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(seconds)

    async with house.open() as (_, work):
        work._cleaning.cancel()
        monkeypatch.setattr(asyncio, "sleep", noted)
        # Simulate an idle processor, even on a busy machine.
        monkeypatch.setattr(job_runner, "process_time", lambda: 0.0)
        monkeypatch.setattr(Desk, "waiting", 0)
        await work._pause(0.02)
        alone, pauses[:] = sum(pauses), []
        monkeypatch.setattr(Desk, "waiting", 1)
        await work._pause(0.02)
        monkeypatch.undo()
    assert alone == pytest.approx(0.02)
    assert sum(pauses) == pytest.approx(0.08)


def addresses(house: House) -> list[str]:
    """The address of the first license's activation, and the addresses of all events."""
    with house.storage.read() as tx:
        happened = event_store.list_events(tx, 1, limit=99)
    (found,) = house.executor.query([validate("KEY-1")])
    return [one.ip_address for one in (*found.activations, *happened)]


@pytest.mark.parametrize("days", [36_500, 0, 1])
@in_a_loop
async def test_addresses_are_kept_for_as_long_as_they_are_to_be(house: House, days: int) -> None:
    (record,) = house.executor.execute([activate("KEY-1")])
    house.executor.execute([deactivate(record.activations[0].token, "KEY-1")])
    async with house.open(keep_addresses_days=days) as (_, work):
        await work._address_clean_up.delete_some(a_moment_ago())
        await until(lambda: days == 0 or work._address_clean_up._pauses_until, "its end")
    # All of these are from January 2026.
    assert set(addresses(house)) == {""} if days == 1 else "" not in addresses(house)


@pytest.mark.usefixtures("no_pauses")
@in_a_loop
async def test_a_job_that_was_claimed_while_a_clock_was_ahead_is_taken_over(house: House) -> None:
    job = decide(house.executor, start(a_change("disable")))
    in_a_year = a_moment_ago() + timedelta(days=365)
    assert decide(house.executor, claim(house.storage, in_a_year, "ended")).id == job.id
    async with house.open():
        assert (await house.ended(job.id)).state is JobState.DONE


@pytest.mark.databases("postgresql")
@in_a_loop
async def test_a_step_that_takes_too_long_is_made_smaller_and_holds_up_no_other_change(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "STEP_TIMEOUT", 0.8)
    sizes = slow_steps(house, monkeypatch, lambda numbers: 60 in numbers and len(numbers) > 1)
    job = decide(house.executor, start(a_change("disable", license_ids=list(range(1, 121)))))
    async with house.open() as (desk, _):
        while house.job(job.id).finished_at is None:
            assert (await desk.execute(activate("elsewhere"))).license.key == "elsewhere"
    assert (house.job(job.id).state, house.job(job.id).done) == (JobState.DONE, 120)
    # License 60 is in the third step: 25, 12, 6, 3, and finally one at a time.
    assert sizes[:2] == [25, 25]
    assert 1 in sizes
    assert max(sizes[-3:]) > 1


@pytest.mark.databases("postgresql")
@in_a_loop
async def test_a_step_that_takes_too_long_however_small_ends_its_job_with_a_sentence(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "STEP_TIMEOUT", 0.6)
    sizes = slow_steps(house, monkeypatch, lambda numbers: 60 in numbers)
    bad = decide(house.executor, start(a_change("disable")))
    async with house.open():
        failed = await house.ended(bad.id)
        good = decide(house.executor, start(a_generation(10)))
        assert (await house.ended(good.id)).state is JobState.DONE
    assert failed.state is JobState.FAILED
    sentence = "A step timed out repeatedly, even with a single license."
    assert (failed.messages or "").startswith(sentence)
    assert 50 <= failed.done < 60
    assert sizes[-3:] == [1, 1, 1]


def slow_steps(
    house: House, monkeypatch: pytest.MonkeyPatch, is_slow: Callable[[list[int]], bool]
) -> list[int]:
    """Make steps with these licenses very slow; return the sizes of the steps."""
    elsewhere = decide(house.executor, create("elsewhere")).license.id
    monkeypatch.setattr(work_queue, "_INTERVAL", 0.05)
    monkeypatch.setattr(session, "_SETUP", session._SETUP.replace("(name, '1s'", "(name, '50ms'"))
    right, sizes = license_store.save_licenses, []

    def save(tx: WriteTransaction, changed: Sequence[tuple[License, License]], **options: Any) -> None:
        ids = [one.id for one, _ in changed]
        if ids != [elsewhere]:
            sizes.append(len(ids))
        if is_slow(ids):
            tx.connection.exec_driver_sql("SELECT pg_sleep(60)")
        right(tx, changed, **options)

    monkeypatch.setattr(license_store, "save_licenses", save)
    return sizes
