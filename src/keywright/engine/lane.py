"""A lane of the desk: a queue of calls of one kind, executed in batches, first in, first out."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from keywright.core import errors as e
from keywright.core.command import Command, Cost, Query
from keywright.engine.executor import Outcome

#: The maximum size of a batch.
MAX_BATCH = 128
#: The timeout of a remote database, in seconds, after which the connection is closed; that of expensive
#: calls; and that of a step of a job, after which a smaller step follows.
_TIMEOUT = 7.0
_LONG_TIMEOUT = 60.0
STEP_TIMEOUT = 20.0
#: The default time after which a waiting call is refused unless its execution has begun, in seconds, and the
#: interval of this check while a batch runs in another thread.
ANSWER_WITHIN = 10.0
_CHECK_INTERVAL = 0.25
#: How long one attempt waits for another process that is writing, in seconds. Between attempts, calls whose
#: callers have disconnected leave the batch.
_BUSY_WAIT = 0.25

log = logging.getLogger(__name__)

#: The functions to call when a command of this type was executed, whatever its outcome.
Listeners = Mapping[type, Callable[[], None]]
NO_LISTENERS: Listeners = MappingProxyType({})

Item = TypeVar("Item", bound=Command | Query)


class PendingCall(Protocol):
    """A caller that waits for an outcome."""

    #: Whether the execution of the call has begun, set by the desk. Before that, nothing has happened.
    is_begun: bool

    @property
    def is_gone(self) -> bool:
        """Whether the caller no longer waits for the outcome."""


#: Called with a lane, the number of calls in a batch, and its duration in seconds.
ObserveBatch = Callable[[str, int, float], None]
#: A call, its outcome, its caller, and when it was submitted.
_Entry = tuple[Item, "asyncio.Future[Outcome]", PendingCall | None, float]
_Batch = list[_Entry[Item]]


class Lane(Generic[Item]):
    """A queue of calls of one kind, executed in order."""

    def __init__(
        self,
        perform: Callable[[Sequence[Item], float | None], list[Outcome]],
        *,
        name: str,
        most_waiting: int,
        answer_within: float,
        observe: ObserveBatch | None,
        interrupt: Callable[[], None] | None,
        listeners: Listeners = NO_LISTENERS,
    ) -> None:
        """``interrupt`` interrupts an execution that takes too long; None if the database is local."""
        self._listeners = listeners
        self._perform = perform
        self._name = name
        self._observe = observe
        self._interrupt = interrupt
        self._most_waiting = most_waiting
        self._answer_within = answer_within
        self._waiting: deque[_Entry[Item]] = deque()
        self._seen = 0
        self._is_awake = False
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self._thread: ThreadPoolExecutor | None = None
        self._aside: asyncio.Task[None] | None = None
        self._timeout: asyncio.TimerHandle | None = None
        #: Whether the current batch was interrupted.
        self._is_broken = False
        self._check: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, item: Item, waiting_call: PendingCall | None) -> "asyncio.Future[Outcome]":
        """Enqueue a call. Raises ``QueueFull`` or ``ShuttingDown``."""
        if self._is_closed:
            raise e.ShuttingDown
        if len(self._waiting) >= self._most_waiting:
            raise e.QueueFull
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self._waiting.append((item, future, waiting_call, self._loop.time()))
        if waiting_call is not None:
            waiting_call.is_begun = False
        if not self._is_awake:
            self._is_awake = True
            self._loop.call_soon(self._turn)
        return future

    async def close(self) -> None:
        """Accept no more calls; return when all accepted calls are answered."""
        self._is_closed = True
        if self._is_awake:
            self._emptied = self._loop.create_future()
            await self._emptied
        if self._thread is not None:
            self._thread.shutdown()

    def _turn(self) -> None:
        """One turn of the event loop: wait while new calls keep arriving, else execute the waiting ones."""
        waiting = len(self._waiting)
        if self._seen < waiting < MAX_BATCH:
            self._seen = waiting
            self._loop.call_soon(self._turn)
            return
        self._seen = 0
        batch = self._next_batch()
        if batch:
            self._serve(batch)
        else:
            self._continue()

    def _next_batch(self) -> _Batch[Item]:
        """The next calls to execute. Skips calls whose callers have disconnected or waited too long."""
        batch: _Batch[Item] = []
        waiting, latest = self._waiting, self._loop.time() - self._answer_within
        while waiting and len(batch) < MAX_BATCH:
            is_alone = waiting[0][0].cost is not Cost.BATCHED
            if is_alone and batch:
                break
            entry = waiting.popleft()
            if not _is_wanted(entry, latest):
                continue
            batch.append(entry)
            if (waiting_call := entry[2]) is not None:
                waiting_call.is_begun = True
            if is_alone:
                break
        return batch

    def _serve(self, batch: _Batch[Item]) -> None:
        if batch[0][0].cost is not Cost.BATCHED or self._interrupt is not None:
            self._start_aside(batch)
            return
        try:
            outcomes = self._outcomes(batch, 0)
        except e.StoreBusy:
            # Waiting for another process must not block the event loop.
            self._start_aside(batch)
            return
        self._finish(batch, outcomes)

    def _start_aside(self, batch: _Batch[Item]) -> None:
        def finish_cancelled(task: asyncio.Task[None]) -> None:
            # The event loop ended early; the result of the thread is lost.
            if task.cancelled():
                self._finish(batch, [e.FateUnknown("the server ended")] * len(batch))

        self._aside = self._loop.create_task(self._serve_aside(batch))
        self._aside.add_done_callback(finish_cancelled)

    async def _serve_aside(self, batch: _Batch[Item]) -> None:
        """Execute in another thread; while another process is writing, callers may give up and leave."""
        if self._check is None:
            self._check = self._loop.call_later(_CHECK_INTERVAL, self._refuse_late)
        outcomes: list[Outcome] = []
        while batch:
            try:
                outcomes = await self._outcomes_aside(batch)
                break
            except e.StoreBusy:
                latest = self._loop.time() - self._answer_within
                batch = [entry for entry in batch if _is_wanted(entry, latest)]
        self._finish(batch, outcomes)

    async def _outcomes_aside(self, batch: _Batch[Item]) -> list[Outcome]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="desk")
        wait = _BUSY_WAIT if self._interrupt is None else None
        call = partial(self._outcomes, batch, wait)
        self._is_broken = False
        self._start_timeout(_timeout_for(batch[0][0].cost))
        try:
            outcomes = await self._loop.run_in_executor(self._thread, call)
            return [_after_interrupt(one) for one in outcomes] if self._is_broken else outcomes
        except e.StoreBusy:
            raise
        except Exception as problem:
            return _fault_for_all(problem, batch)
        finally:
            if self._timeout is not None:
                self._timeout.cancel()

    def _refuse_late(self) -> None:
        """Refuse callers that have waited too long while a batch runs."""
        latest = self._loop.time() - self._answer_within
        while self._waiting and not _is_wanted(self._waiting[0], latest):
            self._waiting.popleft()
        self._check = self._loop.call_later(_CHECK_INTERVAL, self._refuse_late) if self._is_awake else None

    def _start_timeout(self, seconds: float) -> None:
        if self._interrupt is not None:
            self._timeout = self._loop.call_later(seconds, self._break_off, seconds, self._interrupt)

    def _break_off(self, seconds: float, interrupt: Callable[[], None]) -> None:
        log.error("the database has not answered for %.0f s; its connections are broken", seconds)
        self._is_broken = True
        interrupt()
        self._start_timeout(_TIMEOUT)

    def _outcomes(self, batch: _Batch[Item], wait: float | None) -> list[Outcome]:
        started = perf_counter()
        try:
            return self._perform([entry[0] for entry in batch], wait)
        except e.StoreBusy:
            raise
        except Exception as problem:
            return _fault_for_all(problem, batch)
        finally:
            if self._observe is not None:
                self._observe(self._name, len(batch), perf_counter() - started)

    def _finish(self, batch: _Batch[Item], outcomes: list[Outcome]) -> None:
        for (item, future, _, _), outcome in zip(batch, outcomes, strict=True):
            if type(item) in self._listeners:
                self._listeners[type(item)]()
            # A caller that disconnected has cancelled its future; the others have not.
            if not future.done():
                future.set_result(outcome)
        self._continue()

    def _continue(self) -> None:
        if self._waiting:
            self._loop.call_soon(self._turn)
            return
        self._is_awake = False
        if self._emptied is not None:
            self._emptied.set_result(None)


def _is_wanted(entry: _Entry[Any], latest: float) -> bool:
    """Whether the call was submitted after ``latest`` and its caller still waits. If not, the call is refused
    without being executed.
    """
    _, future, waiting_call, since = entry
    if future.done():
        return False
    if since < latest or (waiting_call is not None and waiting_call.is_gone):
        future.set_result(e.WaitedTooLong())
        return False
    return True


def _timeout_for(cost: Cost) -> float:
    if cost is Cost.STEP:
        return STEP_TIMEOUT
    return _LONG_TIMEOUT if cost in (Cost.LONG, Cost.LIST, Cost.FEED) else _TIMEOUT


def _after_interrupt(outcome: Outcome) -> Outcome:
    """The outcome of a call that was interrupted before it changed anything."""
    if isinstance(outcome, e.StoreUnavailable | e.StoreConflict):
        return e.TookTooLong(str(outcome))
    return outcome


def _fault_for_all(problem: Exception, items: Sequence[object]) -> list[Outcome]:
    log.error("the desk could not serve a batch", exc_info=problem)
    return [e.Fault(type(problem).__name__)] * len(items)
