"""An overview whose figures are old, as with very many licenses."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from keywright.licensing.licenses.model import CreateLicense, Status
from tests.browser.axe import Axe
from tests.browser.camera import Camera
from tests.browser.people import sign_in
from tests.browser.watching import a_visitor
from tests.http import admin_altered
from tests.http.admin_browser import asked, decide, make_users
from tests.server import RunningServer, running

#: Counts every change that a user could see or hear.
_WATCH = """() => {
    window.changes = 0;
    const seen = ({target}) => !(target.nodeType === 1 ? target : target.parentElement).closest("[hidden]");
    new MutationObserver((found) => (window.changes += found.filter(seen).length)).observe(
        document.body, {subtree: true, childList: true, characterData: true, attributes: true});
}"""


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[RunningServer]:
    """A server that counts only while a file allows it."""
    program = admin_altered.altered(admin_altered.count_when_told)
    (tmp_path / admin_altered.MAY_COUNT).touch()
    with running(tmp_path / "data", program=program) as server:
        make_users(server)
        a_license(server, "THE-FIRST")
        yield server


def a_license(server: RunningServer, key: str) -> None:
    decide(server, CreateLicense(**asked(key=key, status=Status.ACTIVE)))


def wait_for_old_figures(page: Page) -> None:
    while page.get_by_text("a new count is running").count() == 0:
        page.goto("/admin/overview")


def test_old_figures_become_new_ones_without_a_word_until_then(
    slow: RunningServer, browser: Browser, axe: Axe, camera: Camera
) -> None:
    may_count = slow.data_dir.parent / admin_altered.MAY_COUNT
    with a_visitor(browser, slow.base_url) as carol:
        page = carol.page
        sign_in(page, "carol")
        page.goto("/admin/overview")
        may_count.unlink()
        a_license(slow, "THE-SECOND")
        wait_for_old_figures(page)
        total = page.locator(".stat").filter(has_text="Licenses")
        expect(total).to_contain_text("1")
        axe.check(page)
        camera.take(page, "overview-old")
        page.evaluate(_WATCH)
        for _ in range(3):
            with page.expect_response("**/overview/counted"):
                pass
        assert page.evaluate("window.changes") == 0
        expect(page.locator("#content [aria-live], #content [role=status]")).to_have_count(0)
        may_count.touch()
        expect(total).to_contain_text("2")
        expect(page.get_by_text("a new count is running")).to_have_count(0)
