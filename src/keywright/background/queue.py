"""The work queue of a server process: it polls the tables, and passes items to the handlers of their kinds.

One poll finds the work of all kinds and of other loops, so an idle server executes a single statement at a
time. A handler works on a limited number of items at once; an item, or the kind as a whole, can be paused for
a while. The claims on items in progress are renewed.
"""

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import chain
from time import monotonic
from typing import Any

from keywright.background.loops import ORIGIN, IsClockRight, Waits, read_clock, running
from keywright.core.command import Context
from keywright.core.errors import KeywrightError, ShuttingDown
from keywright.db import Question
from keywright.db.rows import to_seconds
from keywright.engine.desk import Desk
from keywright.engine.queue import AT_ONCE, ClaimItem, Claims, HoldItems, Item, Kind, LookForWork

#: The polling interval, and the shortest pause of an item after an error, in seconds.
_INTERVAL, _PAUSE = 0.5, 1.0
#: The number of polls without work after which the interval grows, and by which factor.
_IDLE_LOOKS, _WHEN_IDLE = 10, 2
#: The longest wait of a loop for its bell, in seconds.
_LONGEST_WAIT = 10.0
#: A claim is renewed when less than this part of its time is left.
_RENEWED = 2 / 3

log = logging.getLogger(__name__)


class Bell:
    """Rings when a loop has work. Belongs to one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._has_rung = asyncio.Event()

    def ring(self) -> None:
        """End the current wait, or the next one. Thread-safe."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._has_rung.set)

    async def wait(self, longest: float = _LONGEST_WAIT) -> None:
        """Wait until the bell has rung since the last wait, for at most ``longest`` seconds."""
        # Not wait_for: before Python 3.12, it swallows a cancellation that coincides with the ring.
        with suppress(TimeoutError):
            async with asyncio.timeout(longest):
                await self._has_rung.wait()
        self._has_rung.clear()


class Handler:
    """Works on the items of one kind. Belongs to one event loop."""

    kind: Kind
    #: The name of an item in the log.
    name: str
    #: The most items at a time. If that is one, a pause applies to the whole kind.
    most: int
    #: Whether no item is started while the clock is not trusted.
    needs_clock = False

    async def work(self, item: Item) -> float:
        """Claim the item and work on it; return the pause after it, in seconds."""
        raise NotImplementedError

    def is_ready(self) -> bool:
        """Return whether it can work on items now; otherwise they wait."""
        return True

    def stop(self, tasks: Collection[asyncio.Task[None]]) -> None:
        """Let the work in progress, in these tasks, come to its end. The desk is still open."""

    async def close(self) -> None:
        """Release resources; no work is in progress any more."""


#: Works on an item; returns the pause after it, in seconds.
Work = Callable[[], Awaitable[float]]


class _Lane:
    """The items of a kind in this process: those in progress, those that are ready, those that are paused."""

    def __init__(self, handler: Handler, claimed_by: str) -> None:
        self.handler = handler
        self._claimed_by = claimed_by
        self.claims = Claims(claimed_by, holds_for=handler.kind.holds_for)
        self.waits = Waits(f"{handler.name}s have to wait")
        self.tasks: dict[int, asyncio.Task[None]] = {}
        self.ready: list[Item] = []
        self.is_full = False
        #: The end of the pause, by item; item 0 stands for a kind with one item at a time.
        self._left_alone: dict[int, float] = {}

    def take(self, items: list[Item]) -> None:
        """Accept the items that a poll has found."""
        now = monotonic()
        self._left_alone = {one: until for one, until in self._left_alone.items() if until > now}
        self.ready = [one for one in self.claims.find_over(items) if one.id not in self.tasks]
        self.is_full = len(items) >= AT_ONCE

    def next(self) -> Item | None:
        """Return the next item to work on now, if there is one and room for it."""
        while self.ready and len(self.tasks) < self.handler.most:
            item = self.ready.pop(0)
            if item.id not in self.tasks and not self._left_alone.keys() & {0, item.id}:
                return item
        return None

    def leave_alone(self, number: int, seconds: float) -> None:
        """Pause this item for this many seconds; for a kind with one item at a time, pause the kind."""
        self._left_alone[number if self.handler.most > 1 else 0] = monotonic() + seconds

    def list_held(self, items: list[Item], now: int) -> list[Item]:
        """Return those of the items that are in progress here and whose claims must be renewed."""
        kind = self.handler.kind
        held = [one for one in items if one.id in self.tasks]
        if kind.claimed_by is None:
            return held
        holds_for = int(kind.holds_for.total_seconds())
        fresh = range(round(holds_for * _RENEWED), holds_for + 1)
        own = [one for one in held if one.claimed_by == self._claimed_by]
        return [one for one in own if (one.claimed_until or 0) - now not in fresh]


