"""The environment of the templates: the functions and filters that they can use, see templates/parts.html."""

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment
from starlette.responses import Response

from keywright import __version__
from keywright.core import crypto
from keywright.core.parsing import write_time
from keywright.http.pages import formats
from keywright.http.pages.languages import _
from keywright.http.pages.templates import open_templates
from keywright.http.pages.urls import BASE, url
from keywright.http.pages.zones import last_second
from keywright.identity.model import Right, User, may

THEMES = ("light", "dark", "system")
_THEME_COOKIE = "keywright_theme"
_THEME_MAX_AGE = 365 * 24 * 3600


def build_environment(
    templates: Path, static_urls: Mapping[str, str], **functions: Callable[..., Any]
) -> Environment:
    """The environment for the templates in this folder, which may call these functions, too, or use them as
    filters, which is quicker.
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
        ago=formats.write_ago,
        second_before=last_second,
    )
    return environment


def has_right(user: User | None, right: Right) -> bool:
    """Whether the user has the right."""
    return user is not None and may(user.role, right)


def theme_of(cookies: Mapping[str, str]) -> str:
    """The theme that the browser remembers: ``light``, ``dark``, or ``system``."""
    theme = cookies.get(_THEME_COOKIE, "")
    return theme if theme in THEMES else "system"


def save_theme(response: Response, theme: str, *, is_secure: bool) -> None:
    """Have the browser remember the theme; admin.js reads and writes the same cookie."""
    if theme in THEMES:
        response.set_cookie(
            _THEME_COOKIE, theme, max_age=_THEME_MAX_AGE, path=BASE, samesite="lax", secure=is_secure
        )


#: The marks of browsers and systems in a User-Agent. The first match counts, because each also names others.
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
    """``Firefox on Windows``; an unknown User-Agent as it is, shortened."""
    browser = next((name for mark, name in _BROWSERS.items() if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS.items() if mark in user_agent), "")
    if browser:
        return _("%(browser)s on %(system)s", browser=browser, system=system) if system else browser
    return user_agent[:60] or _("unknown")


def _iso(moment: datetime) -> str:
    return f"{moment.isoformat()[:19]}Z"
