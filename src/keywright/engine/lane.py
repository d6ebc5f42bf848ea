"""A lane of the desk: calls of one kind, served in batches in the order they came."""

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

#: The most that are decided together.
MAX_BATCH = 128
#: How long a database elsewhere may take for an answer, in seconds; then the connection is broken. The same
#: for what is long by itself, and for a step of a job, which is followed by a smaller one then.
_TIMEOUT = 7.0
_LONG_TIMEOUT = 60.0
STEP_TIMEOUT = 20.0
#: A call that has waited this long, in seconds, and is not being decided is refused, unless the desk is told
#: otherwise. The check runs at this interval while a batch is decided in another thread.
ANSWER_WITHIN = 10.0
_CHECK_INTERVAL = 0.25
#: How long one attempt waits for another process that is writing, in seconds; callers that have gone leave
#: the batch before the next one.
_BUSY_WAIT = 0.25

log = logging.getLogger(__name__)

#: The function to call when a command of this type was decided, whatever its outcome.
Listeners = Mapping[type, Callable[[], None]]
NO_LISTENERS: Listeners = MappingProxyType({})

Item = TypeVar("Item", bound=Command | Query)


class PendingCall(Protocol):
    """The caller that waits for an outcome."""

    #: Whether the call is being decided, or was; the desk sets it. Before that, nothing has happened.
    is_begun: bool

    @property
    def is_gone(self) -> bool:
        """Whether the caller has stopped waiting for the outcome."""


#: Called with a lane, the number of calls in a batch, and the seconds that deciding it took.
ObserveBatch = Callable[[str, int, float], None]
#: A call, its outcome, who waits for it, and since when.
_Entry = tuple[Item, "asyncio.Future[Outcome]", PendingCall | None, float]
_Batch = list[_Entry[Item]]


class Lane(Generic[Item]):
    """Calls of one kind, served in the order they came."""

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
        """``interrupt`` breaks an answer off that does not come; without it, answers are near."""
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
        #: Whether what is being decided was broken off.
        self._is_broken = False
        self._check: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, item: Item, waiting_call: PendingCall | None) -> "asyncio.Future[Outcome]":
        """Join the lane. Raises ``QueueFull`` or ``ShuttingDown``."""
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
        """Take no more; return when all that was accepted is answered."""
        self._is_closed = True
        if self._is_awake:
            self._emptied = self._loop.create_future()
            await self._emptied
        if self._thread is not None:
            self._thread.shutdown()

    def _turn(self) -> None:
        """One turn of the event loop: wait while calls keep coming, else serve the waiting ones."""
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
        """The next calls. One whose caller has gone, or waited too long, is not decided at all."""
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
            # Waiting for another process must not hold up the event loop.
            self._start_aside(batch)
            return
        self._finish(batch, outcomes)

    def _start_aside(self, batch: _Batch[Item]) -> None:
        def finish_cancelled(task: asyncio.Task[None]) -> None:
            # The event loop ends before its time; the thread's result is lost.
            if task.cancelled():
                self._finish(batch, [e.FateUnknown("the server ended")] * len(batch))

        self._aside = self._loop.create_task(self._serve_aside(batch))
        self._aside.add_done_callback(finish_cancelled)

    async def _serve_aside(self, batch: _Batch[Item]) -> None:
        """Decide in another thread; callers that give up while another process is writing leave the batch."""
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
        """Refuse callers that have waited too long, while others are decided."""
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
            # A caller that went away has cancelled its future; the others have not.
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
    """Whether a caller that came after ``latest`` is still waiting. If not, the call is refused, undone."""
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
    """The outcome of what was broken off, where nothing was changed."""
    if isinstance(outcome, e.StoreUnavailable | e.StoreConflict):
        return e.TookTooLong(str(outcome))
    return outcome


def _fault_for_all(problem: Exception, items: Sequence[object]) -> list[Outcome]:
    log.error("the desk could not serve a batch", exc_info=problem)
    return [e.Fault(type(problem).__name__)] * len(items)
