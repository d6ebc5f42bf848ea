"""Which pages a browser may open."""

from typing import Final, Literal

from keywright.http.pages.session import BrowserSession
from keywright.identity.rights import Right, may

#: The right of pages that need no user.
EVERYBODY: Final = "everybody"
Needed = Right | Literal["everybody"]


def has_right(browser: BrowserSession, needed: Needed) -> bool:
    """Whether the user who is signed in has this right; everybody has ``EVERYBODY``."""
    if isinstance(needed, Right):
        return browser.role is not None and may(browser.role, needed)
    return True


def may_open(browser: BrowserSession, needed: Needed, *, is_for_enrolling: bool) -> bool:
    """The same, but a user who must set up a second factor first may only open pages for that."""
    is_open = needed == EVERYBODY or is_for_enrolling or not browser.must_enroll
    return is_open and has_right(browser, needed)
