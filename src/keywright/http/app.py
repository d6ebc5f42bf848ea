"""The one place where the parts are put together."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from keywright.background.clean_up import clean_up
from keywright.background.counters import save_counters
from keywright.background.daily_backup import back_up_daily
from keywright.background.job_runner import JobRunner, running_jobs
from keywright.background.loops import running
from keywright.background.projector import project_events
from keywright.config import Settings
from keywright.core.command import Command
from keywright.db import Storage
from keywright.engine.desk import Desk
from keywright.http import health
from keywright.http.admin.lazy_app import LazyApp
from keywright.http.middleware.pipeline import Edge
from keywright.http.openapi import routes as openapi_routes
from keywright.http.pages.runner import Runner
from keywright.http.pages.urls import BASE
from keywright.http.server.listening import Address, is_at
from keywright.jobs.commands import StartJob
from keywright.registry import open_executor


def create_app(settings: Settings, storage: Storage, admin_address: Address | None = None) -> Edge:
    """The ASGI application over an open database. Its lifespan opens and closes the desk.

    Where the pages below /admin are served, they are at ``admin_address`` alone, if there is one.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, ASGIApp | None]]:
        desk = Desk(
            open_executor(storage, settings.record_limits),
            most_waiting=settings.queue_limit,
            answer_within=settings.answer_within_seconds,
        )
        app.state.desk = edge.desk = desk
        try:
            async with (
                running(clean_up(desk, settings.keep_events_days)),
                running(save_counters(desk, edge.tallies)),
                running(project_events(desk)),
                running(back_up_daily(desk, settings)),
                running_jobs(desk, storage, keep_addresses_days=settings.keep_addresses_days) as jobs,
                _admin_pages(settings, storage, desk, edge, jobs) as admin,
            ):
                yield {"admin": admin}
        finally:
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
    counters = edge.tallies

    def wake_jobs(command: Command) -> None:
        if isinstance(command, StartJob):
            work.wake()

    runner = Runner(storage, desk, count_calls=lambda: counters.calls, on_change=wake_jobs)
    try:
        yield LazyApp(settings, runner, edge.intake, counters)
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
