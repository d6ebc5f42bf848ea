"""The one place where the parts are put together."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from keywright.background.counters import looked_after
from keywright.background.job_runner import JobRunner, working_on_jobs
from keywright.config import Settings
from keywright.core.command import Origin
from keywright.core.errors import KeywrightError
from keywright.db import Storage
from keywright.engine.desk import Desk
from keywright.engine.executor import Executor
from keywright.engine.idempotency import PurgeIdempotencyRecords
from keywright.http import health
from keywright.http.admin.lazy_app import LazyApp
from keywright.http.middleware.pipeline import Edge
from keywright.http.openapi import routes as openapi_routes
from keywright.http.pages.runner import Runner
from keywright.http.pages.urls import BASE
from keywright.http.server.listening import Address, is_at
from keywright.maintenance.commands import PurgeEvents
from keywright.maintenance.retention import PurgeResult

#: How long the answers to calls with an idempotency key are kept, and how often old ones go.
ANSWERS_KEPT = timedelta(hours=48)
_FORGET_EVERY = timedelta(hours=1)
#: How long others come in between two steps, in seconds.
_PAUSE = 0.01
_ORIGIN = Origin("keywright", "", "")
#: By how much the clock may be changed without being distrusted.
_SMALL_CHANGE = timedelta(minutes=30)

log = logging.getLogger(__name__)


def create_app(settings: Settings, storage: Storage, admin_address: Address | None = None) -> Edge:
    """The ASGI application over an open database. Its lifespan opens and closes the desk.

    Where the pages below /admin are served, they are at ``admin_address`` alone, if there is one.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, ASGIApp | None]]:
        desk = Desk(
            Executor(storage, settings.record_limits),
            most_waiting=settings.queue_limit,
            answer_within=settings.answer_within_seconds,
        )
        app.state.desk = edge.desk = desk
        forgetting = asyncio.create_task(_forget_what_is_old(desk, settings.keep_events_days))
        try:
            long_work = working_on_jobs(desk, storage, keep_addresses_days=settings.keep_addresses_days)
            async with (
                looked_after(desk, edge.tallies),
                long_work as work,
                _admin_pages(settings, storage, desk, edge, work) as admin,
            ):
                yield {"admin": admin}
        finally:
            forgetting.cancel()
            await asyncio.wait([forgetting])
            edge.intake.close()
            await desk.close()

    pages = [*health.ROUTES, *openapi_routes.ROUTES]
    starlette = Starlette(routes=pages, lifespan=lifespan, exception_handlers=health.HANDLERS)
    starlette.router.redirect_slashes = False
    starlette.state.settings = settings
    has_admin = starlette.state.has_admin = partial(_has_admin, settings, admin_address)
    edge = Edge(settings, _with_admin(starlette, has_admin))
    return edge


@asynccontextmanager
async def _admin_pages(
    settings: Settings, storage: Storage, desk: Desk, edge: Edge, work: JobRunner
) -> AsyncIterator[ASGIApp | None]:
    """The administration pages; None where the settings leave them out."""
    if not settings.admin:
        yield None
        return
    tallies = edge.tallies
    runner = Runner(storage, desk, count_calls=lambda: tallies.calls, wake_jobs=work.wake)
    try:
        yield LazyApp(settings, runner, edge.intake, tallies)
    finally:
        await runner.close()


def _has_admin(settings: Settings, address: Address | None, scope: Scope) -> bool:
    """Whether the administration pages are served where this request came in."""
    return settings.admin and (address is None or is_at(scope["server"], address))


def _with_admin(pages: ASGIApp, has_admin: Callable[[Scope], bool]) -> ASGIApp:
    """The public pages, and the administration pages of the lifespan's state."""

    async def choose(scope: Scope, receive: Receive, send: Send) -> None:
        is_admin = scope["type"] == "http" and f"{scope['path']}/".startswith(f"{BASE}/")
        app = scope["state"]["admin"] if is_admin and has_admin(scope) else pages
        await app(scope, receive, send)

    return choose


async def _forget_what_is_old(desk: Desk, keep_events_days: int) -> None:
    """Now and then. How old an answer or an event is, is judged by the clock, and clocks jump: when this one
    did, or when it seems so, everything is kept for as long as answers have to be, by a clock that does not.
    """
    until, began = 0.0, _since_start(datetime.now(UTC))
    while True:
        now = datetime.now(UTC).replace(microsecond=0)
        if abs(_since_start(now) - began) > _SMALL_CHANGE:
            log.warning("the clock has jumped; answers and events are kept for another two days")
            until, began = time.monotonic() + ANSWERS_KEPT.total_seconds(), _since_start(now)
        if time.monotonic() >= until and not await _forget_until(desk, now, keep_events_days):
            until = time.monotonic() + ANSWERS_KEPT.total_seconds()
        await asyncio.sleep(_FORGET_EVERY.total_seconds())


def _since_start(now: datetime) -> timedelta:
    """What the clock shows when the one that does not jump shows nothing."""
    return now - datetime.fromtimestamp(0, UTC) - timedelta(seconds=time.monotonic())


async def _forget_until(desk: Desk, now: datetime, keep_events_days: int) -> bool:
    """Whether what is old now was forgotten; or is to be, when the database is there again."""
    purge_idempotency_records = PurgeIdempotencyRecords(now=now, origin=_ORIGIN, before=now - ANSWERS_KEPT)
    try:
        while forgotten := await desk.execute(purge_idempotency_records):
            # Others come in between.
            await asyncio.sleep(0)
        return await _forget_events(desk, now, keep_events_days) and forgotten is not None
    except KeywrightError as fault:
        log.warning("old answers and events could not be forgotten: %s", fault)
        return True


async def _forget_events(desk: Desk, now: datetime, keep_days: int) -> bool:
    """Whether the events that are old, or too many, were forgotten."""
    before = now - timedelta(days=keep_days) if keep_days else None
    while True:
        step: PurgeResult | None = await desk.execute(PurgeEvents(now=now, origin=_ORIGIN, before=before))
        if step is None:
            return False
        for license_id in step.crowded:
            forget = PurgeEvents(now=now, origin=_ORIGIN, license_id=license_id)
            while not (await desk.execute(forget)).is_last:
                await asyncio.sleep(_PAUSE)
        if step.is_last:
            return True
        await asyncio.sleep(_PAUSE)
