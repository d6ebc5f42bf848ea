"""Static files, and the environment of the templates with its functions and filters.

The name of each static file contains the hash of its content, so that browsers may cache it indefinitely.
Files are compressed once and served from memory.
"""

import gzip
import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from keywright import __version__
from keywright.core import crypto
from keywright.core.parsing import write_time
from keywright.http.pages import formats
from keywright.http.pages.formats import _, last_second
from keywright.identity.model import Right, User, may

if TYPE_CHECKING:
    from jinja2 import Environment

#: The path of the administration pages.
BASE = "/admin"
#: The path of the customer portal.
PORTAL = "/portal"


def url(path: str, **query: object) -> str:
    """The address of an administration page: ``url("/licenses", status="sold", cursor=None)``. Parameters
    that are None or empty are omitted.
    """
    parameters = [(name, value) for name, value in query.items() if value not in (None, "")]
    return f"{BASE}{path}" + (f"?{urlencode(parameters)}" if parameters else "")


#: The stylesheet with the colors and fonts that all pages share.
LOOK = Path(__file__).with_name("look.css")
_CACHE_HEADERS = {"cache-control": "public, max-age=31536000, immutable", "vary": "accept-encoding"}
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class _File(NamedTuple):
    media_type: str
    etag: str
    plain: bytes
    compressed: bytes


class StaticFiles:
    """Serves the files in a folder, and ``LOOK``. Create it in a thread: compression is slow."""

    def __init__(self, folder: Path, base: str = BASE) -> None:
        """``base`` is the path of the site."""
        self._files: dict[str, _File] = {}
        #: The address of each file by its name without the hash, for templates.
        self.urls: dict[str, str] = {}
        for path in (LOOK, *sorted(folder.iterdir())):
            content = path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:12]
            name = f"{path.name.split('.')[0]}.{digest}{path.suffix}"
            compressed = gzip.compress(content, 9, mtime=0)
            self._files[name] = _File(_MEDIA_TYPES[path.suffix], f'"{digest}"', content, compressed)
            self.urls[path.name] = f"{base}/static/{name}"

    async def serve(self, request: Request) -> Response:
        """The file of this name, compressed if the browser accepts gzip."""
        file = self._files.get(request.path_params["name"])
        if file is None:
            return Response("There is no such file.\n", 404, media_type="text/plain")
        headers = {**_CACHE_HEADERS, "etag": file.etag}
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(
                file.compressed, headers={**headers, "content-encoding": "gzip"}, media_type=file.media_type
            )
        return Response(file.plain, headers=headers, media_type=file.media_type)


def open_templates(folder: Path) -> "Environment":
    """This folder's templates: values are escaped, and undefined names raise ``UndefinedError``."""
    # Imported late: a server whose pages are never opened does not load Jinja.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    # Line ends in {% trans %} become spaces; the functions below insert the values.
    environment.policies["ext.i18n.trimmed"] = True
    vars(environment).update(newstyle_gettext=True)
    environment.globals.update(
        _=formats.gettext,
        gettext=formats.gettext,
        ngettext=formats.ngettext,
        pgettext=formats.pgettext,
        language=formats.current_language,
    )
    return environment


_ROW_OR_FORM = re.compile(r'<tr id="([^"]*)|</tr|<form [^>]*? action="[^"#]*(?=")')


def keep_place(html: Markup, place: str | None, title: str | None) -> tuple[Markup, str | None]:
    """Add a fragment to the address of each form in a card: the ID of its table row, or else of the card.

    Returns the content and the card's ID: ``place``, or one derived from the title if the card has forms, or
    None. The redirect that answers a form inherits the fragment (RFC 9110, 10.2.2): the browser scrolls to
    the element with this ID, if the page has one.
    """
    made = "-".join(re.findall(r"\w+", title.lower())) if title else "list"
    at, has_forms = place or made, False

    def add(found: re.Match[str]) -> str:
        nonlocal at, has_forms
        if not found[0].startswith("<form"):
            at = found[1] or place or made
            return found[0]
        has_forms = True
        return f"{found[0]}#{at}"

    marked = Markup(_ROW_OR_FORM.sub(add, html))  # noqa: S704
    return marked, place or (made if has_forms else None)


THEMES = ("light", "dark", "system")
_THEME_COOKIE = "keywright_theme"
_THEME_MAX_AGE = 365 * 24 * 3600


def build_environment(
    templates: Path, static_urls: Mapping[str, str], **functions: Callable[..., Any]
) -> "Environment":
    """The environment for the templates in this folder. They can use ``functions`` as functions, or as
    filters, which is faster.
    """
    environment = open_templates(templates)
    environment.globals.update(
        functions,
        url=url,
        static=lambda name: static_urls[name],
        has_right=has_right,
        Right=Right,
        version=__version__,
    )
    environment.filters.update(
        functions,
        translated=_,
        first_upper=lambda text: text[:1].upper() + text[1:],
        browser=browser_name,
        mask=crypto.mask,
        utc=write_time,
        iso=_iso,
        number=formats.write_number,
        moment=formats.write_moment,
        day=formats.write_day,
        short_day=formats.write_short_day,
        month=formats.write_month,
        ago=formats.write_ago,
        clock=formats.write_clock,
        is_near=formats.is_near,
        second_before=last_second,
        keep_place=keep_place,
    )
    return environment


def has_right(user: User | None, right: Right) -> bool:
    """Whether the user has the right."""
    return user is not None and may(user.role, right)


def theme_of(cookies: Mapping[str, str]) -> str:
    """The theme in the browser's cookies: ``light``, ``dark``, or ``system``."""
    theme = cookies.get(_THEME_COOKIE, "")
    return theme if theme in THEMES else "system"


def save_theme(response: Response, theme: str, *, is_secure: bool) -> None:
    """Store the theme in a cookie, which admin.js also reads and writes."""
    if theme in THEMES:
        response.set_cookie(
            _THEME_COOKIE, theme, max_age=_THEME_MAX_AGE, path=BASE, samesite="lax", secure=is_secure
        )


#: What identifies browsers and systems in a User-Agent. The first match counts: most name others, too.
_BROWSERS = {"Edg/": "Edge", "OPR/": "Opera", "Firefox/": "Firefox", "Chrome/": "Chrome", "Safari/": "Safari"}
_SYSTEMS = {
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Windows": "Windows",
    "Mac OS": "macOS",
    "Linux": "Linux",
}


def browser_name(user_agent: str) -> str:
    """The browser that a User-Agent names: ``Firefox on Windows``. An unknown User-Agent is truncated."""
    browser = next((name for mark, name in _BROWSERS.items() if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS.items() if mark in user_agent), "")
    if browser:
        return _("%(browser)s on %(system)s", browser=browser, system=system) if system else browser
    return user_agent[:60] or _("unknown")


def _iso(moment: datetime) -> str:
    return f"{moment.isoformat()[:19]}Z"
