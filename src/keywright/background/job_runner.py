"""Work on jobs, beside the calls that this server process answers.

Each step of a job goes through the desk like a call, one at a time and with a pause after it, so that calls
keep their speed. A thread with a connection of its own reads what a step needs to know.
"""

import asyncio
import logging
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from time import monotonic, process_time
from typing import Any, TypeVar

from keywright.background.address_clean_up import AddressCleanUp
from keywright.background.job_clean_up import JobCleanUp
from keywright.background.loops import ORIGIN, READ_TIMEOUT, Waits, interrupting, read_clock
from keywright.background.watch import Bell, Watch
from keywright.core.command import Context
from keywright.core.errors import Refusal, ShuttingDown, TookTooLong, Unavailable
from keywright.db import ReadTransaction, Storage, run_read
from keywright.engine.claims import Claims
from keywright.engine.desk import Desk
from keywright.jobs import orders
from keywright.jobs import store as job_store
from keywright.jobs.commands import ClaimJob, FailJob, HoldJob
from keywright.jobs.model import Claim, Job, JobState
from keywright.jobs.planning import Plan

Answer = TypeVar("Answer")

#: The pause after an unexpected error, and the time between two clean-ups, in seconds.
_PAUSE = 1.0
_CLEAN_UP_INTERVAL = 60.0
#: How long one job is worked on before the next one, in seconds.
_TURN = 2.0
#: How often the claim on a job is renewed during a long read, in seconds.
_HOLD_INTERVAL = 1.5
#: A job fails after so many unexpected errors in a row.
_MAX_FAULTS = 3
#: The pause after a step, in durations of that step: on an idle process, and on one with calls to answer all
#: the time.
_SHORT_PAUSE, _LONG_PAUSE = 1.0, 4.0
#: The shortest pause, and the longest addition for a busy process, in seconds.
_MIN_PAUSE, _MAX_PAUSE = 0.001, 0.5
#: A job fails after so many steps in a row that took the database too long. After each, the steps are half as
#: large; after six, none has more than one license.
_MAX_TIMEOUTS = 8
_TOO_SLOW = (
    "A step took too long again and again, even with a single license. Something blocks the database, or "
    "this license has too many records; the server's log says more. What was done stays done."
)
_FAILED = "An unexpected error; the server's log says more."

log = logging.getLogger(__name__)


