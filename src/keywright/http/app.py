"""The composition root: builds all objects and connects them."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, closing, nullcontext
from functools import partial
from time import monotonic

from starlette.applications import Starlette
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from keywright.background.clean_up import KeptDays, clean_up
from keywright.background.clock import watching_clock
from keywright.background.counters import Counters, save_counters
from keywright.background.daily_backup import back_up_daily
from keywright.background.deliveries import Deliveries
from keywright.background.job_runner import JobRunner
from keywright.background.last_seen import save_last_seen
from keywright.background.loops import IsClockRight, running
from keywright.background.mailer import Mailer
from keywright.background.moments import pass_moments
from keywright.background.projector import project_events, settle_events
from keywright.background.queue import Bell, Queue, working
from keywright.background.refusals import save_refusals
from keywright.background.shop_look import look_at_shops
from keywright.background.shop_runner import ShopRunner
from keywright.background.watching import probe_writes, watch_settings
from keywright.config import Settings, logs
from keywright.core.command import Command
from keywright.db import Storage
from keywright.engine.desk import Desk
from keywright.http.health import Health
from keywright.http.inbound import Inbound
from keywright.http.metrics import Metrics, serving
from keywright.http.middleware.access_log import AccessLog, LoggedApp
from keywright.http.middleware.authentication import ApiKeyCache
from keywright.http.middleware.body import BodyReader
from keywright.http.middleware.pipeline import Middlewares, Pipeline
from keywright.http.middleware.sending import exception_handlers
from keywright.http.openapi.routes import Documents
from keywright.http.pages.lazy_app import LazyApp
from keywright.http.pages.render import BASE, PORTAL
from keywright.http.pages.runner import Runner
from keywright.http.public.downloads import Downloads
from keywright.http.public.edd.interface import Edd
from keywright.http.public.jwks import Jwks
from keywright.http.public.offline import Offline
from keywright.http.public.unsubscribe import UnsubscribePage
from keywright.http.public.updates import Updates
from keywright.http.server.run import Application
from keywright.http.server.sockets import Address, is_at
from keywright.http.signatures import Signatures
from keywright.http.v2.interface import V2
from keywright.http.v2.relay import open_relay
from keywright.http.v2.wire import write_error
from keywright.http.v3.interface import V3
from keywright.identity.model import RevokeApiKey
from keywright.jobs.model import StartImport, StartJob
from keywright.registry import open_executor, record_limits


class AdminHost:
    """The address that serves the administration pages."""

    def __init__(self, address: Address | None, *, is_on: bool) -> None:
        """``is_on``: whether the pages are served at all; ``address``: the only address that serves them."""
        self._address = address
        self._is_on = is_on

    def is_here(self, scope: Scope) -> bool:
        """Whether the administration pages are served at the address of this request."""
        return self._is_on and (self._address is None or is_at(scope["server"], self._address))


class SitePages:
    """Routes requests below a path to the pages of a site, if they are served there; others elsewhere."""

    def __init__(
        self, is_here: Callable[[Scope], bool], base: str, pages: ASGIApp, otherwise: ASGIApp
    ) -> None:
        self._is_here = is_here
        self._base = f"{base}/"
        self._pages = pages
        self._otherwise = otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_page = f"{scope['path']}/".startswith(self._base) and self._is_here(scope)
        await (self._pages if is_page else self._otherwise)(scope, receive, send)


#: The key of the application in the lifespan state, which all requests share.
_APP = "app"


def create_app(settings: Settings, storage: Storage, admin_address: Address | None = None) -> ASGIApp:
    """The ASGI application over an open database. Its lifespan opens and closes everything that answers
    requests.

    ``admin_address``, if not None, is the only address that serves the pages below /admin, if they are served
    at all.
    """
    admin_host = AdminHost(admin_address, is_on=settings.admin)
    lifespan = Router(lifespan=partial(_open, settings, storage, admin_host))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp = scope["state"][_APP] if scope["type"] == "http" else lifespan
        await answer(scope, receive, send)

    return app


#: The application that ``keywright serve`` runs.
APPLICATION = Application(create_app, write_error)


@asynccontextmanager
async def _open(
    settings: Settings, storage: Storage, admin_host: AdminHost, _app: object
) -> AsyncIterator[dict[str, ASGIApp]]:
    """Open the application that answers requests, and run the background loops while it is open."""
    counters = Counters()
    metrics = None if settings.metrics_address is None else Metrics()
    api_key_cache = ApiKeyCache()
    bell = Bell()
    async with (
        _open_desk(settings, storage, api_key_cache, metrics, bell.ring) as desk,
        watching_clock(desk) as clock,
        running(clean_up(desk, partial(_kept_days, settings), clock.is_right)),
        running(save_counters(desk, counters)),
        running(save_last_seen(desk, counters.last_seen)),
        running(save_refusals(desk, counters.refusals)),
        working(desk, clock.is_right, bell) as queue,
        running(project_events(desk, queue)),
        running(settle_events(desk, queue)),
        running(back_up_daily(desk, settings, clock.is_right)),
        running(look_at_shops(desk, clock.is_right)),
        running(probe_writes(desk, storage.watch.writing)),
        running(pass_moments(desk, settings, clock.is_right)),
        running(watch_settings(desk, settings)),
        _open_runner(storage, desk, counters, queue) as runner,
        # A separate thread pool: public calls must not delay the administration pages.
        _open_runner(storage, desk, counters, queue) as portal_runner,
        open_relay(settings, desk) as relay,
    ):
        queue.add(JobRunner(desk, storage, queue, keep_addresses_days=lambda: settings.keep_addresses_days))
        queue.add(Deliveries(desk, queue, allowed=settings.webhook_networks))
        queue.add(shops := ShopRunner(desk, queue))
        queue.add(mailer := Mailer(desk, storage, settings, queue))
        serving = _serving_metrics(settings, storage, desk, metrics, mailer, is_clock_right=clock.is_right)
        with closing(BodyReader()) as body_reader, serving:
            is_json = logs.uses_json(settings, is_terminal=sys.stderr.isatty())
            log = AccessLog(is_json=is_json, calls=settings.log_calls)
            admin = LazyApp(
                BASE,
                runner,
                partial(_build_admin, settings, runner, body_reader, counters, monotonic()),
                home="/",
            )
            portal = LazyApp(
                PORTAL, portal_runner, partial(_build_portal, settings, portal_runner, body_reader)
            )
            signatures = Signatures(desk, settings.signature_alg)
            site = _build_site(settings, desk, admin_host, signatures, storage)
            site = SitePages(lambda _scope: settings.portal, PORTAL, portal, site)
            pages = SitePages(admin_host.is_here, BASE, admin, site)
            count_call = None if metrics is None else metrics.count_call
            middlewares = Middlewares(
                settings, counters, api_key_cache, body_reader, log, count_call=count_call
            )
            # v3 first: its check is cheaper for calls to other interfaces.
            interfaces = (
                V3(settings, desk, signatures),
                V2(settings, desk, relay),
                Offline(desk, signatures),
                Downloads(settings, desk, storage.key_ring),
                Updates(settings, desk, storage.key_ring),
                Edd(settings, desk),
                Inbound(desk, shops),
            )
            app = Pipeline(interfaces, middlewares, LoggedApp(pages, log, write_error))
            yield {_APP: app}


def _kept_days(settings: Settings) -> KeptDays:
    return KeptDays(*(getattr(settings, name) for name in KeptDays._fields))


@asynccontextmanager
async def _open_desk(
    settings: Settings,
    storage: Storage,
    api_key_cache: ApiKeyCache,
    metrics: Metrics | None,
    on_queued: Callable[[], None],
) -> AsyncIterator[Desk]:
    desk = Desk(
        open_executor(storage, partial(record_limits, settings), on_queued),
        most_waiting=settings.queue_limit,
        answer_within=settings.answer_within_seconds,
        observe=None if metrics is None else metrics.count_batch,
        listeners={RevokeApiKey: api_key_cache.clear},
    )
    try:
        yield desk
    finally:
        await desk.close()


def _serving_metrics(
    settings: Settings,
    storage: Storage,
    desk: Desk,
    metrics: Metrics | None,
    mailer: Mailer,
    *,
    is_clock_right: IsClockRight,
) -> AbstractContextManager[None]:
    address = settings.metrics_host_and_ports
    if metrics is None or address is None:
        return nullcontext()
    metrics.watch(desk, storage)
    metrics.watch_mails(mailer.counts)
    metrics.watch_clock(is_clock_right)
    return serving(metrics, storage, settings, *address)


@asynccontextmanager
async def _open_runner(
    storage: Storage, desk: Desk, counters: Counters, queue: Queue
) -> AsyncIterator[Runner]:
    """The thread pool of the administration pages; its threads start with the first page."""

    def wake_jobs(command: Command) -> None:
        if isinstance(command, StartImport | StartJob):
            queue.bell.ring()

    runner = Runner(storage, desk, count_calls=lambda: counters.calls, on_change=wake_jobs)
    try:
        yield runner
    finally:
        await runner.close()


def _build_admin(
    settings: Settings, runner: Runner, body_reader: BodyReader, counters: Counters, started_at: float
) -> ASGIApp:
    # Imported only when the first page is requested.
    from keywright.http.admin.app import build_app

    return build_app(settings, runner, body_reader, counters, started_at=started_at)


def _build_portal(settings: Settings, runner: Runner, body_reader: BodyReader) -> ASGIApp:
    from keywright.http.portal.app import build_app

    return build_app(settings, runner, body_reader)


def _build_site(
    settings: Settings, desk: Desk, admin_host: AdminHost, signatures: Signatures, storage: Storage
) -> ASGIApp:
    """The public pages: health, public keys and documentation."""
    routes = [
        *Health(desk, storage.watch.writing, write_error).routes,
        *Jwks(signatures, write_error).routes,
        *UnsubscribePage(desk, storage.key_ring, write_error).routes,
        *Documents(settings, admin_host.is_here).routes,
    ]
    site = Starlette(routes=routes, exception_handlers=exception_handlers(write_error))
    site.router.redirect_slashes = False
    return site
