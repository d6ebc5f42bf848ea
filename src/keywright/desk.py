"""The front desk: where calls that arrive together meet.

Calls wait in a lane (one for changes, one for questions); a lane is served as a batch as soon as its
last batch is done. Nothing waits for a clock: a batch of one is an ordinary call. While the event
loop still brings new calls turn by turn, the lane lets them join, because a batch costs little more
than a call.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, TypeVar

from keywright.batches import Batches, Outcome
from keywright.commands import (
    Command,
    Follow,
    ForgetAddresses,
    ForgetAnswers,
    GenerateLicenses,
    JobStep,
    Query,
    Tally,
)
from keywright.errors import (
    FateUnknown,
    Fault,
    IdempotencyKeyBusy,
    KeywrightError,
    QueueFull,
    ShuttingDown,
    StoreBusy,
)

#: The most that are decided together.
MOST_AT_ONCE = 128
#: How long an answer from a database elsewhere is waited for, in seconds; then the connection is broken.
_PATIENCE = 7.0
#: The same for commands that are long by themselves.
_LONG_PATIENCE = 60.0
#: Commands that are long by themselves.
_LONG = (GenerateLicenses, ForgetAnswers)
#: Commands that are decided alone, in another thread, while questions go on.
_ALONE = (*_LONG, Follow, Tally, JobStep, ForgetAddresses)

log = logging.getLogger(__name__)

Item = TypeVar("Item", bound=Command | Query)


_Batch = list[tuple[Item, "asyncio.Future[Outcome]"]]


class _Lane(Generic[Item]):
    """Calls of one kind, served in the order they came."""

    def __init__(
        self,
        perform: Callable[[Sequence[Item], bool], list[Outcome]],
        *,
        most_waiting: int,
        interrupt: Callable[[], None] | None,
    ) -> None:
        """``interrupt`` breaks an answer off that does not come; without it, answers are near."""
        self._perform = perform
        self._interrupt = interrupt
        self._most_waiting = most_waiting
        self._waiting: deque[tuple[Item, asyncio.Future[Outcome]]] = deque()
        self._seen = 0
        self._is_awake = False
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self._thread: ThreadPoolExecutor | None = None
        self._aside: asyncio.Task[None] | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, item: Item) -> "asyncio.Future[Outcome]":
        """Join the lane. Raises ``QueueFull`` or ``ShuttingDown``."""
        if self._is_closed:
            raise ShuttingDown
        if len(self._waiting) >= self._most_waiting:
            raise QueueFull
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self._waiting.append((item, future))
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
        """One turn of the event loop: wait while calls keep coming, else serve those who wait."""
        waiting = len(self._waiting)
        if self._seen < waiting < MOST_AT_ONCE:
            self._seen = waiting
            self._loop.call_soon(self._turn)
            return
        self._seen = 0
        self._serve(self._next_batch())

    def _next_batch(self) -> _Batch[Item]:
        batch = [self._waiting.popleft()]
        if isinstance(batch[0][0], _ALONE):
            return batch
        while self._waiting and len(batch) < MOST_AT_ONCE:
            if isinstance(self._waiting[0][0], _ALONE):
                break
            batch.append(self._waiting.popleft())
        return batch

    def _serve(self, batch: _Batch[Item]) -> None:
        items = [item for item, _ in batch]
        if isinstance(items[0], _ALONE) or self._interrupt is not None:
            self._aside = self._loop.create_task(self._serve_in_thread(batch, items))
            return
        try:
            outcomes = self._outcomes(items, wait=False)
        except StoreBusy:
            # Waiting for another process must not hold up the event loop.
            self._aside = self._loop.create_task(self._serve_in_thread(batch, items))
            return
        self._finish(batch, outcomes)

    async def _serve_in_thread(self, batch: _Batch[Item], items: list[Item]) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="desk")
        call = partial(self._outcomes, items, wait=True)
        self._be_patient(_LONG_PATIENCE if isinstance(items[0], _LONG) else _PATIENCE)
        try:
            outcomes = await self._loop.run_in_executor(self._thread, call)
        except asyncio.CancelledError:
            # The event loop comes to an end before its time; nobody will hear what the thread says.
            self._finish(batch, [FateUnknown("the server ended")] * len(batch))
            raise
        except Exception as problem:
            outcomes = _all_faulty(problem, items)
        if self._patience is not None:
            self._patience.cancel()
        self._finish(batch, outcomes)

    def _be_patient(self, seconds: float) -> None:
        if self._interrupt is not None:
            self._patience = self._loop.call_later(seconds, self._lose_patience, seconds, self._interrupt)

    def _lose_patience(self, seconds: float, interrupt: Callable[[], None]) -> None:
        log.error("the database has not answered for %.0f s; its connections are broken", seconds)
        interrupt()
        self._be_patient(_PATIENCE)

    def _outcomes(self, items: list[Item], *, wait: bool) -> list[Outcome]:
        try:
            return self._perform(items, wait)
        except StoreBusy:
            raise
        except Exception as problem:
            return _all_faulty(problem, items)

    def _finish(self, batch: _Batch[Item], outcomes: list[Outcome]) -> None:
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            # A caller that went away has cancelled its future; the others have not.
            if not future.done():
                future.set_result(outcome)
        if self._waiting:
            self._loop.call_soon(self._turn)
            return
        self._is_awake = False
        if self._emptied is not None:
            self._emptied.set_result(None)


def _value(outcome: Outcome) -> Outcome:
    """The outcome's value; an error is raised."""
    if isinstance(outcome, KeywrightError):
        raise outcome
    return outcome


