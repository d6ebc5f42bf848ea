"""Work on what shops sent, beside the calls that this server process answers.

What this process has stored it works on at once. What another process has left, because it stopped, and what
waits for another attempt, is found by a look at the table every few seconds; the next attempt is claimed
before it begins. Two processes that work on one event do no harm: the second one finds it done.

Events that need an answer of their shop's API wait in a queue of their own, so that a slow shop holds up no
event that needs none. A shop that was waited for in vain is left alone for a while, and others are asked.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic

from msgspec.structs import replace

from keywright.background.loops import ORIGIN, Waits, read_clock
from keywright.background.watch import Bell, Watch
from keywright.core.command import Context, Origin
from keywright.core.errors import (
    Fault,
    KeywrightError,
    Refusal,
    ShopRefused,
    ShopUnavailable,
    Unavailable,
    UnreadableEvent,
)
from keywright.engine.desk import Desk
from keywright.provisioning.shops.client import open_api
from keywright.provisioning.shops.commands import (
    ClaimShopEvent,
    FindSoldLicenses,
    HoldShopEvents,
    ListDueEvents,
    OpenConnection,
    OpenShopEvent,
    PostponeShopEvent,
    WorkShopEvent,
    WorkShopEventAlone,
)
from keywright.provisioning.shops.event_rules import MAX_ATTEMPTS, require_usable
from keywright.provisioning.shops.model import (
    DueEvent,
    Lines,
    OpenedConnection,
    OpenedEvent,
    Reason,
    Renewal,
    Sale,
    ShopEvent,
)
from keywright.provisioning.shops.modules import MODULES
from keywright.provisioning.shops.payloads import read_payload
from keywright.provisioning.shops.selling import Unfinished, Why
from keywright.provisioning.shops.shop_module import ApiAccess, ShopModule
from keywright.provisioning.shops.store import AT_ONCE, WAITING

#: How long an attempt is this process's alone.
CLAIM = timedelta(seconds=30)
#: The events that are worked on at a time, and the questions to shops' APIs beside them.
_WORKERS, _QUESTIONS = 4, 4
#: The most events that wait in memory, and those of them that need an answer of a shop; more are found in the
#: table.
_MAX_WAITING, _MAX_ASKING = 1_000, 500
#: The most events in a queue that are kept there with what they say.
_MAX_KEPT = 50
#: The most units and licenses of an event that is decided together with other commands.
_SMALL = 5
#: How often an event is worked on again at once, and the pause when its licenses have changed meanwhile.
_MAX_TURNS, _PAUSE = 200, 0.02
#: A shop that was waited for so long in vain is asked nothing for a while, in seconds.
_SLOW, _QUIET = 2.0, 15.0
#: The pause after an attempt that the database could not finish, in seconds.
_RETRY = 1.0

log = logging.getLogger(__name__)


@dataclass
class _Task:
    """An event to work on; without what it says, it is read from the table."""

    event_id: int
    connection_id: int
    event: ShopEvent | None = None


class ShopRunner:
    """Works on stored events, from when it is made. Belongs to one event loop."""

    def __init__(self, desk: Desk, watch: Watch) -> None:
        self._desk = desk
        self._bell = Bell()
        watch.add(WAITING, self._bell)
        self._waits = Waits("events of shops have to wait")
        self._task_waits = Waits("an event of a shop has to wait")
        self._ready: asyncio.Queue[_Task] = asyncio.Queue()
        self._asking: asyncio.Queue[_Task] = asyncio.Queue()
        #: The IDs of the events that are in a queue here, or being worked on.
        self._held: set[int] = set()
        #: Until when a connection's shop is asked nothing.
        self._quiet_until: dict[int, float] = {}
        self._pool = ThreadPoolExecutor(_QUESTIONS, thread_name_prefix="shops")
        loops = [self._look()]
        loops += [self._run(self._ready, self._work) for _ in range(_WORKERS)]
        loops += [self._run(self._asking, self._ask_and_work) for _ in range(_QUESTIONS)]
        self._tasks = [asyncio.create_task(one) for one in loops]

    def add(self, event_id: int, connection_id: int, event: ShopEvent | None = None) -> None:
        """Work on this event, which was stored with a claim of this process; ``event`` is what it says, where
        that was just read.
        """
        if event_id not in self._held and len(self._held) < _MAX_WAITING:
            self._held.add(event_id)
            self._put(self._ready, _Task(event_id, connection_id, event))

    def _put(self, queue: asyncio.Queue[_Task], task: _Task) -> None:
        if queue.qsize() >= _MAX_KEPT:
            task.event = None
        queue.put_nowait(task)

    async def stop(self) -> None:
        """Stop; what is not finished is done by another process, or after the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --- what is due ------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Claim what is due, and work on it."""
        while True:
            is_more = False
            try:
                is_more = await self._claim_due()
                self._waits.reset()
            except KeywrightError as fault:
                self._waits.log(fault)
            except Exception as problem:
                self._waits.log_unexpected(problem)
            if is_more:
                await asyncio.sleep(_PAUSE)
            else:
                await self._bell.wait()

    async def _claim_due(self) -> bool:
        """Claim some of what is due; the claims on what this process has are renewed. Returns whether there
        may be more.
        """
        now = read_clock()
        due: list[DueEvent] = await self._desk.query(ListDueEvents(now=now))
        context, until = Context(now, ORIGIN), now + CLAIM
        held = [one.id for one in due if one.id in self._held]
        if held:
            await self._desk.execute(HoldShopEvents(context=context, event_ids=held, next_attempt_at=until))
        others = [one for one in due if one.id not in self._held][: _MAX_WAITING - len(self._held)]
        claims = [
            ClaimShopEvent(context=context, event_id=one.id, attempts=one.attempts, next_attempt_at=until)
            for one in others
        ]
        for one, is_claimed in zip(
            others, await asyncio.gather(*map(self._desk.execute, claims)), strict=True
        ):
            if is_claimed:
                self.add(one.id, one.connection_id)
        return len(due) == AT_ONCE and len(self._held) < _MAX_WAITING

    # --- the work ---------------------------------------------------------------------------------

    async def _run(self, queue: asyncio.Queue[_Task], work: Callable[[_Task], Awaitable[bool]]) -> None:
        """Work on what comes into a queue. ``work`` returns whether the attempt is over."""
        while True:
            task = await queue.get()
            try:
                if await self._attempt(task, work):
                    self._held.discard(task.event_id)
                self._task_waits.reset()
            except Unavailable as fault:
                self._task_waits.log(fault)
                asyncio.get_running_loop().call_later(_RETRY, queue.put_nowait, task)
            except Exception as problem:
                log.error("the event %d of a shop cannot be postponed", task.event_id, exc_info=problem)
                self._held.discard(task.event_id)

    async def _attempt(self, task: _Task, work: Callable[[_Task], Awaitable[bool]]) -> bool:
        """One attempt; returns whether it is over. Raises ``Unavailable``: it can be repeated at once."""
        try:
            return await work(task)
        except _Postponed as postponed:
            reason, detail = postponed.args
            await self._postpone(task, reason, detail)
        except Refusal as refusal:
            reason, detail = _reason_of(refusal)
            seconds = refusal.retry_after if isinstance(refusal, ShopUnavailable) else None
            await self._postpone(task, reason, detail, timedelta(seconds=seconds or 0))
        except Unavailable:
            raise
        except Exception as problem:
            log.error("the event %d of a shop met an unexpected error", task.event_id, exc_info=problem)
            detail = str(problem) if isinstance(problem, Fault) else type(problem).__name__
            await self._postpone(task, Reason.FAILED, detail)
        return True

    async def _work(self, task: _Task) -> bool:
        """Do what an event says, unless its shop has to be asked first. Raises ``Refusal``, ``_Postponed``,
        ``Unavailable``.
        """
        event = await self._read(task)
        if event is not None and event.needs_api:
            if self._asking.qsize() >= _MAX_ASKING:
                raise _Postponed(Reason.SHOP_UNAVAILABLE, "too many questions wait for an answer")
            self._put(self._asking, task)
            return False
        if event is not None:
            await self._decide(task, event)
        return True

    async def _ask_and_work(self, task: _Task) -> bool:
        """Ask the shop for what an event leaves out, and do what it says. Raises as ``_work``."""
        event = await self._read(task)
        if event is not None:
            opened = await self._desk.query(OpenConnection(connection_id=task.connection_id))
            task.event = await self._complete(event, opened) if event.needs_api else event
            await self._decide(task, task.event)
        return True

    async def _read(self, task: _Task) -> ShopEvent | None:
        """The content of an event; None for one that has been deleted. Raises ``UnreadableEvent``,
        ``_Postponed``.
        """
        if task.event is None:
            opened: OpenedEvent | None = await self._desk.query(OpenShopEvent(event_id=task.event_id))
            task.event = None if opened is None else _read(opened)
        return task.event

    async def _complete(self, event: ShopEvent, opened: OpenedConnection) -> ShopEvent:
        """Ask the shop for what the event leaves out. A state is known without that, too."""
        module = MODULES[opened.connection.shop]
        access = module.find_api(opened.connection, opened.api_key) if opened.api_key else None
        if access is not None:
            return await self._ask_shop(opened.connection.id, module, access, event)
        if isinstance(event.change, Sale | Renewal):
            raise _Postponed(Reason.API_KEY_MISSING, None)
        return event

    async def _ask_shop(
        self, connection_id: int, module: ShopModule, access: ApiAccess, event: ShopEvent
    ) -> ShopEvent:
        """Ask in a thread. Raises ``_Postponed`` where the shop is to be left alone."""
        began = monotonic()
        if self._quiet_until.get(connection_id, began) > began:
            raise _Postponed(Reason.SHOP_UNAVAILABLE, "it did not answer in time a moment ago")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, _ask, module, access, event)
        except ShopUnavailable:
            if monotonic() - began >= _SLOW:
                self._quiet_until[connection_id] = monotonic() + _QUIET
            raise

    async def _decide(self, task: _Task, event: ShopEvent) -> None:
        """Do what an event says: in several turns where that is much, or where its licenses change
        meanwhile.
        """
        find = FindSoldLicenses(connection_id=task.connection_id, event=event)
        # A sale seldom has licenses; where it has some, the second turn knows them.
        license_ids: frozenset[int] = frozenset()
        unfinished, is_asked = Unfinished(Why.MORE), False
        for turn in range(_MAX_TURNS):
            if turn or not isinstance(event.change, Sale):
                license_ids = await self._desk.query(find)
            kind = WorkShopEvent if self._is_small(event, license_ids) else WorkShopEventAlone
            command = kind(
                context=_context(task.connection_id),
                event_id=task.event_id,
                connection_id=task.connection_id,
                event=event,
                license_ids=license_ids,
                notes=unfinished.notes,
                is_asked=is_asked,
            )
            outcome = await self._desk.execute(command)
            if not isinstance(outcome, Unfinished):
                return
            if outcome.why is Why.ASK:
                event, is_asked = await self._ask_again(task, event), True
            else:
                unfinished = outcome
            await asyncio.sleep(_PAUSE if turn else 0)
        raise _Postponed(Reason.FAILED, "its licenses change again and again")

    async def _ask_again(self, task: _Task, event: ShopEvent) -> ShopEvent:
        """The event with what the shop's API says now; as it is where the shop refuses to say that."""
        opened = await self._desk.query(OpenConnection(connection_id=task.connection_id))
        with suppress(ShopRefused):
            return await self._complete(replace(event, needs_api=True), opened)
        return event

    def _is_small(self, event: ShopEvent, license_ids: frozenset[int]) -> bool:
        """Whether an event is decided together with other commands: in place, that takes less time than a
        transaction of its own. Elsewhere, it would hold the locks of the others.
        """
        lines = event.change.lines if isinstance(event.change, Sale | Lines) else ()
        units = sum(max(1, one.quantity) for one in lines)
        return self._desk.is_local and max(units, len(license_ids)) <= _SMALL

    async def _postpone(
        self, task: _Task, reason: Reason, detail: str | None, pause: timedelta = timedelta(0)
    ) -> None:
        command = PostponeShopEvent(
            context=_context(task.connection_id),
            event_id=task.event_id,
            connection_id=task.connection_id,
            event=task.event,
            reason=reason,
            detail=detail,
            pause=pause,
        )
        await self._desk.execute(command)


