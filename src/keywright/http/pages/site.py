"""The objects that all pages share, and the check of a page's right."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from jinja2 import Environment

from keywright.config import Settings
from keywright.http.middleware.body import BodyReader
from keywright.http.pages.formats import Languages
from keywright.http.pages.runner import Runner
from keywright.http.pages.session import BrowserSession
from keywright.identity.model import Right, may

#: The right of pages that are open to browsers without a signed-in user.
PUBLIC: Final = "public"
PageRight = Right | Literal["public"]


def has_right(browser: BrowserSession, needed: PageRight) -> bool:
    """Whether the signed-in user has this right. Every browser has ``PUBLIC``."""
    if isinstance(needed, Right):
        return browser.role is not None and may(browser.role, needed)
    return True


def may_open(browser: BrowserSession, needed: PageRight, *, is_for_enrolling: bool) -> bool:
    """Whether the browser may open a page that needs this right. A user who must set up a second factor first
    may open only the pages for that.
    """
    is_open = needed == PUBLIC or is_for_enrolling or not browser.must_enroll
    return is_open and has_right(browser, needed)


@dataclass(frozen=True)
class MenuItem:
    """A section in the menu, below the heading of its group. It is shown to users with any of ``rights``."""

    group: str
    label: str
    path: str
    icon: str
    rights: frozenset[PageRight]
    is_for_enrolling: bool


@dataclass(frozen=True, kw_only=True)
class Site:
    """The objects that all pages share."""

    settings: Settings
    runner: Runner
    templates: Environment
    menu: tuple[MenuItem, ...]
    languages: Languages
    #: Reads forms.
    body_reader: BodyReader
    #: Called with the time of each request of a signed-in user.
    on_visit: Callable[[datetime], None]