class JobRunner:
    """Claims jobs and works on them, one at a time, from when it is made. Belongs to one event loop."""

    def __init__(self, desk: Desk, storage: Storage, watch: Watch, *, keep_addresses_days: int = 0) -> None:
        """``keep_addresses_days`` is the setting."""
        self._desk = desk
        self._storage = storage.clone()
        self._name = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jobs")
        self._loop = asyncio.get_running_loop()
        #: Rings when there may be a job.
        self.bell = Bell()
        watch.add(job_store.UNFINISHED, self.bell)
        self._is_stopping = False
        #: By job: unexpected errors in a row, timeouts in a row, and how often its steps are halved.
        self._faults: Counter[int] = Counter()
        self._timeouts: Counter[int] = Counter()
        self._halvings: Counter[int] = Counter()
        self._claims: Claims[Claim] = Claims(self._name)
        self._waits = Waits("jobs have to wait")
        self._next_clean_up = 0.0
        self._is_clock_right = watch.is_clock_right
        self._job_clean_up = JobCleanUp(self._read, desk.execute, lambda: self._is_stopping)
        self._address_clean_up = AddressCleanUp(self._read, desk.execute, keep_addresses_days)
        self._task = self._loop.create_task(self._run())

    async def stop(self) -> None:
        """Release the job in progress, and wait for the end of its step. The desk must still be open."""
        self._is_stopping = True
        self.bell.ring()
        with interrupting(self._storage):
            await asyncio.wait([self._task])
        await self._loop.run_in_executor(self._thread, self._storage.close)
        self._thread.shutdown()

    async def _run(self) -> None:
        while not self._is_stopping:
            has_worked = False
            try:
                has_worked = await self._work()
                await self._clean_up()
                self._waits.reset()
            except ShuttingDown:
                return
            except Unavailable as fault:
                self._waits.log(fault)
            except Exception as problem:
                self._waits.log_unexpected(problem)
            if not has_worked and not self._is_stopping:
                await self.bell.wait()

    async def _work(self) -> bool:
        """Work on a job for a while. Returns False when there is none."""
        over = self._claims.find_over(await self._read(job_store.list_claims))
        if not over:
            return False
        command = ClaimJob(context=Context(read_clock(), ORIGIN), claimed_by=self._name, over=over)
        job: Job | None = await self._desk.execute(command)
        if job is None:
            return False
        try:
            await self._work_on(job)
        except Refusal:
            log.info("job %d was canceled, or another process works on it", job.id)
        except TookTooLong:
            await self._count_timeout(job)
        except Unavailable:
            raise
        except Exception as problem:
            log.error("job %d met an unexpected error", job.id, exc_info=problem)
            await self._count_fault(job)
        return True

    async def _work_on(self, job: Job) -> None:
        plan = Plan(job, self._name, halvings=self._halvings[job.id])
        end = monotonic() + _TURN
        while job.state is JobState.RUNNING and not self._is_stopping and monotonic() < end:
            started = monotonic()
            step = await self._read(partial(plan.next_step, job=job, now=read_clock()), job)
            job = await self._desk.execute(step)
            self._count_success(job)
            if self._halvings[job.id]:
                plan = Plan(job, self._name, halvings=self._halvings[job.id])
            await self._pause(monotonic() - started)
        if job.state is JobState.RUNNING:
            await self._desk.execute(HoldJob(**self._fields(job), is_over=True))

    def _count_success(self, job: Job) -> None:
        self._faults.pop(job.id, None)
        self._timeouts.pop(job.id, None)
        if job.id in self._halvings:
            self._halvings[job.id] -= 1
            self._halvings += Counter()

    async def _count_timeout(self, job: Job) -> None:
        """Make the steps of this job smaller, or fail it."""
        self._timeouts[job.id] += 1
        self._halvings[job.id] += 1
        log.warning("a step of job %d took too long; the next one is half as large", job.id)
        if self._timeouts[job.id] >= _MAX_TIMEOUTS:
            del self._timeouts[job.id], self._halvings[job.id]
            await self._fail(job, _TOO_SLOW)

    async def _count_fault(self, job: Job) -> None:
        self._faults[job.id] += 1
        if self._faults[job.id] < _MAX_FAULTS:
            await asyncio.sleep(_PAUSE)
            return
        del self._faults[job.id]
        await self._fail(job, _FAILED)

    async def _fail(self, job: Job, reason: str) -> None:
        with suppress(Refusal):
            await self._desk.execute(FailJob(**self._fields(job), reason=reason))

    async def _pause(self, seconds: float) -> None:
        """Pause after a step that took ``seconds``: longer while calls wait or the process is busy."""
        wall, processor = monotonic(), process_time()
        is_busy = self._desk.waiting > 0
        await asyncio.sleep(max(_MIN_PAUSE, seconds * _SHORT_PAUSE))
        load = (process_time() - processor) / (monotonic() - wall)
        if is_busy or self._desk.waiting > 0:
            load = 1.0
        addition = seconds * (_LONG_PAUSE - _SHORT_PAUSE) * min(1.0, load)
        await asyncio.sleep(min(_MAX_PAUSE, addition))

    async def _clean_up(self) -> None:
        if monotonic() >= self._next_clean_up and self._is_clock_right():
            self._next_clean_up = monotonic() + _CLEAN_UP_INTERVAL
            await self._job_clean_up.delete_old()
            await self._address_clean_up.delete_some(read_clock())

    async def _read(self, question: Callable[[ReadTransaction], Answer], job: Job | None = None) -> Answer:
        """The answer to the question. The claim on ``job`` is renewed meanwhile. Raises ``TookTooLong``."""
        reading = self._loop.run_in_executor(self._thread, partial(run_read, self._storage, question))
        reading.add_done_callback(lambda done: done.cancelled() or done.exception())
        is_interrupted = asyncio.Event()
        timeout = self._loop.call_later(READ_TIMEOUT, self._interrupt, is_interrupted)
        try:
            while not (await asyncio.wait([reading], timeout=_HOLD_INTERVAL))[0]:
                if job is not None:
                    await self._desk.execute(HoldJob(**self._fields(job)))
        finally:
            timeout.cancel()
        if is_interrupted.is_set() and isinstance(reading.exception(), Unavailable):
            raise TookTooLong("a query took too long")
        return reading.result()

    def _interrupt(self, is_interrupted: asyncio.Event) -> None:
        is_interrupted.set()
        self._storage.interrupt(writing=False)

    def _fields(self, job: Job) -> dict[str, Any]:
        """The fields of every command about a job that this process has claimed."""
        return {
            "context": Context(read_clock(), orders.origin_of(job), job.created_by),
            "job_id": job.id,
            "claimed_by": self._name,
        }


@asynccontextmanager
async def running_jobs(
    desk: Desk, storage: Storage, watch: Watch, *, keep_addresses_days: int
) -> AsyncIterator[JobRunner]:
    """Work on jobs until the end of the block."""
    runner = JobRunner(desk, storage, watch, keep_addresses_days=keep_addresses_days)
    try:
        yield runner
    finally:
        await runner.stop()
