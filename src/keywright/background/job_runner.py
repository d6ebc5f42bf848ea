"""Work on jobs, while this server process answers calls.

Each step of a job goes through the desk like a call, one at a time and with a pause after it, so that calls
are not slowed down. A thread with its own connection reads the data that a step needs.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from time import monotonic, process_time

from keywright.background.address_clean_up import AddressCleanUp
from keywright.background.clean_up import delete_old_jobs
from keywright.background.loops import Aside, Waits, read_clock
from keywright.background.queue import Handler, Queue
from keywright.core.command import Context
from keywright.core.errors import Refusal, ShuttingDown, TookTooLong, Unavailable
from keywright.db import Storage
from keywright.engine.desk import Desk
from keywright.engine.queue import Item
from keywright.jobs import orders
from keywright.jobs import store as job_store
from keywright.jobs.model import FailJob, Job, JobState
from keywright.jobs.planning import Plan

#: The pause after an unexpected error, and the time between two clean-ups, in seconds.
_PAUSE = 1.0
_CLEAN_UP_INTERVAL = 60.0
#: The time slice of a job, after which another job may continue, in seconds.
_TURN = 2.0
#: The number of consecutive unexpected errors after which a job fails.
_MAX_FAULTS = 3
#: The pause after a step, as a multiple of the step's duration: in an idle process, and in one that answers
#: calls all the time.
_SHORT_PAUSE, _LONG_PAUSE = 1.0, 4.0
#: The shortest pause, and the longest addition for a busy process, in seconds.
_MIN_PAUSE, _MAX_PAUSE = 0.001, 0.5
#: The number of consecutive timeouts of steps after which a job fails. Each one halves the size of the steps;
#: after six, a step has one license at most.
_MAX_TIMEOUTS = 8
_TOO_SLOW = (
    "A step timed out repeatedly, even with a single license. Something blocks the database, or this "
    "license has too many records; see the server's log. Completed steps are kept."
)
_FAILED = "An unexpected error; see the server's log."

log = logging.getLogger(__name__)


class JobRunner(Handler):
    """Claims jobs and works on them, one at a time. Belongs to one event loop."""

    kind, name, most = job_store.JOBS, "job", 1

    def __init__(
        self, desk: Desk, storage: Storage, queue: Queue, *, keep_addresses_days: Callable[[], int]
    ) -> None:
        """``keep_addresses_days`` returns the value of that setting."""
        self._desk = desk
        self._queue = queue
        self._aside = Aside(storage, "jobs")
        #: By job: consecutive unexpected errors, consecutive timeouts, and how often its steps were halved.
        self._faults: Counter[int] = Counter()
        self._timeouts: Counter[int] = Counter()
        self._halvings: Counter[int] = Counter()
        self._address_clean_up = AddressCleanUp(self._aside.read, desk.execute, keep_addresses_days)
        self._cleaning = asyncio.create_task(self._clean_up())

    def stop(self, tasks: Collection[asyncio.Task[None]]) -> None:
        """Stop the clean-up; the job in progress finishes its step, and is released."""
        self._cleaning.cancel()
        self._aside.stop()

    async def close(self) -> None:
        """Close the connection."""
        await asyncio.wait([self._cleaning])
        await self._aside.close()

    async def work(self, item: Item) -> float:
        """Work on a job for one time slice."""
        job: Job | None = await self._queue.claim(self.kind, item)
        if job is None:
            return _PAUSE
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
            return await self._count_fault(job)
        return 0.0

    async def _work_on(self, job: Job) -> None:
        plan = Plan(job, self._queue.name, halvings=self._halvings[job.id])
        end = monotonic() + _TURN
        while job.state is JobState.RUNNING and not self._queue.is_stopping.is_set() and monotonic() < end:
            started = monotonic()
            step = await self._aside.read(partial(plan.next_step, job=job, now=read_clock()))
            job = await self._desk.execute(step)
            self._count_success(job)
            if self._halvings[job.id]:
                plan = Plan(job, self._queue.name, halvings=self._halvings[job.id])
            await self._pause(monotonic() - started)
        if job.state is JobState.RUNNING:
            await self._queue.hold(self.kind, [Item(job.id)], is_over=True)

    def _count_success(self, job: Job) -> None:
        self._faults.pop(job.id, None)
        self._timeouts.pop(job.id, None)
        if job.id in self._halvings:
            self._halvings[job.id] -= 1
            self._halvings += Counter()

    async def _count_timeout(self, job: Job) -> None:
        """Halve the steps of this job, or fail it after too many timeouts."""
        self._timeouts[job.id] += 1
        self._halvings[job.id] += 1
        log.warning("a step of job %d took too long; the next one is half as large", job.id)
        if self._timeouts[job.id] >= _MAX_TIMEOUTS:
            del self._timeouts[job.id], self._halvings[job.id]
            await self._fail(job, _TOO_SLOW)

    async def _count_fault(self, job: Job) -> float:
        """Fail this job after too many errors; return the pause before the next attempt."""
        self._faults[job.id] += 1
        if self._faults[job.id] < _MAX_FAULTS:
            return _PAUSE
        del self._faults[job.id]
        await self._fail(job, _FAILED)
        return 0.0

    async def _fail(self, job: Job, reason: str) -> None:
        context = Context(read_clock(), orders.origin_of(job), job.created_by)
        own = self._queue.name
        with suppress(Refusal):
            await self._desk.execute(FailJob(context=context, job_id=job.id, claimed_by=own, reason=reason))

    async def _pause(self, seconds: float) -> None:
        """Pause after a step that took ``seconds``; longer while calls wait or the process is busy."""
        wall, processor = monotonic(), process_time()
        is_busy = self._desk.waiting > 0
        await asyncio.sleep(max(_MIN_PAUSE, seconds * _SHORT_PAUSE))
        load = (process_time() - processor) / (monotonic() - wall)
        if is_busy or self._desk.waiting > 0:
            load = 1.0
        addition = seconds * (_LONG_PAUSE - _SHORT_PAUSE) * min(1.0, load)
        await asyncio.sleep(min(_MAX_PAUSE, addition))

    async def _clean_up(self) -> None:
        """Delete old jobs, files and addresses at regular intervals."""
        waits = Waits("old jobs and addresses have to wait")
        while True:
            try:
                if self._queue.is_clock_right():
                    await delete_old_jobs(self._aside.read, self._desk.execute)
                    await self._address_clean_up.delete_some(read_clock())
                waits.reset()
            except ShuttingDown:
                return
            except Exception as problem:
                waits.log(problem)
            await asyncio.sleep(_CLEAN_UP_INTERVAL)
