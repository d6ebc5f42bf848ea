"""The frame of every page: colors, the menu on a phone, the keyboard, time zones, and no scripts."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import Axe
from tests.browser.camera import PHONE, Camera, viewport
from tests.browser.checks import Checks
from tests.browser.people import sign_in
from tests.browser.watching import Visitor, a_visitor
from tests.http.admin_browser import PASSWORD
from tests.server import RunningServer

SignedIn = Callable[[str], Visitor]

# Collects every background color, from the first frame on.
_EVERY_FRAME = """(() => {
    window.seen = new Set();
    const look = () => {
        if (document.body) window.seen.add(getComputedStyle(document.body).backgroundColor);
        requestAnimationFrame(look);
    };
    look();
})();"""
_HAS_RING = """() => {
    const style = getComputedStyle(document.activeElement);
    return style.boxShadow !== "none" || (style.outlineStyle !== "none" && style.outlineWidth !== "0px");
}"""


def brightness(page: Page) -> int:
    """The brightness of the background, from 0 to 255."""
    color: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in re.findall(r"\d+", color)[:3]) // 3


def focused(page: Page) -> str:
    """The text of the element with the focus."""
    name: str = page.evaluate(
        "(document.activeElement.ariaLabel || document.activeElement.textContent || '').trim()"
    )
    return re.sub(r"\s+", " ", name)


def tab_to(page: Page, name: str) -> list[str]:
    """Press Tab until this element has the focus; returns the elements on the way."""
    passed: list[str] = []
    while not passed or name not in passed[-1]:
        assert len(passed) < 100, f"Tab does not lead to {name}: {passed}"
        page.keyboard.press("Tab")
        passed.append(focused(page))
    return passed


def test_light_and_dark_stay_as_they_were_chosen(signed_in: SignedIn) -> None:
    page = signed_in("carol").page
    page.goto("/admin/account")
    page.add_init_script(_EVERY_FRAME)
    for system in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if system == "dark" else "light")
        for chosen in ("dark", "light", "system"):
            page.get_by_role("button", name=f"{chosen.capitalize()} colors").click()
            expect(page.get_by_role("button", name=f"{chosen.capitalize()} colors")).to_have_attribute(
                "aria-pressed", "true"
            )
            page.reload()
            is_dark = "dark" in (chosen, system if chosen == "system" else "")
            assert (brightness(page) < 100) is is_dark
            # No frame had another color.
            assert page.evaluate("window.seen.size") == 1


def test_dark_at_the_first_visit_for_whose_system_is_dark(visitor: Visitor) -> None:
    visitor.page.emulate_media(color_scheme="dark")
    visitor.page.goto("/admin/sign-in")
    assert brightness(visitor.page) < 100


def test_everything_can_be_reached_with_the_keyboard(visitor: Visitor) -> None:
    page = visitor.page
    page.goto("/admin/sign-in")
    # The name has the focus already; or nearly: the page may be there a moment before.
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.type("ada")
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Sign out", exact=True)).to_be_visible()

    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the content"
    expect(page.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()

    page.goto("/admin/account")
    wanted = page.get_by_role("navigation", name="Main menu").get_by_role("link").all_inner_texts()
    passed = tab_to(page, "Change password")
    assert [one.strip() for one in wanted] == [one for one in passed if one in {x.strip() for x in wanted}]
    for action in ("Light colors", "Dark colors", "Sign out"):
        assert action in passed

    page.get_by_role("button", name="Sign out", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("You are signed out")


def test_what_has_the_focus_is_to_be_seen(signed_in: SignedIn) -> None:
    page = signed_in("ada").page
    page.goto("/admin/account")
    for _ in range(12):
        page.keyboard.press("Tab")
        assert page.evaluate(_HAS_RING), f"{focused(page)} does not show that it has the focus"


def test_the_menu_on_a_phone_opens_and_closes(signed_in: SignedIn, camera: Camera) -> None:
    page = signed_in("ada").page
    page.goto("/admin/account")
    menu, button = page.get_by_role("navigation", name="Main menu"), page.get_by_role("button", name="Menu")
    expect(menu).to_be_visible()
    expect(button).to_be_hidden()
    with viewport(page, PHONE):
        expect(menu).to_be_hidden()
        button.click()
        expect(menu).to_be_visible()
        camera.snap(page, "menu-390-light")
        page.keyboard.press("Escape")
        expect(menu).to_be_hidden()
        button.click()
        menu.get_by_role("link", name="My account").click()
        expect(page).to_have_url(re.compile("/admin/account$"))
        expect(menu).to_be_hidden()


def test_times_are_in_the_readers_zone_and_in_utc(signed_in: SignedIn) -> None:
    page = signed_in("ada").page
    page.goto("/admin/account")
    moment = page.locator("time").first
    written = moment.get_attribute("datetime")
    assert written is not None
    at = datetime.fromisoformat(written)
    expect(moment).to_have_attribute("title", f"{at:%Y-%m-%d %H:%M:%S} UTC")
    # India is five and a half hours ahead.
    expect(moment).to_contain_text(f":{at + timedelta(hours=5, minutes=30):%M}")


def test_the_pages_work_without_scripts(browser: Browser, server: RunningServer) -> None:
    with a_visitor(browser, server.base_url, has_scripts=False) as visitor:
        page = visitor.page
        sign_in(page, "bob")
        with viewport(page, PHONE):
            page.get_by_role("button", name="Menu").click()
            expect(page.get_by_role("navigation", name="Main menu")).to_be_visible()
        # Without scripts, the button sends a form: a reload must not cross it.
        with page.expect_navigation():
            page.get_by_role("button", name="Dark colors").click()
        page.reload()
        assert brightness(page) < 100
        page.get_by_role("button", name="Sign out", exact=True).click()
        expect(page.get_by_role("status")).to_contain_text("You are signed out")


def test_the_pages_of_the_api_are_accessible(visitor: Visitor, axe: Axe) -> None:
    page, checks = visitor.page, Checks()
    for path in ("/", "/openapi/v3", "/openapi/v2", "/problems", "/problems/limit_reached"):
        answer = page.goto(path)
        assert answer is not None
        assert answer.ok, path
        checks.run(axe.check, page)
    checks.assert_passed()