class _Postponed(Exception):
    """The attempt is over, with a reason and a detail."""


def _read(opened: OpenedEvent) -> ShopEvent:
    """The content of an event. Raises ``UnreadableEvent``, ``_Postponed``."""
    if opened.payload is None:
        raise _Postponed(Reason.FORGOTTEN, None)
    if opened.stored.attempts > MAX_ATTEMPTS:
        raise _Postponed(Reason.FAILED, "its attempts do not come to an end")
    return read_payload(opened.payload, opened.opened.connection, opened.stored.event_id)


def _reason_of(refusal: Refusal) -> tuple[Reason, str | None]:
    match refusal:
        case UnreadableEvent():
            return Reason.UNREADABLE, refusal.reason
        case ShopRefused():
            return Reason.SHOP_REFUSED, refusal.reason
        case ShopUnavailable():
            return Reason.SHOP_UNAVAILABLE, refusal.reason
    return Reason.FAILED, refusal.code


def _context(connection_id: int) -> Context:
    return Context(read_clock(), Origin(f"connection:{connection_id}", "", ""))


def _ask(module: ShopModule, access: ApiAccess, event: ShopEvent) -> ShopEvent:
    with open_api(access) as api:
        return require_usable(module.complete(event, api))


@asynccontextmanager
async def running_shops(desk: Desk, watch: Watch) -> AsyncIterator[ShopRunner]:
    """Work on the events of shops until the end of the block."""
    runner = ShopRunner(desk, watch)
    try:
        yield runner
    finally:
        await runner.stop()
