"""Work on jobs, beside the calls that this server process answers.

Steps go through the desk like any call, one at a time and with a pause after each, so that calls keep their
speed. What a step needs to know is read in a thread, over a connection of its own.
"""

import asyncio
import logging
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic, process_time
from typing import Any, TypeVar

from keywright import jobs
from keywright.background.address_clean_up import AddressCleanUp
from keywright.core.command import Origin
from keywright.core.errors import Refusal, ShuttingDown, TookTooLong, Unavailable
from keywright.db import ReadTransaction, Storage, ask
from keywright.engine.desk import Desk
from keywright.jobs.commands import ClaimJob, FailJob, HoldJob, PurgeJobFile, PurgeJobs
from keywright.jobs.model import Job, JobState

Answer = TypeVar("Answer")

#: How long files are kept after the end of the job that made them.
FILES_KEPT = timedelta(hours=24)
#: How long it is known what a job was, after its end.
JOBS_KEPT = timedelta(days=90)
#: How often somebody who has nothing to do looks for work, in seconds; and for files and jobs that are old.
_LOOK_EVERY = 1.0
_FORGET_EVERY = 60.0
#: How long one job is worked on before the next has its turn, in seconds.
_TURN = 2.0
#: How often others are told during a long reading that the job is still claimed, in seconds.
_HOLD_EVERY = 1.5
#: How long a database elsewhere may take for an answer, in seconds; then the connection is broken.
_PATIENCE = 60.0
_PATIENCE_AT_END = 2.0
#: How often a job may end in an error that should not be.
_MOST_FAULTS = 3
#: How long a pause is, in times of the step before: while nobody else has work for this process, and while
#: others would keep it busy all the time.
_SHORT_REST, _LONG_REST = 1.0, 4.0
_SHORTEST_REST, _LONGEST_REST = 0.001, 0.5
#: How often in a row a step may be broken off, because it takes the database too long, before its job is
#: given up. After each time the steps are half as large; after six, none has more than one license.
_MOST_BROKEN = 8
_TOO_LONG = (
    "A step took too long again and again, even with a single license. Something keeps the database from it, "
    "or there is too much to that license; the server's log tells more. What was done stays done."
)
_FAULT = "An error that should not be; the server's log tells more."

log = logging.getLogger(__name__)