def _all_faulty(problem: Exception, items: Sequence[object]) -> list[Outcome]:
    log.error("the desk could not serve a batch", exc_info=problem)
    return [Fault(type(problem).__name__)] * len(items)


class Desk:
    """Takes single commands and questions, and serves them in batches. Belongs to one event loop."""

    def __init__(self, batches: Batches, *, most_waiting: int) -> None:
        self._batches = batches
        lane = partial(_Lane, most_waiting=most_waiting)
        is_near, interrupt = batches.is_local, batches.interrupt
        self._changes: _Lane[Command] = lane(
            self._change, interrupt=None if is_near else partial(interrupt, writing=True)
        )
        self._questions: _Lane[Query] = lane(
            self._ask, interrupt=None if is_near else partial(interrupt, writing=False)
        )
        self._running: set[bytes] = set()

    async def change(self, command: Command) -> Any:
        """The outcome's value; what changed is durable then.

        Raises the refusal that the command met, ``IdempotencyKeyBusy``, ``QueueFull``,
        ``ShuttingDown`` or another fault.
        """
        if command.retry is not None:
            return await self._change_once(command, command.retry.scope)
        return _value(await self._changes.submit(command))

    async def ask(self, query: Query) -> Any:
        """The answer; raises the refusal that the question met, or a fault."""
        return _value(await self._questions.submit(query))

    async def close(self) -> None:
        """Take no more calls; return when all that were accepted are answered."""
        await asyncio.gather(self._changes.close(), self._questions.close())

    @property
    def waiting(self) -> int:
        """How many calls wait now."""
        return len(self._changes) + len(self._questions)

    async def _change_once(self, command: Command, scope: bytes) -> Any:
        if scope in self._running:
            raise IdempotencyKeyBusy
        future = self._changes.submit(command)
        self._running.add(scope)
        future.add_done_callback(lambda _: self._running.discard(scope))
        return _value(await future)

    def _change(self, commands: Sequence[Command], wait: bool) -> list[Outcome]:
        return self._batches.change(commands, wait=wait)

    def _ask(self, queries: Sequence[Query], _wait: bool) -> list[Outcome]:
        return self._batches.ask(queries)
