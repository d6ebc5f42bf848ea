"""Every page that links lead to, for each role; new pages need not be added here."""

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

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


_LOST = """() => {
    const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
    const forms = [...document.querySelectorAll("main .card form[action]:not(.card)")];
    const lost = forms.filter((one) => !ids.includes(decodeURIComponent(new URL(one.action).hash.slice(1))));
    return [...ids.filter((id, at) => ids.indexOf(id) !== at), ...lost.map((one) => one.action)];
}"""

_UNEVEN = """() => {
    const width = (row) => [...row.cells].reduce((sum, cell) => sum + cell.colSpan, 0);
    const rows = [...document.querySelectorAll("main table")].flatMap((table) =>
        [...table.tBodies].flatMap((body) => [...body.rows]).filter(
            (row) => table.tHead && width(row) !== width(table.tHead.rows[0])));
    return rows.map((row) => row.closest("table").innerText.slice(0, 80));
}"""


@pytest.mark.parametrize("name", ROLES)
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


def test_a_form_comes_back_to_its_place_without_scripts(
    busy_server: RunningServer, signed_in: SignedIn
) -> None:
    page = signed_in("ada", has_scripts=False).page
    page.set_viewport_size({"width": 390, "height": 500})
    checks = Checks()
    for path, name in (
        ("/users/2", "Change role"),
        ("/policies", "Archive"),
        ("/policies", "Unarchive"),
        ("/mails", "Send again"),
        ("/webhooks/1", "Enable"),
        ("/webhooks/1", "Disable"),
        ("/account", "Save"),
    ):
        checks.run(check_place, page, path, name)
    checks.assert_passed()


def check_place(page: Page, path: str, name: str) -> None:
    """After a press of this button, the page shows the message, and the place that its address names."""
    page.goto(f"/admin{path}")
    page.locator("main").get_by_role("button", name=name).last.click()
    place = unquote(urlsplit(page.url).fragment)
    assert place, page.url
    expect(page.locator(f"[id='{place}']")).to_be_in_viewport()
    expect(page.locator(".flash")).to_be_in_viewport()


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
    """The page has one heading of level 1, one main part, a title, a heading for each column, and no inline
    style.
    """
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    expect(page.get_by_role("main")).to_have_count(1)
    assert page.title().endswith(" · Keywright"), page.url
    lost = page.evaluate(_LOST)
    assert lost == [], f"{page.url} has ids twice, or forms that do not come back to their place: {lost}"
    uneven = page.evaluate(_UNEVEN)
    assert uneven == [], f"{page.url} has rows with more or fewer cells than headings: {uneven}"
    assert page.locator("[style]").count() == 0, f"{page.url} has a style that the browser does not apply"
