"""Which pages a browser may open."""

from typing import Final, Literal

from keywright.http.pages.session import BrowserSession
from keywright.identity.model import Right, may

#: The right of pages that need no user.
PUBLIC: Final = "public"
PageRight = Right | Literal["public"]


def has_right(browser: BrowserSession, needed: PageRight) -> bool:
    """Whether the user who is signed in has this right; every browser has ``PUBLIC``."""
    if isinstance(needed, Right):
        return browser.role is not None and may(browser.role, needed)
    return True


def may_open(browser: BrowserSession, needed: PageRight, *, is_for_enrolling: bool) -> bool:
    """The same, but a user who must set up a second factor first may only open pages for that."""
    is_open = needed == PUBLIC or is_for_enrolling or not browser.must_enroll
    return is_open and has_right(browser, needed)
