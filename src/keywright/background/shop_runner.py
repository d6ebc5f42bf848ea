"""Process the events of shops, while this server process answers calls.

A process handles the events that it has stored at once. It polls the table for events that a stopped process
has left, and for those that wait for another attempt; each attempt is claimed before it begins. It does no
harm if two processes handle the same event: the second one finds it done.

Events that need their shop's API wait in a queue of their own, so that a slow shop does not delay events that
need no request. After a timeout, a shop is not asked for a while; other shops are.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from time import monotonic

from msgspec.structs import replace

from keywright.background.loops import Waits, read_clock
from keywright.background.queue import Handler, Queue
from keywright.core import errors as e
from keywright.core.command import Context, Origin
from keywright.engine.desk import Desk
from keywright.engine.queue import Item
from keywright.provisioning.shops import commands as shop_commands
from keywright.provisioning.shops import model as shop_model
from keywright.provisioning.shops.event_rules import MAX_ATTEMPTS, require_usable
from keywright.provisioning.shops.payloads import MODULES, read_payload
from keywright.provisioning.shops.selling import Unfinished, Why
from keywright.provisioning.shops.shop_module import ApiAccess, ShopModule, open_api
from keywright.provisioning.shops.store import EVENTS

#: The most events that are processed at a time, and the most concurrent events that use shops' APIs.
_WORKERS, _QUESTIONS = 4, 4
#: The most events that wait in memory, and the most of these that need a shop's API; the table has the rest.
_MAX_WAITING, _MAX_ASKING = 1_000, 500
#: The most events in a queue that keep their contents in memory.
_MAX_KEPT = 50
#: The most units and licenses of an event that is decided together with other commands.
_SMALL = 5
#: The most turns of one attempt, and the pause between two, in seconds.
_MAX_TURNS, _PAUSE = 200, 0.02
#: The duration of a failed request after which a shop is not asked for a while, and how long, in seconds.
_SLOW, _QUIET = 2.0, 15.0
#: The pause before an attempt is repeated that failed because of the database, in seconds.
_RETRY = 1.0

log = logging.getLogger(__name__)


@dataclass
class _Task:
    """An event to process; if ``event``, its contents, is None, it is read from the table."""

    event_id: int
    connection_id: int
    event: shop_model.ShopEvent | None = None


class _Turns:
    """A queue that lets a limited number of events run at a time, in their order."""

    def __init__(self, most: int) -> None:
        self._free = asyncio.Semaphore(most)
        self.waiting = 0

    @asynccontextmanager
    async def wait(self, task: _Task) -> AsyncIterator[None]:
        """Wait for a turn. If many are waiting, the event drops its contents, to save memory."""
        if self.waiting >= _MAX_KEPT:
            task.event = None
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        try:
            yield
        finally:
            self._free.release()


class ShopRunner(Handler):
    """Processes stored events. Belongs to one event loop."""

    kind, name, most = EVENTS, "event of a shop", _MAX_WAITING

    def __init__(self, desk: Desk, queue: Queue) -> None:
        self._desk = desk
        self._queue = queue
        self._waits = Waits("an event of a shop has to wait")
        self._turns, self._questions = _Turns(_WORKERS), _Turns(_QUESTIONS)
        #: The time until which a connection's shop is not asked.
        self._quiet_until: dict[int, float] = {}
        self._pool = ThreadPoolExecutor(_QUESTIONS, thread_name_prefix="shops")

    def add(self, event_id: int, connection_id: int, event: shop_model.ShopEvent | None = None) -> None:
        """Process this event, which was stored with a claim of this process; ``event`` is its contents, if
        they were just read.
        """
        self._queue.begin(self, event_id, partial(self._finish, _Task(event_id, connection_id, event)))

    def stop(self, tasks: Collection[asyncio.Task[None]]) -> None:
        """Cancel the work; another process, or this server after its next start, finishes it."""
        for task in tasks:
            task.cancel()

    async def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def work(self, item: Item) -> float:
        """Claim the next attempt to process an event, and make it."""
        claimed: tuple[int, int] | None = await self._queue.claim(self.kind, item)
        return _RETRY if claimed is None else await self._finish(_Task(*claimed))

    async def _finish(self, task: _Task) -> float:
        """Make an attempt; repeat it while the database is unavailable."""
        while True:
            try:
                async with self._turns.wait(task):
                    is_over = await self._attempt(task, self._work)
                if not is_over:
                    async with self._questions.wait(task):
                        await self._attempt(task, self._ask_and_work)
                self._waits.reset()
                return 0.0
            except e.Unavailable as fault:
                self._waits.log(fault)
                await asyncio.sleep(_RETRY)

    async def _attempt(self, task: _Task, work: Callable[[_Task], Awaitable[bool]]) -> bool:
        """Make one attempt; return whether it is finished. Raises ``Unavailable`` if it can be repeated."""
        try:
            return await work(task)
        except _Postponed as postponed:
            reason, detail = postponed.args
            await self._postpone(task, reason, detail)
        except e.Refusal as refusal:
            reason, detail = _reason_of(refusal)
            seconds = refusal.retry_after if isinstance(refusal, e.ShopUnavailable) else None
            await self._postpone(task, reason, detail, timedelta(seconds=seconds or 0))
        except e.Unavailable:
            raise
        except Exception as problem:
            log.error("the event %d of a shop met an unexpected error", task.event_id, exc_info=problem)
            detail = str(problem) if isinstance(problem, e.Fault) else type(problem).__name__
            await self._postpone(task, shop_model.Reason.FAILED, detail)
        return True

    async def _work(self, task: _Task) -> bool:
        """Apply an event, unless its shop must be asked first. Raises ``Refusal``, ``_Postponed``,
        ``Unavailable``.
        """
        event = await self._read(task)
        if event is not None and event.needs_api:
            if self._questions.waiting >= _MAX_ASKING:
                raise _Postponed(shop_model.Reason.SHOP_UNAVAILABLE, "too many requests to shops are waiting")
            return False
        if event is not None:
            await self._decide(task, event)
        return True

    async def _ask_and_work(self, task: _Task) -> bool:
        """Fetch the missing data of an event from the shop, and apply the event. Raises like ``_work``."""
        event = await self._read(task)
        if event is not None:
            opened = await self._desk.query(shop_commands.OpenConnection(connection_id=task.connection_id))
            task.event = await self._complete(event, opened) if event.needs_api else event
            await self._decide(task, task.event)
        return True

    async def _read(self, task: _Task) -> shop_model.ShopEvent | None:
        """Return the contents of an event; None if it was deleted. Raises ``UnreadableEvent``,
        ``_Postponed``.
        """
        if task.event is None:
            opened: shop_model.OpenedEvent | None = await self._desk.query(
                shop_commands.OpenShopEvent(event_id=task.event_id)
            )
            task.event = None if opened is None else _read(opened)
        return task.event

    async def _complete(
        self, event: shop_model.ShopEvent, opened: shop_model.OpenedConnection
    ) -> shop_model.ShopEvent:
        """Fetch the missing data of an event from the shop. Without an API key, a sale or renewal is
        postponed; any other event stays as it is.
        """
        module = MODULES[opened.connection.shop]
        access = module.find_api(opened.connection, opened.api_key) if opened.api_key else None
        if access is not None:
            return await self._ask_shop(opened.connection.id, module, access, event)
        if isinstance(event.change, shop_model.Sale | shop_model.Renewal):
            raise _Postponed(shop_model.Reason.API_KEY_MISSING, None)
        return event

    async def _ask_shop(
        self, connection_id: int, module: ShopModule, access: ApiAccess, event: shop_model.ShopEvent
    ) -> shop_model.ShopEvent:
        """Ask the shop in a thread. Raises ``_Postponed`` after a recent timeout."""
        began = monotonic()
        if self._quiet_until.get(connection_id, began) > began:
            raise _Postponed(shop_model.Reason.SHOP_UNAVAILABLE, "its last request timed out moments ago")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, _ask, module, access, event)
        except e.ShopUnavailable:
            if monotonic() - began >= _SLOW:
                self._quiet_until[connection_id] = monotonic() + _QUIET
            raise

    async def _decide(self, task: _Task, event: shop_model.ShopEvent) -> None:
        """Apply an event, in several turns if it is large or if its licenses change concurrently."""
        find = shop_commands.FindSoldLicenses(connection_id=task.connection_id, event=event)
        # A sale seldom has licenses yet; if it has some, the second turn finds them.
        license_ids: frozenset[int] = frozenset()
        unfinished, is_asked = Unfinished(Why.MORE), False
        for turn in range(_MAX_TURNS):
            if turn or not isinstance(event.change, shop_model.Sale):
                license_ids = await self._desk.query(find)
            kind = (
                shop_commands.WorkShopEvent
                if self._is_small(event, license_ids)
                else shop_commands.WorkShopEventAlone
            )
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
        raise _Postponed(shop_model.Reason.FAILED, "its licenses keep changing")

    async def _ask_again(self, task: _Task, event: shop_model.ShopEvent) -> shop_model.ShopEvent:
        """Return the event with current data of the shop's API; unchanged if the shop refuses to answer."""
        opened = await self._desk.query(shop_commands.OpenConnection(connection_id=task.connection_id))
        with suppress(e.ShopRefused):
            return await self._complete(replace(event, needs_api=True), opened)
        return event

    def _is_small(self, event: shop_model.ShopEvent, license_ids: frozenset[int]) -> bool:
        """Return whether to decide an event together with other commands. With a local database, that is
        faster than a separate transaction; with a remote one, it would prolong the locks of the others.
        """
        lines = event.change.lines if isinstance(event.change, shop_model.Sale | shop_model.Lines) else ()
        units = sum(max(1, one.quantity) for one in lines)
        return self._desk.is_local and max(units, len(license_ids)) <= _SMALL

    async def _postpone(
        self, task: _Task, reason: shop_model.Reason, detail: str | None, pause: timedelta = timedelta(0)
    ) -> None:
        command = shop_commands.PostponeShopEvent(
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
    """The attempt is postponed, with a reason and a detail."""


def _read(opened: shop_model.OpenedEvent) -> shop_model.ShopEvent:
    """Read the contents of an event. Raises ``UnreadableEvent``, ``_Postponed``."""
    if opened.payload is None:
        raise _Postponed(shop_model.Reason.FORGOTTEN, None)
    if opened.stored.attempts > MAX_ATTEMPTS:
        raise _Postponed(shop_model.Reason.FAILED, "too many attempts")
    return read_payload(opened.payload, opened.opened.connection, opened.stored.event_id)


def _reason_of(refusal: e.Refusal) -> tuple[shop_model.Reason, str | None]:
    match refusal:
        case e.UnreadableEvent():
            return shop_model.Reason.UNREADABLE, refusal.reason
        case e.ShopRefused():
            return shop_model.Reason.SHOP_REFUSED, refusal.reason
        case e.ShopUnavailable():
            return shop_model.Reason.SHOP_UNAVAILABLE, refusal.reason
    return shop_model.Reason.FAILED, refusal.code


def _context(connection_id: int) -> Context:
    return Context(read_clock(), Origin(f"connection:{connection_id}", "", ""))


def _ask(module: ShopModule, access: ApiAccess, event: shop_model.ShopEvent) -> shop_model.ShopEvent:
    with open_api(access) as api:
        return require_usable(module.complete(event, api))
