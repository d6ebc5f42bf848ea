"""What templates can use: see ``templates/parts.html``, whose macros stand on these functions."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import Response

from keywright import __version__
from keywright.core import crypto
from keywright.core.parsing import write_time
from keywright.http.pages.urls import BASE
from keywright.identity.model import User
from keywright.identity.rights import Right, may
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.licenses.rules import is_expired

_TEMPLATES = Path(__file__).parents[1] / "admin" / "templates"
THEMES = ("light", "dark", "system")
_THEME_COOKIE = "keywright_theme"
_THEME_KEPT = 365 * 24 * 3600

#: The size of a chart, in units of its own.
_CHART_WIDTH, _CHART_HEIGHT = 600, 120


def environment(statics: Mapping[str, str]) -> Environment:
    """Our templates, and what they can use."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(
        url=url,
        static=lambda name: statics[name],
        state_of=state_of,
        bars_of=bars_of,
        allows=allows,
        Right=Right,
        version=__version__,
    )
    made.filters.update(browser=browser_of, mask=crypto.mask, utc=write_time, iso=_iso, number=_number)
    return made


def url(path: str, **query: object) -> str:
    """The address of a page of ours: ``url("/licenses", status="sold", cursor=None)``. What is None or empty
    is left out.
    """
    given = [(name, value) for name, value in query.items() if value not in (None, "")]
    return f"{BASE}{path}" + (f"?{urlencode(given)}" if given else "")


def allows(user: User | None, right: Right) -> bool:
    """Whether the user has the right."""
    return user is not None and may(user.role, right)


def theme_of(cookies: Mapping[str, str]) -> str:
    """What the visitor wants: ``light``, ``dark``, or ``system``."""
    wanted = cookies.get(_THEME_COOKIE, "")
    return wanted if wanted in THEMES else "system"


def keep_theme(response: Response, theme: str, *, is_secure: bool) -> None:
    """Have the browser remember this; admin.js reads and writes the same cookie."""
    if theme in THEMES:
        response.set_cookie(
            _THEME_COOKIE, theme, max_age=_THEME_KEPT, path=BASE, samesite="lax", secure=is_secure
        )


def state_of(license: License, now: datetime) -> str:
    """What a license is called in one word: its status, or ``expired`` where that says more."""
    status = Status(license.status)
    is_usable = status not in (Status.DISABLED, Status.INACTIVE)
    return "expired" if is_usable and is_expired(license, now) else status.name.lower()


class Bar(NamedTuple):
    """A bar of a chart, in the chart's units."""

    x: float
    y: float
    width: float
    height: float
    day: date
    amount: int


class Chart(NamedTuple):
    """Bars, and what is said about them."""

    bars: Sequence[Bar]
    width: int
    height: int
    most: int
    total: int


def bars_of(points: Sequence[tuple[date, int]]) -> Chart:
    """A chart of an amount a day."""
    most = max((amount for _, amount in points), default=0)
    step = _CHART_WIDTH / max(1, len(points))
    room = _CHART_HEIGHT - 2
    bars = []
    for place, (day, amount) in enumerate(points):
        # What is not nothing can be seen.
        height = max(2.0, room * amount / most) if amount else 0.0
        bars.append(
            Bar(
                round(place * step + step * 0.15, 1),
                round(_CHART_HEIGHT - height, 1),
                round(step * 0.7, 1),
                round(height, 1),
                day,
                amount,
            )
        )
    total = sum(amount for _, amount in points)
    return Chart(bars, _CHART_WIDTH, _CHART_HEIGHT, most, total)


#: How browsers and systems name themselves; the first that fits. Each says that it is others, too.
_BROWSERS = {"Edg/": "Edge", "OPR/": "Opera", "Firefox/": "Firefox", "Chrome/": "Chrome", "Safari/": "Safari"}
_SYSTEMS = {
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Windows": "Windows",
    "Mac OS": "macOS",
    "Linux": "Linux",
}


def browser_of(user_agent: str) -> str:
    """``Firefox on Windows``; what nobody knows as it is, but not for long."""
    browser = next((name for mark, name in _BROWSERS.items() if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS.items() if mark in user_agent), "")
    if browser:
        return f"{browser} on {system}" if system else browser
    return user_agent[:60] or "unknown"


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _number(value: Any) -> str:
    """12,345"""
    return f"{value:,}"
