"""The customer's portal in Chromium: on a phone and on a desk, also without scripts."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from keywright.provisioning.brand import FooterLink, SaveBrand
from tests.browser.axe import Axe
from tests.browser.camera import PHONE, Camera, viewport
from tests.browser.watching import a_visitor
from tests.http.admin_browser import asked, decide
from tests.portal import (
    activate,
    mailed_code,
    mailed_link,
    make_customer,
    make_license,
    make_product,
    publish_release,
)
from tests.server import RunningServer, wait_until

EMAIL = "ada@example.com"
KEY = "PHOTO-7QK2-M8VX-Z4RD"
TERMS = {"max_activations": 2, "portal_removals": {"count": 2, "per_days": 365}}


@pytest.fixture(scope="module")
def customer(server: RunningServer) -> int:
    """Ada, who has two licenses."""
    editor = make_product(server)
    for version in ("1.0", "2.0"):
        publish_release(server, editor, version, notes="Faster exports.\nDarker dark mode.")
    number = make_customer(server, EMAIL, name="Ada Lovelace")
    make_license(
        server, KEY, number, devices=("Ada's old laptop", "Studio iMac"), terms=TERMS, product_id=editor
    )
    make_license(server, "MIX-1111-2222", number, product_id=make_product(server, "Sound Mixer"))
    return number


def sign_in(page: Page, server: RunningServer, customer: int) -> None:
    page.goto("/portal")
    page.get_by_label("E-mail address").fill(EMAIL)
    page.get_by_role("button", name="Send me a code").click()
    page.get_by_label("Code").fill(mailed_code(server, customer))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("link", name="Account")).to_be_visible()


def test_every_page_is_accessible_and_fits(
    page: Page, server: RunningServer, customer: int, axe: Axe, camera: Camera
) -> None:
    def look(name: str) -> None:
        axe.check(page)
        with viewport(page, PHONE):
            axe.check(page)
        camera.take(page, f"portal-{name}")

    for path, name in (
        ("/portal/claim", "claim"),
        ("/offline?language=de", "offline"),
        ("/portal", "sign-in"),
    ):
        page.goto(path)
        look(name)
    page.get_by_label("E-mail address").fill(EMAIL)
    page.get_by_role("button", name="Send me a code").click()
    expect(page.get_by_label("Code")).to_be_focused()
    look("code")
    page.goto(mailed_link(server, customer))
    look("link")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Your licenses")).to_be_visible()
    look("licenses")
    page.get_by_role("link", name="License key and more Photo Editor").click()
    look("license")
    page.get_by_role("link", name="Remove Ada's old laptop").click()
    look("remove")
    page.get_by_role("link", name="Cancel").click()
    page.goto(f"{page.url}/hand-on")
    look("hand-on")
    page.get_by_role("link", name="Cancel").click()
    page.get_by_role("link", name="Get a new key").click()
    look("new-key")
    page.get_by_role("link", name="Cancel").click()
    page.get_by_role("button", name="Show the key").click()
    expect(page.get_by_text(KEY)).to_be_visible()
    look("key")
    for path, name in (("/portal/add", "add"), ("/portal/account", "account")):
        page.goto(path)
        look(name)
    page.get_by_role("link", name="Account").click()
    page.get_by_role("link", name="Ask us to erase my data").click()
    look("erase")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("status")).to_contain_text("You are signed out")
    for name in ("license", "lost-keys"):
        page.goto(f"/portal/{name}")
        look("enter-key" if name == "license" else name)


def test_downloads_are_accessible_and_fit(
    page: Page, server: RunningServer, customer: int, axe: Axe, camera: Camera
) -> None:
    sign_in(page, server, customer)
    page.get_by_role("link", name="License key and more Photo Editor").click()
    page.get_by_role("link", name="All versions").click()
    for name, then in (
        ("downloads", page.get_by_role("button", name="Create a token")),
        ("update-token", page.get_by_role("link", name="Back to the downloads")),
    ):
        axe.check(page)
        with viewport(page, PHONE):
            axe.check(page)
        camera.take(page, f"portal-{name}")
        then.click()
    expect(page.get_by_text("upd_").first).to_be_visible()


def test_a_customer_with_a_new_laptop_needs_five_steps(
    browser: Browser, server: RunningServer, customer: int, axe: Axe, camera: Camera
) -> None:
    """From "limit reached" in the program, on a phone, without scripts."""
    steps = 0
    key = "PHOTO-NEW-LAPTOP"
    make_license(server, key, customer, devices=("Old laptop", "Desk"), terms=TERMS)
    with a_visitor(browser, server.base_url, has_scripts=False) as visitor:
        page = visitor.page
        page.set_viewport_size({"width": 390, "height": 844})
        # The program's refusal has a link to this page.
        page.goto("/portal/license")
        steps += 1
        page.get_by_label("License key").fill(key)
        page.get_by_role("button", name="Show my devices").click()
        steps += 1
        expect(page.get_by_text("2 of 2 devices in use")).to_be_visible()
        assert key not in page.content()
        page.get_by_role("link", name="Remove Old laptop").click()
        steps += 1
        expect(page.get_by_role("heading", name="Remove “Old laptop”?")).to_be_visible()
        page.get_by_role("button", name="Remove Old laptop").click()
        steps += 1
        expect(page.get_by_role("status")).to_contain_text("“Old laptop” was removed.")
        expect(page.get_by_text("You can remove 1 device now.")).to_be_visible()
        activate(server, key, "New laptop")
        steps += 1
        page.reload()
        expect(page.get_by_role("link", name="Remove New laptop")).to_be_visible()
    assert steps == 5


def test_the_brand_is_the_vendors(
    page: Page, server: RunningServer, customer: int, axe: Axe, camera: Camera
) -> None:
    links = (
        FooterLink("Imprint", "https://example.com/imprint"),
        FooterLink("Help", "mailto:help@example.com"),
    )
    decide(server, SaveBrand(**asked(name="Aperture Works", color="#ffb000", links=links)))
    brand = page.get_by_role("banner").get_by_role("link", name="Aperture Works")

    def is_shown() -> bool:
        page.goto("/portal")
        return brand.count() > 0

    try:
        wait_until(is_shown, "the new name")
        axe.check(page)
        camera.take(page, "portal-brand")
        expect(page.get_by_role("link", name="Imprint")).to_have_attribute(
            "href", "https://example.com/imprint"
        )
    finally:
        decide(server, SaveBrand(**asked(name=None, color=None, links=())))


@pytest.mark.parametrize("language", ["Deutsch", "Français", "Español", "Português (Brasil)", "日本語"])
def test_a_language_is_chosen_and_kept(
    page: Page, customer: int, axe: Axe, camera: Camera, language: str
) -> None:
    page.goto("/portal/license")
    page.get_by_role(
        "button", name=re.compile(re.escape(language.split(maxsplit=1)[0]), re.IGNORECASE)
    ).click()
    expect(page.locator("html")).not_to_have_attribute("lang", "en")
    page.goto("/portal")
    expect(page.locator("html")).not_to_have_attribute("lang", "en")
    axe.check(page)
    camera.take(page, f"portal-{page.locator('html').get_attribute('lang')}", schemes=("light",))
