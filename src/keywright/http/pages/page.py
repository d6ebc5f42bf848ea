"""Pages and sections: a section is a class, and each page a method marked with ``@page``."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from keywright.core.errors import Fault, KeywrightError
from keywright.http.pages import forms
from keywright.http.pages.error_messages import Message
from keywright.http.pages.formats import _
from keywright.http.pages.forms import Form
from keywright.http.pages.request import PageRequest
from keywright.http.pages.session import BrowserSession, is_own_form
from keywright.http.pages.site import PUBLIC, MenuItem, PageRight, Site, may_open

#: The longest form on a page for ``PUBLIC``, in bytes: a password may be long.
_MAX_PUBLIC_FORM = 16 * 1024
#: The most bytes in a form with a file, besides the file.
_MAX_AROUND_FILE = 16 * 1024

#: The attribute of a method marked with ``@page``: a function that builds its ``Page`` for a section.
_BUILD_PAGE = "build_page"

Method = Callable[[Any, PageRequest], Response]

log = logging.getLogger(__name__)


class Page(NamedTuple):
    """A page of a section: its path below the section's, and the right that it needs.

    ``checks_passwords``: a browser without a signed-in user can make the server check a password; such forms
    wait in a separate queue. ``max_upload``: the size of the largest file in the form, in bytes; 0 means that
    the form has no files. ``asks_provider``: the page waits for the company's provider, in a separate queue.
    """

    method: Method
    path: str
    http_methods: tuple[str, ...]
    right: PageRight
    checks_passwords: bool
    max_upload: int = 0
    asks_provider: bool = False


def page(
    path: str,
    *,
    methods: Sequence[str] = ("GET",),
    right: PageRight | None = None,
    checks_passwords: bool = False,
    max_upload: int = 0,
    asks_provider: bool = False,
) -> Callable[[Method], Method]:
    """Make a method of a ``Section`` the page at this path below the section's.

    GET includes HEAD. A POST reaches the method only if one of these pages sent the form. ``right`` replaces
    the section's; the other arguments are those of ``Page``.
    """

    def mark(method: Method) -> Method:
        def build(section: type[Section]) -> Page:
            needed = right or section.right
            if needed is None:
                raise TypeError(f"{section.__name__}.{method.__name__} is a page without a right")
            return Page(method, path, tuple(methods), needed, checks_passwords, max_upload, asks_provider)

        setattr(method, _BUILD_PAGE, build)
        return method

    return mark


class Section:
    """A part of the site, with an entry in the menu unless ``in_menu`` is False.

    Its pages are methods marked with ``@page``. They take a ``PageRequest``, return a response and run in a
    thread. Defining a class raises ``TypeError`` if neither a page nor its section has a right.
    """

    #: The text of its menu entry, marked by ``N_``.
    label: ClassVar[str]
    path: ClassVar[str]
    #: The heading of its group in the menu, marked by ``N_``; "" for none.
    group: ClassVar[str] = ""
    #: The name of its icon in templates/icons.html.
    icon: ClassVar[str] = "dot"
    in_menu: ClassVar[bool] = True
    right: ClassVar[PageRight | None] = None
    #: Whether users who must set up a second factor first may open it.
    is_for_enrolling: ClassVar[bool] = False
    #: The pages, by the names of their methods.
    pages: ClassVar[Mapping[str, Page]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        builders = {name: getattr(getattr(cls, name), _BUILD_PAGE, None) for name in dir(cls)}
        cls.pages = {name: build(cls) for name, build in builders.items() if build is not None}

    def __init__(self, site: Site) -> None:
        self.site = site

    @classmethod
    def menu_item(cls) -> MenuItem:
        """The section's entry in the menu."""
        rights = frozenset(page.right for page in cls.pages.values())
        return MenuItem(cls.group, cls.label, cls.path, cls.icon, rights, cls.is_for_enrolling)

    def routes(self) -> list[Route]:
        """One route per page."""
        return [
            Route(
                f"{self.path.rstrip('/')}{page.path}" or "/",
                partial(_answer, self, page),
                methods=page.http_methods,
                name=f"{type(self).__name__}.{name}",
            )
            for name, page in self.pages.items()
        ]

    def is_known_browser(self, request: PageRequest) -> bool:
        """Whether the user named in a form has signed in with this browser before. Such forms do not share a
        queue with those of unknown browsers.
        """
        return False


forms.register()


def _require_right(section: Section, page: Page, browser: BrowserSession) -> None:
    """Raise ``HTTPException`` 403 if the user may not open the page."""
    if not may_open(browser, page.right, is_for_enrolling=section.is_for_enrolling):
        raise HTTPException(403)


async def _answer(section: Section, page: Page, http: Request) -> Response:
    """Answer a request for this page."""
    browser: BrowserSession = http.state.browser
    _require_right(section, page, browser)
    runner = section.site.runner
    query = forms.parse_query(http)
    form = Form()
    if http.method == "POST":
        form = await _read_form(section.site, page, http)
        token = http.headers.get("x-csrf-token") or form.get("csrf_token", "")
        if not is_own_form(http, browser, token):
            request = PageRequest(section.site, http)
            return await runner.run(partial(_refuse_form, request))
    request = PageRequest(section.site, http, section.path, query=query, form=form)
    work = partial(_run, section, page, request)
    if page.asks_provider:
        return await runner.run_company_sign_in(work)
    if not (request.is_post and page.checks_passwords):
        return await runner.run(work)
    # Only a browser with a device mark can be known; a flood of requests without marks causes no queries.
    is_known = bool(browser.device_mark) and await runner.run(partial(section.is_known_browser, request))
    return await runner.run_sign_in(work, is_known=is_known)


async def _read_form(site: Site, page: Page, http: Request) -> Form:
    limit = site.settings.body_limit
    if page.right == PUBLIC:
        limit = min(limit, _MAX_PUBLIC_FORM)
    elif page.max_upload:
        limit = page.max_upload + _MAX_AROUND_FILE
    browser: BrowserSession = http.state.browser
    return await forms.read_form(
        http,
        site.body_reader,
        limit,
        address=browser.address,
        is_anonymous=browser.signed_in is None,
        has_files=page.max_upload > 0,
    )


def _run(section: Section, page: Page, request: PageRequest) -> Response:
    """The page's response, or an error page. Runs in a thread."""
    try:
        if request.is_post:
            # While the form arrived, the user's role may have changed, or the session ended.
            request.browser.find_user(section.site.runner)
            _require_right(section, page, request.browser)
        return page.method(section, request)
    except KeywrightError as error:
        if isinstance(error, Fault):
            log.warning("a page failed: %s", error.code)
        return request.error_page(error)
    except HTTPException:
        raise
    except Exception as problem:
        log.exception("a page raised an unexpected error", exc_info=problem)
        sentence = _(
            "The server failed. Check whether your change was made. The server's log has the details."
        )
        return request.message_page(Message(500, _("Something went wrong"), sentence))


def _refuse_form(request: PageRequest) -> Response:
    sentence = _(
        "The form was open for too long, or your browser does not keep cookies. Load the page again, and "
        "send the form again."
    )
    return request.message_page(Message(403, _("This form is no longer valid"), sentence))
