"""Every page that links lead to, for each role; new pages need not be added here."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import Axe
from tests.browser.camera import DESK, PHONE, Camera, check_fits, viewport
from tests.browser.checks import Checks
from tests.browser.walking import kind, menu, name_of, walk
from tests.browser.watching import Visitor
from tests.http.admin_browser import ROLES
from tests.server import RunningServer

SignedIn = Callable[..., Visitor]
#: All that bob's pages have is on those of ada; his are German, whose words are longer, and have no scripts.
_HOW: dict[str, dict[str, Any]] = {"bob": {"has_scripts": False, "locale": "de-DE"}}


@pytest.mark.parametrize("name", ROLES)
@pytest.mark.timeout(300)
def test_every_page_is_accessible_and_fits_on_a_phone(
    busy_server: RunningServer, signed_in: SignedIn, axe: Axe, camera: Camera, name: str
) -> None:
    page, checks = signed_in(name, **_HOW.get(name, {})).page, Checks()
    seen: set[str] = set()
    for address in walk(page):
        checks.run(check_outline, page)
        if kind(address)[0] in seen:
            # The same list, of something else.
            checks.run(check_fits, page)
            continue
        seen.add(kind(address)[0])
        if name != "bob":
            checks.run(axe.check, page)
        if name == "ada":
            checks.run(check_on_a_phone, page, axe)
            checks.run(check_contrast_in_the_dark, page, axe)
            checks.run(camera.take, page, name_of(address))
        else:
            checks.run(check_fits, page)
    assert seen.issuperset(menu(page))
    checks.assert_passed()


def test_what_is_not_there_or_not_allowed_is_said_on_a_page(
    signed_in: SignedIn, axe: Axe, camera: Camera
) -> None:
    carol, ada = signed_in("carol"), signed_in("ada")
    for one in (carol, ada):
        one.page.goto("/admin/account")
    for_ada = menu(ada.page)
    carol.watch.expect(403, 404)
    refused = [(path, 403) for path in for_ada if path not in menu(carol.page)]
    for path, status in [("/admin/nothing-here", 404), *refused]:
        answer = carol.page.goto(path)
        assert answer is not None
        assert answer.status == status, path
        check_outline(carol.page)
        expect(carol.page.get_by_role("navigation", name="Main menu")).to_be_visible()
    axe.check(carol.page)
    camera.take(carol.page, "refused")


def check_on_a_phone(page: Page, axe: Axe) -> None:
    """Check it as it is laid out on a phone."""
    with viewport(page, PHONE):
        axe.check(page)


def check_contrast_in_the_dark(page: Page, axe: Axe) -> None:
    """Check the contrast of dark colors; everything else is the same as in light ones."""
    with viewport(page, DESK, "dark"):
        axe.check(page, only=["color-contrast"])


def check_outline(page: Page) -> None:
    """The page has one heading of level 1, one main part, a title, and no inline style."""
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    expect(page.get_by_role("main")).to_have_count(1)
    assert page.title().endswith(" · Keywright"), page.url
    assert page.locator("[style]").count() == 0, f"{page.url} has a style that the browser does not apply"
