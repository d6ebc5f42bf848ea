"""The frame around the pages: starlette-admin's registration of views, menu and mounting, and none of its
own pages, programs or files (see docs/decisions/017).
"""

import logging
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.templating import Jinja2Templates
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette_admin.auth import AdminUser, BaseAuthProvider
from starlette_admin.base import BaseAdmin

from keywright.core.errors import Fault, KeywrightError, MethodNotAllowed, NoSuchAddress, QueueFull
from keywright.http.admin.lazy_app import Door
from keywright.http.admin.sections.account import MAY, Account
from keywright.http.admin.sections.api_keys import ApiKeys
from keywright.http.admin.sections.events import Events
from keywright.http.admin.sections.generators import Generators
from keywright.http.admin.sections.jobs import Jobs
from keywright.http.admin.sections.licenses.section import Licenses
from keywright.http.admin.sections.names import Names
from keywright.http.admin.sections.overview import Home
from keywright.http.admin.sections.second_factor import SecondFactors, enroll_first
from keywright.http.admin.sections.sign_in import Entrance, Start, sign_in_first
from keywright.http.admin.sections.system import System
from keywright.http.admin.sections.users import Users
from keywright.http.pages import render as parts
from keywright.http.pages.error_messages import Said, say
from keywright.http.pages.page import Area, Visit
from keywright.http.pages.session import Visitor
from keywright.http.pages.static_files import Statics
from keywright.http.pages.urls import BASE
from keywright.search import RecentFigures

#: What the menu shows, from top to bottom.
AREAS: tuple[type[Area], ...] = (
    Home,
    Licenses,
    Generators,
    ApiKeys,
    Names,
    Jobs,
    Events,
    Users,
    System,
    Account,
    SecondFactors,
)


class Entry(NamedTuple):
    """A line of the menu."""

    label: str
    href: str
    icon: str
    is_current: bool


class Frame(BaseAdmin):
    """Every area of the pages, in one application."""

    def __init__(self, door: Door, areas: Sequence[type[Area]]) -> None:
        # It writes down what people search for.
        logging.getLogger("starlette_admin").setLevel(logging.WARNING)
        self.door = door
        self.statics = Statics()
        self.figures = RecentFigures(few=10_000, ask_soon=door.ask_soon)
        super().__init__(
            title="Keywright",
            base_url=BASE,
            index_view=Start(),
            auth_provider=_Doorkeeper(self),
            # It signs nothing: our cookies are bound to the visitor's token.
            secret_key=secrets.token_hex(32),
            timezone_config=None,
        )
        self.add_view(Entrance)
        for area in areas:
            self.add_view(area)

    def menu(self, request: Request, current: Area | None) -> list[Entry]:
        """The areas that the visitor may see."""
        return [
            Entry(view.menu_label, f"{BASE}{view.path}", view.icon or "dot", view is current)
            for view in self._views
            if isinstance(view, Area) and view.add_to_menu and view.is_accessible(request)
        ]

    def render(self, template: str, visit: Visit, area: Area | None, context: Mapping[str, Any]) -> str:
        """The HTML that the template makes of this and of what every page needs. In a thread."""
        visitor, here = visit.visitor, visit.request.url.path
        return self.templates.env.get_template(template).render(
            visit=visit,
            now=visit.now,
            user=None if visitor.signed_in is None else visitor.signed_in.user,
            menu=self.menu(visit.request, area) if visitor.signed_in is not None else (),
            area=area,
            here=here,
            # What answers a form cannot be asked for again.
            way_back=f"{BASE}{area.path}" if visit.is_post and area is not None else here,
            csrf_token=visitor.form_token,
            theme=parts.theme_of(visitor.cookies),
            **context,
        )

    async def say(self, request: Request, said: Said) -> Response:
        """A page with this sentence on it."""
        return await self.door.run(lambda: Visit(self, request).say(said))

    async def refuse(self, request: Request, error: KeywrightError) -> Response:
        """A page that says this error in a sentence."""
        return await self.door.run(lambda: Visit(self, request).refused(error))

    def _setup_templates(self) -> None:
        # Only our templates: neither starlette-admin's nor those of the current directory.
        self.templates = Jinja2Templates(env=parts.environment(self.statics.urls))

    def _init_csrf(self) -> None:
        """Ours is bound to the session, and looks at where a form comes from: see ``visitors``."""

    def _init_flash(self) -> None:
        """Ours is bound to the session: see ``flash``."""

    def _init_routes(self) -> None:
        # Nothing but our files, and none of the pages for models: import, export, inline edit and the like.
        self.routes.append(Route("/static/{name}", self.statics.answer))
        self._register_extra_routes(self.index_view)

    async def _render_error(self, request: Request, exc: Exception = HTTPException(500)) -> Response:  # noqa: B008
        """Whatever ended without a page."""
        return await self.door.run(partial(self._refused, request, exc))

    def _refused(self, request: Request, exc: Exception) -> Response:
        visit = Visit(self, request)
        role = visit.visitor.role
        if not isinstance(exc, HTTPException) or exc.status_code == 500:
            return visit.refused(Fault())
        if exc.status_code == 403:
            if role is None:
                return sign_in_first(visit)
            if visit.visitor.has_to_enroll:
                return enroll_first(visit)
            return visit.say(Said(403, "Your role does not allow this", MAY[role]))
        if exc.status_code == 405:
            allowed = (exc.headers or {}).get("Allow", "")
            return visit.refused(MethodNotAllowed(tuple(sorted(allowed.split(", ")))))
        return visit.refused(NoSuchAddress())


class _Doorkeeper(BaseAuthProvider):
    """Who is signed in, by our own sessions."""

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self._frame = frame

    async def authenticate(self, request: Request) -> AdminUser | None:
        """Remember in the request who asks; returns them when they are signed in."""
        door = self._frame.door
        request.state.visitor = visitor = Visitor(request, door.settings)
        if not visitor.token or request.url.path.startswith(f"{BASE}/static/"):
            return None
        await door.run(partial(visitor.look_up, door))
        if visitor.signed_in is not None:
            self._frame.figures.renew(visitor.now)
        return None if visitor.signed_in is None else AdminUser(visitor.signed_in.user.name)

    async def refuse(self, request: Request, error: KeywrightError) -> Response:
        """A page that says why it cannot be said who asks."""
        return await self._frame.refuse(request, error)

    def get_middleware(self) -> Middleware:
        """Asks ``authenticate``, and leaves it to each page whether that is enough."""
        return Middleware(_Gate, self)


class _Gate:
    """Looks who comes, before the page is looked for."""

    def __init__(self, app: ASGIApp, keeper: _Doorkeeper) -> None:
        self._app = app
        self._keeper = keeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        has_begun = False

        async def send_and_see(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._keeper.authenticate(request)
            await self._app(scope, receive, send_and_see)
        except KeywrightError as error:
            if has_begun:
                # Half a file: nothing can be said any more but that by breaking off.
                raise
            await (await self._said(request, error))(scope, receive, send)

    async def _said(self, request: Request, error: KeywrightError) -> Response:
        try:
            if isinstance(error, QueueFull):
                raise error
            # The database does not even say who it is.
            return await self._keeper.refuse(request, error)
        except QueueFull:
            # Not even a page can be made that says so.
            return PlainTextResponse(say(QueueFull()).sentence, 503, {"retry-after": "1"})


def build(door: Door) -> ASGIApp:
    """The application with all the pages. In a thread."""
    frame = Frame(door, AREAS)
    host = Starlette()
    frame.mount_to(host)
    frame.app.router.redirect_slashes = host.router.redirect_slashes = False
    return host
