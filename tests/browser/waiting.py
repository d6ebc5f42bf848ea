"""Wait for what a page does by itself."""

from collections.abc import Callable
from typing import TypeVar

from playwright.sync_api import Error, Page, expect

_Answer = TypeVar("_Answer")
_LEFT = "Execution context was destroyed"


def undisturbed(page: Page, ask: Callable[[], _Answer]) -> _Answer:
    """What is asked of the page: once more, if another page (or the same, loaded again) took its place while
    it was asked.
    """
    try:
        return ask()
    except Error as error:
        if _LEFT not in error.message:
            raise
    page.wait_for_load_state()
    return ask()


def follow(page: Page, link: str) -> None:
    """Follow the link with this name, and wait until its page is there."""
    with page.expect_navigation():
        page.get_by_role("link", name=link).click()


def wait_until_done(page: Page) -> None:
    """Wait until what the page follows is done: it has loaded itself again, and will not any more."""
    expect(page.locator("[data-refresh]")).to_have_count(0)
    page.wait_for_load_state()
