"""Work on what shops sent, beside the calls that this server process answers.

What this process has stored it works on at once. What another process has left, because it stopped, and what
waits for another attempt, is found by a look at the table every few seconds; the next attempt is claimed
before it begins. Two processes that work on one event do no harm: the second one finds it done.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from keywright.background.loops import ORIGIN, read_clock
from keywright.core.command import Context, Origin
from keywright.core.errors import (
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
    ListDueEvents,
    OpenShopEvent,
    PostponeShopEvent,
    WorkShopEvent,
)
from keywright.provisioning.shops.model import (
    ApiAccess,
    OpenedConnection,
    OpenedEvent,
    Reason,
    Renewal,
    Sale,
    ShopEvent,
    ShopModule,
    StoredEvent,
)
from keywright.provisioning.shops.modules import MODULES
from keywright.provisioning.shops.payloads import read_payload
from keywright.provisioning.shops.rules import require_usable
from keywright.provisioning.shops.selling import Unfinished

#: How long an attempt is this process's alone.
CLAIM = timedelta(seconds=30)
#: The time between two looks at the table, in seconds.
_INTERVAL = 2.0
#: The events that are worked on at a time, and how many of them may wait for a shop's API: the others must
#: not wait for that.
_WORKERS, _MAX_ASKING = 8, 4
#: The most events that wait in memory; more are found in the table.
_MAX_WAITING = 1_000
#: How often an event is worked on again at once, and the pause when its licenses have changed meanwhile.
_MAX_TURNS, _PAUSE = 200, 0.02
#: The pause after an attempt that the database could not finish, in seconds.
_RETRY = 1.0

log = logging.getLogger(__name__)


class ShopRunner:
    """Works on stored events, from when it is made. Belongs to one event loop."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._waiting: asyncio.Queue[int] = asyncio.Queue(_MAX_WAITING)
        self._asking = 0
        self._pool = ThreadPoolExecutor(_MAX_ASKING, thread_name_prefix="shops")
        self._tasks = [asyncio.create_task(self._look())]
        self._tasks += [asyncio.create_task(self._run()) for _ in range(_WORKERS)]

    def add(self, event_id: int) -> None:
        """Work on this event, which was stored with a claim of this process."""
        with suppress(asyncio.QueueFull):
            self._waiting.put_nowait(event_id)

    async def stop(self) -> None:
        """Stop; what is not finished is done by another process, or after the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _look(self) -> None:
        """Claim what is due, and work on it."""
        while True:
            try:
                now = read_clock()
                for event_id, attempts in await self._desk.query(ListDueEvents(now=now)):
                    if not self._waiting.full() and await self._claim(event_id, attempts):
                        self.add(event_id)
            except KeywrightError as fault:
                log.debug("events of shops have to wait: %s", fault.code)
            except Exception as problem:
                log.error("no event of a shop can be looked for", exc_info=problem)
            await asyncio.sleep(_INTERVAL)

    async def _claim(self, event_id: int, attempts: int) -> bool:
        context = Context(read_clock(), ORIGIN)
        claim = ClaimShopEvent(
            context=context, event_id=event_id, attempts=attempts, next_attempt_at=context.now + CLAIM
        )
        return bool(await self._desk.execute(claim))

    async def _run(self) -> None:
        while True:
            event_id = await self._waiting.get()
            try:
                await self._work(event_id)
            except Unavailable as fault:
                log.warning("the event %d of a shop has to wait: %s", event_id, fault.code)
                asyncio.get_running_loop().call_later(_RETRY, self.add, event_id)
            except Exception as problem:
                log.error("the event %d of a shop met an unexpected error", event_id, exc_info=problem)

    async def _work(self, event_id: int) -> None:
        """One attempt. Raises ``Unavailable``: the event is found in the table again."""
        opened: OpenedEvent | None = await self._desk.query(OpenShopEvent(event_id=event_id))
        if opened is None:
            return
        try:
            await self._do(opened)
        except _Postponed as postponed:
            reason, detail = postponed.args
            await self._postpone(opened.stored, reason, detail)
        except Refusal as refusal:
            await self._postpone(opened.stored, *_reason_of(refusal))

    async def _do(self, opened: OpenedEvent) -> None:
        """Read the event, complete it, and do what it says. Raises ``Refusal``, ``_Postponed``."""
        stored = opened.stored
        if opened.payload is None:
            raise _Postponed(Reason.FORGOTTEN, None)
        event = read_payload(opened.payload, opened.opened.connection)
        if event.needs_api:
            if self._asking >= _MAX_ASKING:
                return
            event = await self._complete(event, opened.opened)
        find = FindSoldLicenses(connection_id=stored.connection_id, event=event)
        for _ in range(_MAX_TURNS):
            command = WorkShopEvent(
                context=_context(stored.connection_id),
                event_id=stored.id,
                event=event,
                license_ids=await self._desk.query(find),
            )
            if not isinstance(await self._desk.execute(command), Unfinished):
                return
            await asyncio.sleep(_PAUSE)

    async def _complete(self, event: ShopEvent, opened: OpenedConnection) -> ShopEvent:
        """Ask the shop for what the event leaves out. A state is known without that, too."""
        module = MODULES[opened.connection.shop]
        access = module.find_api(opened.connection, opened.api_key) if opened.api_key else None
        if access is None:
            if isinstance(event.change, Sale | Renewal):
                raise _Postponed(Reason.API_KEY_MISSING, None)
            return event
        self._asking += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, _ask, module, access, event)
        finally:
            self._asking -= 1

    async def _postpone(self, stored: StoredEvent, reason: Reason, detail: str | None) -> None:
        context = _context(stored.connection_id)
        await self._desk.execute(
            PostponeShopEvent(context=context, event_id=stored.id, reason=reason, detail=detail)
        )


class _Postponed(Exception):
    """The attempt is over, with a reason and a detail."""


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
async def running_shops(desk: Desk) -> AsyncIterator[ShopRunner]:
    """Work on the events of shops until the end of the block."""
    runner = ShopRunner(desk)
    try:
        yield runner
    finally:
        await runner.stop()
