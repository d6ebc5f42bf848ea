"""Find anything with the keyboard, on a phone, and without scripts."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from keywright.licensing.licenses.model import CreateLicense, Status
from keywright.provisioning.customers import CreateCustomer, NewCustomer
from tests.browser.axe import Axe
from tests.browser.camera import PHONE, Camera, viewport
from tests.browser.people import sign_in
from tests.browser.watching import Visitor, a_visitor
from tests.http.admin_browser import asked, decide
from tests.server import RunningServer

SignedIn = Callable[[str], Visitor]


@pytest.fixture(scope="module")
def filled(server: RunningServer) -> RunningServer:
    """The server with seven customers of one name, the first of whom has a license."""
    made = decide(
        server,
        *(
            CreateCustomer(
                **asked(
                    fields=NewCustomer(name=f"Larch Street Clinic {one}", email=f"olga{one}@larch.example")
                )
            )
            for one in range(1, 8)
        ),
    )
    key = {"key": "QWERT-ZUIOP-LARCH", "status": Status.ACTIVE, "customer_id": made[0].id}
    decide(server, CreateLicense(**asked(**key)))
    return server


def the_field(page: Page) -> Locator:
    """The field of the top bar."""
    return page.get_by_role("combobox", name="Find anything")


def test_two_keys_and_a_name_lead_to_a_customer(
    filled: RunningServer, signed_in: SignedIn, axe: Axe, camera: Camera
) -> None:
    page = signed_in("bob").page
    box, options = (
        page.get_by_role("combobox", name="Find anything"),
        page.locator(".find-panel").get_by_role("option"),
    )
    page.goto("/admin/account")
    page.keyboard.press("/")
    expect(box).to_be_focused()
    page.keyboard.type("larch cl")
    expect(options.first).to_contain_text("Larch Street Clinic 1")
    expect(options).to_have_count(6)
    expect(box).to_have_attribute("aria-expanded", "true")
    expect(options.first).to_have_attribute("aria-selected", "true")
    axe.check(page)
    camera.snap(page, "find-1280-light")

    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    expect(box).to_have_attribute("aria-activedescendant", "find-customers-2")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(options.last).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("All customers that match")
    expect(page.locator("main .find-hit")).to_have_count(7)
    axe.check(page)


def test_escape_closes_and_empties_and_other_fields_keep_their_slash(
    filled: RunningServer, signed_in: SignedIn
) -> None:
    page = signed_in("bob").page
    box, options = (
        page.get_by_role("combobox", name="Find anything"),
        page.locator(".find-panel").get_by_role("option"),
    )
    page.goto("/admin/licenses/new")
    other = page.locator("main input[type=text], main input:not([type])").first
    other.fill("")
    page.keyboard.type("a/b")
    expect(other).to_have_value("a/b")
    page.keyboard.press("Control+k")
    expect(box).to_be_focused()
    page.keyboard.type("arch")
    expect(options.first).to_be_visible()
    page.keyboard.press("Escape")
    expect(options.first).to_be_hidden()
    expect(box).to_have_value("arch")
    page.keyboard.press("Escape")
    expect(box).to_have_value("")
    page.keyboard.press("Escape")
    expect(box).not_to_be_focused()


def test_the_last_characters_of_a_key_lead_to_its_license_in_one_tap_on_a_phone(
    filled: RunningServer, signed_in: SignedIn, axe: Axe, camera: Camera
) -> None:
    page = signed_in("carol").page
    page.goto("/admin/account")
    with viewport(page, PHONE):
        place = page.locator("form.find").bounding_box()
        assert place is not None
        assert place["width"] >= 44
        assert place["height"] >= 44
        page.mouse.click(place["x"] + 22, place["y"] + 22)
        page.keyboard.type("p-larch")
        option = page.locator(".find-panel").get_by_role("option", name="Larch Street Clinic 1")
        expect(option).to_be_visible()
        axe.check(page)
        camera.snap(page, "find-390-light")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        option.click()
        expect(page).to_have_url(re.compile(r"/admin/licenses/\d+$"))


def test_without_scripts_the_form_leads_to_the_same_groups(
    filled: RunningServer, browser: Browser, camera: Camera
) -> None:
    with a_visitor(browser, filled.base_url, has_scripts=False) as visitor:
        page = visitor.page
        sign_in(page, "bob")
        box = page.get_by_label("Find anything")
        box.fill("larch")
        box.press("Enter")
        expect(page.get_by_role("heading", level=2)).to_have_text(["Customers", "Licenses"])
        camera.take(page, "find-results")
        page.get_by_role("link", name="All customers that match").click()
        expect(page.locator("main .find-hit")).to_have_count(7)
        box.fill("uiop-larch")
        box.press("Enter")
        expect(page).to_have_url(re.compile(r"/admin/licenses/\d+$"))