class JobRunner:
    """Claims jobs and works on them, one at a time, from when it is made. Belongs to one event loop."""

    def __init__(self, desk: Desk, storage: Storage, *, keep_addresses_days: int = 0) -> None:
        """``keep_addresses_days`` is the setting."""
        self._desk = desk
        self._storage = storage.beside()
        self._name = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jobs")
        self._loop = asyncio.get_running_loop()
        self._is_woken = asyncio.Event()
        self._is_stopping = False
        self._faults: Counter[int] = Counter()
        #: By job: how often in a row a step was broken off, and how often its steps are halved.
        self._broken: Counter[int] = Counter()
        self._halvings: Counter[int] = Counter()
        self._claims = jobs.Claims(self._name)
        self._forgets_at = 0.0
        self._old_addresses = AddressCleanUp(self._read, desk.execute, keep_addresses_days)
        self._task = self._loop.create_task(self._run())

    def wake(self) -> None:
        """There is a new job; from any thread."""
        self._loop.call_soon_threadsafe(self._is_woken.set)

    async def stop(self) -> None:
        """Give back what is claimed, and return when nothing runs any more. The desk must still be open."""
        self._is_stopping = True
        self._is_woken.set()
        hurry = self._loop.call_later(_PATIENCE_AT_END, partial(self._storage.interrupt, writing=False))
        await asyncio.wait([self._task])
        hurry.cancel()
        await self._loop.run_in_executor(self._thread, self._storage.close)
        self._thread.shutdown()

    async def _run(self) -> None:
        while not self._is_stopping:
            has_worked = False
            self._is_woken.clear()
            try:
                has_worked = await self._work()
                await self._forget()
            except ShuttingDown:
                return
            except Unavailable as fault:
                log.warning("jobs have to wait: %s", str(fault) or fault.code)
            except Exception as problem:
                log.error("jobs cannot be worked on", exc_info=problem)
            if not has_worked and not self._is_stopping:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._is_woken.wait(), _LOOK_EVERY)

    async def _work(self) -> bool:
        """Give a job its turn; returns whether there was one."""
        over = self._claims.find_over(await self._read(jobs.list_claims))
        if not over:
            return False
        command = ClaimJob(**_ours(), claimed_by=self._name, over=over)
        job: Job | None = await self._desk.execute(command)
        if job is None:
            return False
        try:
            await self._work_on(job)
        except Refusal:
            # It was canceled, or another process has gone on with it.
            log.info("job %d is not ours any more", job.id)
        except TookTooLong:
            await self._count_broken(job)
        except Unavailable:
            raise
        except Exception as problem:
            log.error("job %d has met an error that should not be", job.id, exc_info=problem)
            await self._count_fault(job)
        return True

    async def _work_on(self, job: Job) -> None:
        plan = jobs.Plan(job, self._name, halvings=self._halvings[job.id])
        end = monotonic() + _TURN
        while job.state is JobState.RUNNING and not self._is_stopping and monotonic() < end:
            began = monotonic()
            step = await self._read(partial(plan.next_step, job=job, now=_now()), job)
            job = await self._desk.execute(step)
            self._count_success(job)
            if self._halvings[job.id]:
                plan = jobs.Plan(job, self._name, halvings=self._halvings[job.id])
            await self._rest(monotonic() - began)
        if job.state is JobState.RUNNING:
            await self._desk.execute(HoldJob(**self._fields(job), is_over=True))

    def _count_success(self, job: Job) -> None:
        self._faults.pop(job.id, None)
        self._broken.pop(job.id, None)
        if job.id in self._halvings:
            self._halvings[job.id] -= 1
            self._halvings += Counter()

    async def _count_broken(self, job: Job) -> None:
        """Make the steps of this job smaller, or give it up."""
        self._broken[job.id] += 1
        self._halvings[job.id] += 1
        log.warning("a step of job %d took too long; the next one is half as large", job.id)
        if self._broken[job.id] >= _MOST_BROKEN:
            del self._broken[job.id], self._halvings[job.id]
            with suppress(Refusal):
                await self._desk.execute(FailJob(**self._fields(job), said=_TOO_LONG))

    async def _count_fault(self, job: Job) -> None:
        self._faults[job.id] += 1
        if self._faults[job.id] < _MOST_FAULTS:
            await asyncio.sleep(_LOOK_EVERY)
            return
        del self._faults[job.id]
        with suppress(Refusal):
            await self._desk.execute(FailJob(**self._fields(job), said=_FAULT))

    async def _rest(self, seconds: float) -> None:
        """Let others have their turn after a step that took so long, the longer the more they have to do."""
        wall, processor = monotonic(), process_time()
        is_full = self._desk.waiting > 0
        await asyncio.sleep(max(_SHORTEST_REST, seconds * _SHORT_REST))
        busy = (process_time() - processor) / (monotonic() - wall)
        if is_full or self._desk.waiting > 0:
            busy = 1.0
        await asyncio.sleep(min(_LONGEST_REST, seconds * (_LONG_REST - _SHORT_REST) * min(1.0, busy)))

    async def _forget(self) -> None:
        if monotonic() < self._forgets_at:
            return
        self._forgets_at = monotonic() + _FORGET_EVERY
        await self._forget_old_files()
        await self._forget_old_jobs()
        await self._old_addresses.forget_some(_now())

    async def _forget_old_files(self) -> None:
        before = _now() - FILES_KEPT
        while (job_id := await self._read(partial(jobs.find_job_to_forget, before=before))) is not None:
            while not self._is_stopping and await self._desk.execute(PurgeJobFile(**_ours(), job_id=job_id)):
                await asyncio.sleep(_SHORTEST_REST)
            if self._is_stopping:
                return
            # Where a replica answers, it may take a moment until it knows.
            await asyncio.sleep(_SHORTEST_REST)

    async def _forget_old_jobs(self) -> None:
        before = _now() - JOBS_KEPT
        if not await self._read(partial(jobs.has_old_jobs, before=before)):
            return
        while not self._is_stopping and await self._desk.execute(PurgeJobs(**_ours(), before=before)):
            await asyncio.sleep(_SHORTEST_REST)

    async def _read(self, question: Callable[[ReadTransaction], Answer], job: Job | None = None) -> Answer:
        """The answer; meanwhile nobody else takes the job."""
        reading = self._loop.run_in_executor(self._thread, partial(ask, self._storage, question))
        reading.add_done_callback(lambda done: done.cancelled() or done.exception())
        is_over = asyncio.Event()
        patience = self._loop.call_later(_PATIENCE, self._lose_patience, is_over)
        try:
            while not (await asyncio.wait([reading], timeout=_HOLD_EVERY))[0]:
                if job is not None:
                    await self._desk.execute(HoldJob(**self._fields(job)))
        finally:
            patience.cancel()
        if is_over.is_set() and isinstance(reading.exception(), Unavailable):
            raise TookTooLong("a question took too long")
        return reading.result()

    def _lose_patience(self, is_over: asyncio.Event) -> None:
        is_over.set()
        self._storage.interrupt(writing=False)

    def _fields(self, job: Job) -> dict[str, Any]:
        """What every command about a claimed job has."""
        about = {"job_id": job.id, "claimed_by": self._name}
        return {"now": _now(), "origin": jobs.origin_of(job), "by": job.created_by, **about}


@asynccontextmanager
async def working_on_jobs(
    desk: Desk, storage: Storage, *, keep_addresses_days: int
) -> AsyncIterator[JobRunner]:
    """Work on jobs for as long as the block runs."""
    work = JobRunner(desk, storage, keep_addresses_days=keep_addresses_days)
    try:
        yield work
    finally:
        await work.stop()


def _ours() -> dict[str, Any]:
    """What every command has that no user has given."""
    return {"now": _now(), "origin": Origin("keywright", "", "")}


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
