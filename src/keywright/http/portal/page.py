"""How the portal declares its pages, checks what they need and renders them."""

import logging
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from keywright.core.errors import Fault, KeywrightError, QueueFull
from keywright.http.pages import forms
from keywright.http.pages.formats import _, speaking
from keywright.http.pages.forms import Form
from keywright.http.pages.render import PORTAL
from keywright.http.pages.session import is_own_form
from keywright.http.portal.browser import PortalBrowser
from keywright.http.portal.request import PortalRequest, PortalSite
from keywright.http.portal.texts import Message, message_for, message_of

#: The longest form, in bytes.
_MAX_FORM = 16 * 1024

forms.register()
log = logging.getLogger(__name__)


class Needs(Enum):
    """What a page requires: nothing, a signed-in customer, or a license whose key was entered."""

    NOTHING = auto()
    CUSTOMER = auto()
    KEY = auto()


class Page(NamedTuple):
    """A page, its path relative to the portal's; ``make`` runs in a thread."""

    path: str
    make: Callable[[PortalRequest], Response]
    needs: Needs = Needs.NOTHING
    methods: tuple[str, ...] = ("GET",)


def route_of(site: PortalSite, page: Page) -> Route:
    """The route of a page."""
    return Route(
        f"{PORTAL}{page.path}", partial(_answer, site, page), methods=page.methods, name=page.make.__name__
    )


async def refuse(site: PortalSite, http: Request, problem: Exception) -> Response:
    """Return the error page for a request that matches no page."""
    status = problem.status_code if isinstance(problem, HTTPException) else 500
    browser = PortalBrowser(http, site.settings)
    request = PortalRequest(site, http, browser, None)
    return await _run(site, request, lambda one: one.message_page(message_of(status)))


async def _answer(site: PortalSite, page: Page, http: Request) -> Response:
    browser, form = PortalBrowser(http, site.settings), None
    if http.method != "POST":
        return await _run(site, PortalRequest(site, http, browser, None), partial(_make, page))
    try:
        form = await forms.read_form(
            http, site.body_reader, _MAX_FORM, address=browser.address, is_anonymous=True
        )
    except KeywrightError as problem:
        error = problem
        return await _run(site, PortalRequest(site, http, browser, Form()), lambda one: one.error_page(error))
    request = PortalRequest(site, http, browser, form)
    if not is_own_form(http, browser, form.get("csrf_token", "")):
        return await _run(site, request, _refuse_form)
    return await _run(site, request, partial(_make, page))


async def _run(
    site: PortalSite, request: PortalRequest, make: Callable[[PortalRequest], Response]
) -> Response:
    try:
        return await site.runner.run(partial(_speak, request, make))
    except QueueFull as full:
        # Plain text, because rendering a page would need a thread, too.
        return PlainTextResponse(message_for(full).sentence, 503, {"retry-after": "1"})


def _speak(request: PortalRequest, make: Callable[[PortalRequest], Response]) -> Response:
    """Render a page in the reader's language. Call it in a thread."""
    failure: KeywrightError | None = None
    try:
        request.browser.find_customer(request.site.runner)
    except KeywrightError as error:
        failure = error
    with speaking(request.language):
        return make(request) if failure is None else request.error_page(failure)


def _make(page: Page, request: PortalRequest) -> Response:
    """Return the page, or a redirect or error page in its place."""
    try:
        if page.needs is Needs.KEY:
            request.browser.find_license(request.site.runner)
            if request.browser.license is None:
                return _send_to(request, "/license")
        if page.needs is Needs.CUSTOMER and request.browser.customer is None:
            return _send_to(request, "")
        return page.make(request)
    except KeywrightError as error:
        if isinstance(error, Fault):
            log.warning("a page of the portal failed: %s", error.code)
        return request.error_page(error)
    except HTTPException:
        raise
    except Exception as problem:
        log.exception("a page of the portal raised an unexpected error", exc_info=problem)
        return request.error_page(Fault())


def _send_to(request: PortalRequest, path: str) -> Response:
    return request.redirect(
        path, _("Your session has ended. Please sign in again.") if request.is_post else ""
    )


def _refuse_form(request: PortalRequest) -> Response:
    sentence = _(
        "The form was open for too long, or your browser does not keep cookies. Please load the page again."
    )
    return request.message_page(Message(403, _("This form has expired"), sentence))
