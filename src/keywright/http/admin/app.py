"""Assemble the administration pages: sections, templates and static files in one application."""

from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp

from keywright.background.counters import Counters
from keywright.config import Settings
from keywright.core.errors import MethodNotAllowed, NoSuchAddress
from keywright.http.admin.sections.account import Account, SecondFactors, redirect_to_enrollment
from keywright.http.admin.sections.api_keys import ApiKeys
from keywright.http.admin.sections.brand import PortalAndBrand
from keywright.http.admin.sections.connections import Connections
from keywright.http.admin.sections.customers import Customers
from keywright.http.admin.sections.events import Events
from keywright.http.admin.sections.find import Find
from keywright.http.admin.sections.jobs import Jobs
from keywright.http.admin.sections.licenses.section import Licenses
from keywright.http.admin.sections.mails import Mails, MailTemplates
from keywright.http.admin.sections.notices import Notices
from keywright.http.admin.sections.overview import Overview, Start
from keywright.http.admin.sections.policies import Policies
from keywright.http.admin.sections.products import Products
from keywright.http.admin.sections.reports import Reports
from keywright.http.admin.sections.settings import SettingsPages
from keywright.http.admin.sections.sign_in import Invitation, SignIn, redirect_to_sign_in
from keywright.http.admin.sections.signing_keys import SigningKeys
from keywright.http.admin.sections.system import System
from keywright.http.admin.sections.users import Users
from keywright.http.admin.sections.webhooks import Webhooks
from keywright.http.admin.site import AdminSite
from keywright.http.admin.texts import FUNCTIONS, ROLE_TEXTS
from keywright.http.middleware.body import BodyReader
from keywright.http.pages.error_messages import NOT_ALLOWED, Message
from keywright.http.pages.formats import Languages, _
from keywright.http.pages.middleware import SessionMiddleware
from keywright.http.pages.once import KeptForm, read_unsent
from keywright.http.pages.page import Section, page
from keywright.http.pages.render import BASE, StaticFiles, build_environment
from keywright.http.pages.request import PageRequest
from keywright.http.pages.runner import Runner
from keywright.http.pages.session import BrowserSession
from keywright.http.pages.site import Site
from keywright.identity.model import Right
from keywright.search.statistics import RecentFigures


class OldAddresses(Section):
    """Redirects from the former paths of sections."""

    path = "/"
    in_menu = False
    right = Right.LOOK

    @page("/generators")
    def generators(self, request: PageRequest) -> Response:
        """Policies were called generators."""
        return request.redirect("/policies")

    @page("/names")
    def names(self, request: PageRequest) -> Response:
        """Products were a list of names."""
        return request.redirect("/products")

    @page("/names/customers")
    def customers(self, request: PageRequest) -> Response:
        """Customers were a list of names."""
        return request.redirect("/customers")


#: The sections, in the order of the menu; the sections of a group must be adjacent.
SECTIONS: tuple[type[Section], ...] = (
    Start,
    SignIn,
    Find,
    Invitation,
    Overview,
    Licenses,
    Customers,
    Products,
    Notices,
    Policies,
    Reports,
    Events,
    Jobs,
    Connections,
    Webhooks,
    ApiKeys,
    Mails,
    MailTemplates,
    PortalAndBrand,
    Users,
    SettingsPages,
    System,
    SigningKeys,
    Account,
    SecondFactors,
    OldAddresses,
)

_HERE = Path(__file__).parent
STATIC_FOLDER = _HERE / "static"
TEMPLATES = _HERE / "templates"
CATALOGS = _HERE / "locale"
#: Up to this many licenses are counted for every page with figures, instead of cached.
_COUNTED_EACH_TIME = 10_000


def build_app(
    settings: Settings, runner: Runner, body_reader: BodyReader, counters: Counters, *, started_at: float
) -> ASGIApp:
    """The application with all sections. Call it in a thread: it reads and compresses the static files."""
    static_files = StaticFiles(STATIC_FOLDER)
    figures = RecentFigures(few=_COUNTED_EACH_TIME, enqueue=runner.ask_soon)
    site = AdminSite(
        settings=settings,
        runner=runner,
        templates=build_environment(TEMPLATES, static_files.urls, **FUNCTIONS),
        menu=tuple(section.menu_item() for section in SECTIONS if section.in_menu),
        languages=Languages(CATALOGS),
        body_reader=body_reader,
        on_visit=figures.refresh,
        counters=counters,
        figures=figures,
        started_at=started_at,
    )
    routes = [route for section in SECTIONS for route in section(site).routes()]
    routes.append(Route("/static/{name}", static_files.serve))
    return Starlette(
        routes=[Mount(BASE, Router(routes, redirect_slashes=False))],
        middleware=[Middleware(SessionMiddleware, site)],
        exception_handlers={HTTPException: partial(_handle_http_exception, site)},
    )


async def _handle_http_exception(site: Site, request: Request, problem: Exception) -> Response:
    """Answer a request that failed with a status such as 403 or 404: with the sign-in, or an error page."""
    browser: BrowserSession = request.state.browser
    is_signed_out = isinstance(problem, HTTPException) and problem.status_code == 403 and browser.role is None
    unsent = await read_unsent(request, site, browser) if is_signed_out else None
    return await site.runner.run(partial(_refuse, PageRequest(site, request), problem, unsent))


def _refuse(request: PageRequest, problem: Exception, unsent: KeptForm | None) -> Response:
    assert isinstance(problem, HTTPException)  # noqa: S101
    if problem.status_code == 403:
        return _refuse_right(request, unsent)
    if problem.status_code == 405:
        allowed = (problem.headers or {}).get("Allow", "")
        return request.error_page(MethodNotAllowed(tuple(sorted(allowed.split(", ")))))
    return request.error_page(NoSuchAddress())


def _refuse_right(request: PageRequest, unsent: KeptForm | None) -> Response:
    role = request.browser.role
    if role is None:
        return redirect_to_sign_in(request, unsent)
    if request.browser.must_enroll:
        return redirect_to_enrollment(request)
    return request.message_page(Message(403, _(NOT_ALLOWED), _(ROLE_TEXTS[role])))