class Queue:
    """Polls for work and starts it. Belongs to one event loop."""

    def __init__(self, desk: Desk, bell: Bell, is_clock_right: IsClockRight = lambda: True) -> None:
        """``bell`` rings when there may be new work, which triggers a poll."""
        self._desk = desk
        self.is_clock_right = is_clock_right
        #: The name of this process in claims.
        self.name = f"{os.getpid()}-{secrets.token_hex(8)}"
        self.bell = bell
        self.is_stopping = asyncio.Event()
        self._lanes: dict[Handler, _Lane] = {}
        self._bells: dict[Question, Bell] = {}
        self._waits = Waits("work in the background has to wait")

    def add(self, handler: Handler) -> None:
        """Add a handler, which then gets the items of its kind."""
        self._lanes[handler] = _Lane(handler, self.name)
        self.bell.ring()

    def add_bell(self, question: Question) -> Bell:
        """Return a bell that rings at each poll for which the question finds a row. It also rings while the
        database does not answer: the loop then meets the same fault, and logs it.
        """
        bell = self._bells[question] = Bell()
        return bell

    async def claim(self, kind: Kind, item: Item) -> Any:
        """Claim the item, and return what its kind reads of it; None if another process was faster."""
        command = ClaimItem(context=Context(read_clock(), ORIGIN), kind=kind, item=item, claimed_by=self.name)
        return await self._desk.execute(command)

    async def hold(self, kind: Kind, items: list[Item], *, is_over: bool = False) -> None:
        """Renew the claims of this process on items; with ``is_over``, release them."""
        command = HoldItems(
            context=Context(read_clock(), ORIGIN),
            kind=kind,
            items=items,
            claimed_by=self.name,
            is_over=is_over,
        )
        await self._desk.execute(command)

    def begin(self, handler: Handler, number: int, work: Work) -> None:
        """Start work on an item that this process has claimed; without room, a later poll finds it."""
        lane = self._lanes[handler]
        has_room = number not in lane.tasks and len(lane.tasks) < handler.most
        if has_room and not self.is_stopping.is_set():
            lane.tasks[number] = asyncio.create_task(self._work(lane, number, work))

    async def run(self) -> None:
        """Poll until this is stopped or the desk is closed."""
        in_vain = 0
        while not self.is_stopping.is_set():
            try:
                in_vain = 0 if await self._look() else in_vain + 1
                self._waits.reset()
            except ShuttingDown:
                return
            except Exception as problem:
                self._waits.log(problem)
                self._ring(True for _ in self._bells)
            await self.bell.wait(_INTERVAL * _WHEN_IDLE if in_vain > _IDLE_LOOKS else _INTERVAL)

    async def stop(self) -> None:
        """Stop polling, and let the work in progress finish."""
        self.is_stopping.set()
        tasks = {handler: tuple(lane.tasks.values()) for handler, lane in self._lanes.items()}
        for handler, its_tasks in tasks.items():
            handler.stop(its_tasks)
        await asyncio.gather(*chain(*tasks.values()), return_exceptions=True)
        await asyncio.gather(*(one.close() for one in self._lanes))

    async def _look(self) -> bool:
        """Poll once, and start the work that was found; return whether there was any."""
        now, lanes = read_clock(), tuple(one for one in self._lanes.values() if one.handler.is_ready())
        kinds, questions = tuple(one.handler.kind for one in lanes), tuple(self._bells)
        found = await self._desk.query(LookForWork(now=now, kinds=kinds, questions=questions))
        self._ring(found[len(lanes) :])
        for lane, items in zip(lanes, found, strict=False):
            held = lane.list_held(items, to_seconds(now))
            lane.take(items)
            self._fill(lane)
            if held:
                await self.hold(lane.handler.kind, held)
                if lane.is_full:
                    # These items may have hidden others.
                    self.bell.ring()
        return any(found)

    def _ring(self, answers: Any) -> None:
        for bell, has_work in zip(self._bells.values(), answers, strict=False):
            if has_work:
                bell.ring()

    def _fill(self, lane: _Lane) -> None:
        """Start work on ready items while there is room."""
        handler = lane.handler
        can_begin = not self.is_stopping.is_set() and handler.is_ready()
        can_begin = can_begin and (not handler.needs_clock or self.is_clock_right())
        while can_begin and (item := lane.next()) is not None:
            self.begin(lane.handler, item.id, partial(lane.handler.work, item))

    async def _work(self, lane: _Lane, number: int, work: Work) -> None:
        pause = _PAUSE
        try:
            pause = await work()
            lane.waits.reset()
        except ShuttingDown:
            pass
        except KeywrightError as fault:
            lane.waits.log(fault)
        except Exception as problem:
            log.error("%s %d met an unexpected error", lane.handler.name, number, exc_info=problem)
        finally:
            del lane.tasks[number]
        if pause:
            lane.leave_alone(number, pause)
        self._fill(lane)
        if not pause and not lane.ready and (lane.is_full or lane.handler.most == 1):
            self.bell.ring()


@asynccontextmanager
async def working(
    desk: Desk, is_clock_right: IsClockRight = lambda: True, bell: Bell | None = None
) -> AsyncIterator[Queue]:
    """Open a queue that polls for work until the end of the block."""
    queue = Queue(desk, bell or Bell(), is_clock_right)
    async with running(queue.run()):
        try:
            yield queue
        finally:
            await queue.stop()
