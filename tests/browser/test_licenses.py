"""Licenses in a browser: from the first one to changes of many."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from keywright.core.command import Origin
from keywright.licensing.activations.model import Activate
from keywright.licensing.licenses.model import CreateLicense, Status
from keywright.provisioning.products import NameKind, SaveName
from tests.browser.axe import Axe
from tests.browser.camera import PHONE, SCHEMES, Camera, Scheme, check_fits, viewport
from tests.browser.finding import find
from tests.browser.payloads import PAYLOADS, check_untripped, set_tripwire
from tests.browser.people import sign_in
from tests.browser.waiting import follow, wait_until_done
from tests.browser.watching import Visitor, a_visitor
from tests.http.admin_browser import asked, decide
from tests.server import RunningServer

SignedIn = Callable[[str], Visitor]
#: The key of the first license.
_KEY = "FIRST-LICENSE-OF-ALL"


def activate(server: RunningServer, key: str, label: str) -> None:
    origin = Origin("program", "192.0.2.55", "LumenStudio/4.2 (macOS 15)")
    decide(server, Activate(**asked(origin=origin, license=key, label=label)))


def check(page: Page, axe: Axe, camera: Camera, name: str) -> None:
    """Check that the page is accessible, and take its picture."""
    axe.check(page)
    camera.take(page, f"licenses-{name}")


def copied(page: Page) -> str:
    """The text in the clipboard."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_a_license_is_made_shown_changed_and_deleted(
    server: RunningServer, signed_in: SignedIn, axe: Axe, camera: Camera
) -> None:
    """The first license of an installation, by the links that lead to it."""
    ada = signed_in("ada")
    page = ada.page
    page.goto("/admin")
    check(page, axe, camera, "overview-empty")
    page.get_by_role("link", name="New license").click()
    key = page.get_by_label("License key")
    assert re.fullmatch("([A-Z2-9]{5}-){5}[A-Z2-9]{5}", key.input_value())
    key.fill(_KEY)
    page.get_by_label("Devices", exact=True).fill("two")
    ada.watch.expect(422)
    page.get_by_role("button", name="Create license").click()
    expect(page.get_by_label("Devices", exact=True)).to_have_accessible_description(
        re.compile("must be a whole number")
    )
    expect(page.get_by_label("License key")).to_have_value(_KEY)
    check(page, axe, camera, "new-wrong")
    page.get_by_label("Devices", exact=True).fill("2")
    page.get_by_label("Last day").fill("2031-12-31")
    page.get_by_label("Product").fill("7")
    page.get_by_role("button", name="Create license").click()
    expect(page.get_by_role("status").first).to_contain_text("The license was created")
    expect(page.get_by_text("Never activated")).to_be_visible()
    expect(page.locator("#new-key")).to_have_text(_KEY)
    check(page, axe, camera, "new")
    page.reload()
    expect(page.get_by_text(_KEY)).to_have_count(0)

    page.get_by_role("button", name="Show and copy").click()
    expect(page.get_by_text(_KEY)).to_be_visible()
    assert copied(page) == _KEY
    assert _KEY not in page.url

    activate(server, _KEY, "desk-01")
    activate(server, _KEY, "laptop of Anna")
    page.reload()
    check(page, axe, camera, "activated")
    page.get_by_role("button", name="Free desk-01").click()
    expect(page.get_by_role("status").first).to_contain_text("The place is free again")
    expect(page.get_by_text("1 of 2")).to_be_visible()

    change_and_delete(page, axe, camera)
    assert server.count("licenses") == 0
    names = [
        name.removeprefix("license.")
        for (name,) in server.sql("SELECT name FROM events WHERE license_id > 0 ORDER BY id")
    ]
    assert (
        names
        == (
            "created key_shown activated activated deactivated updated renewed updated updated updated "
            "updated deactivated deleted"
        ).split()
    )


def change_and_delete(page: Page, axe: Axe, camera: Camera) -> None:
    """Use every button on the page of a license."""
    said = page.get_by_role("status").first
    page.get_by_role("link", name="Extend").click()
    page.get_by_label("Extend by").fill("365")
    page.get_by_label("Unit").select_option("days")
    check(page, axe, camera, "extend")
    page.get_by_role("button", name="Extend").click()
    expect(said).to_contain_text("valid until")
    page.get_by_role("link", name="Change limit").click()
    page.get_by_label("No limit").check()
    check(page, axe, camera, "limit")
    page.get_by_role("button", name="Change limit").click()
    expect(said).to_contain_text("no limit")
    page.get_by_role("link", name="Edit", exact=True).click()
    page.get_by_label("Order").fill("4711")
    check(page, axe, camera, "edit")
    page.get_by_role("button", name="Save").click()
    expect(said).to_contain_text("The license was changed")
    page.get_by_role("button", name="Disable").click()
    expect(said).to_contain_text("The license was disabled")
    expect(page.get_by_text("The license was disabled by ada")).to_be_visible()
    page.get_by_role("button", name="Enable").last.click()
    expect(said).to_contain_text("The license was enabled")
    follow(page, "Free all")
    check(page, axe, camera, "deactivate-all")
    page.get_by_role("button", name="Free all").click()
    expect(said).to_contain_text("All places are free again")
    page.get_by_role("link", name="History").click()
    expect(page.get_by_text("License key shown")).to_be_visible()
    check(page, axe, camera, "history")
    page.get_by_role("link", name="Delete").click()
    expect(page.get_by_text("2 activations are deleted with it (active: 0).")).to_be_visible()
    check(page, axe, camera, "delete")
    page.get_by_role("button", name="Delete the license").click()
    expect(said).to_contain_text("The license was deleted")
    expect(page.get_by_text("No licenses yet")).to_be_visible()
    check(page, axe, camera, "list-empty")


def test_licenses_are_searched_filtered_copied_and_changed_together(
    busy_server: RunningServer, signed_in: SignedIn, axe: Axe, camera: Camera
) -> None:
    page = signed_in("ada").page
    page.goto("/admin/licenses")
    check(page, axe, camera, "list")

    page.get_by_role("button", name=re.compile("^Copy the license key")).first.click()
    first = page.locator("#content a.key").first
    expect(first).to_have_text(re.compile("^[A-Z]+-"))
    key = first.inner_text()
    assert copied(page) == key

    find(page, key)
    expect(page).to_have_url(re.compile(r"/admin/licenses/\d+$"))
    page.goto("/admin/licenses")
    find(page, "no such thing")
    expect(page.get_by_role("heading", level=1)).to_have_text("Nothing found")
    assert "no" not in page.url.partition("/admin")[2]
    check(page, axe, camera, "found-nothing")

    page.goto("/admin/licenses")
    page.get_by_label("Status").select_option("Active")
    page.get_by_label("Product").fill("Lumen Server")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("Product: Lumen Server (102)")).to_be_visible()
    select_and_extend(page, axe, camera)
    change_all(page, axe, camera)


def select_and_extend(page: Page, axe: Axe, camera: Camera) -> None:
    """Extend two of the listed licenses."""
    bar = page.locator("#bulk")
    expect(bar).to_be_hidden()
    page.get_by_role("checkbox", name="Select all on this page").check()
    boxes = page.get_by_role("checkbox", name="Select …")
    expect(page.locator("[data-selected]")).to_have_text(str(boxes.count()))
    bar.get_by_role("button", name="Clear").click()
    expect(bar).to_be_hidden()
    # A range, with Shift; and back.
    boxes.nth(0).check()
    boxes.nth(2).click(modifiers=["Shift"])
    expect(page.locator("[data-selected]")).to_have_text("3")
    boxes.nth(1).click()
    boxes.nth(2).click(modifiers=["Shift"])
    expect(page.locator("[data-selected]")).to_have_text("1")
    boxes.nth(1).check()
    # To the end: over the list, the bar may leave a part of a button to see.
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    check(page, axe, camera, "selected")
    bar.get_by_label("More actions").click()
    check(page, axe, camera, "selected-more")
    bar.get_by_role("button", name="Allow more devices").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Allow more devices: 2 licenses")
    page.get_by_label("Additional devices").fill("3")
    shown = page.get_by_role("region", name="What will change")
    expect(shown).to_contain_text(re.compile(r"Limit: \d+ →, then \d+"))
    check(page, axe, camera, "bulk")
    page.get_by_role("button", name="Allow more devices").click()
    expect(page).to_have_url(re.compile(r"/admin/jobs/\d+$"))
    wait_until_done(page)
    expect(page.get_by_text("done", exact=True).first).to_be_visible()
    check(page, axe, camera, "bulk-done")
    page.get_by_role("button", name="Take this back").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("Take back job"))
    wait_until_done(page)
    expect(page.get_by_text("done", exact=True).first).to_be_visible()


def change_all(page: Page, axe: Axe, camera: Camera) -> None:
    """Delete all licenses that match a filter."""
    page.goto("/admin/licenses?product=101&status=sold")
    page.get_by_role("checkbox", name="Select all on this page").check()
    bar = page.locator("#bulk")
    bar.get_by_label("More actions").click()
    bar.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"^Delete: \d+ licenses?$"))
    check(page, axe, camera, "bulk-delete")
    page.get_by_role("checkbox", name="Yes, delete").check()
    page.get_by_role("button", name="Delete").click()
    expect(page).to_have_url(re.compile(r"/admin/jobs/\d+$"))
    wait_until_done(page)
    expect(page.get_by_text("done", exact=True).first).to_be_visible()
    page.goto("/admin/licenses?product=101&status=sold")
    expect(page.get_by_text("No matching licenses")).to_be_visible()
    check(page, axe, camera, "nothing-matches")


def test_all_that_match_are_meant_by_a_button_of_the_bar(
    busy_server: RunningServer, signed_in: SignedIn
) -> None:
    page = signed_in("ada").page
    page.goto("/admin/licenses")
    page.get_by_role("checkbox", name="Select …").first.check()
    page.get_by_role("button", name="that match").click()
    bar = page.locator("#bulk")
    bar.get_by_role("button", name="Disable").click()
    number = page.get_by_label(re.compile(r"^Type \d+ to confirm")).locator("xpath=..").inner_text()
    asked_for = re.search(r"Type (\d+)", number)
    assert asked_for is not None
    assert int(asked_for[1]) > 50
    expect(page.get_by_text("This applies to every license.")).to_be_visible()
    expect(page.get_by_role("region", name="What will change")).to_contain_text("disabled")


def test_a_table_is_imported(
    busy_server: RunningServer, signed_in: SignedIn, axe: Axe, camera: Camera
) -> None:
    page = signed_in("bob").page
    page.goto("/admin/licenses")
    follow(page, "Import")
    check(page, axe, camera, "import")
    table = b"Nummer,Expires\nIMPORTED-BY-HAND-1,2031-12-31\nIMPORTED-BY-HAND-2,31.12.2031\n"
    page.get_by_label("File").set_input_files({"name": "list.csv", "mimeType": "text/csv", "buffer": table})
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Import list.csv")
    page.get_by_label("Nummer").select_option("license key")
    page.get_by_role("button", name="Show the first lines").click()
    expect(page.get_by_role("cell", name="expires_at")).to_be_visible()
    check(page, axe, camera, "import-columns")
    page.get_by_role("button", name="Import 2 lines").click()
    expect(page).to_have_url(re.compile(r"/admin/jobs/\d+$"))
    wait_until_done(page)
    expect(page.get_by_text("Licenses: 1 new, 1 left out.")).to_be_visible()
    check(page, axe, camera, "import-done")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the lines that failed").click()
    assert b'31.12.2031,"expires_at must be' in download.value.path().read_bytes()


_SMALL = """() => [...document.querySelectorAll(
        "tbody .tick label, tbody a, tbody button, .pager a, .bulk-bar .button")]
    .filter((one) => one.checkVisibility())
    .map((one) => [one.getBoundingClientRect(), one.outerHTML.slice(0, 120)])
    .filter(([box]) => box.width < 44 || box.height < 44)
    .map(([box, html]) => `${box.width} x ${box.height}: ${html}`)"""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_on_a_phone_a_license_is_a_short_card_that_fingers_can_hit(
    busy_server: RunningServer, signed_in: SignedIn, axe: Axe, camera: Camera, scheme: Scheme
) -> None:
    bob = signed_in("bob")
    page = bob.page
    long = "A product with a name that is as long as the names of very few products are"
    names = [SaveName(**asked(kind=kind, number=77, name=long)) for kind in NameKind]
    numbers = {"product_id": 77, "customer_id": 77, "order_id": 9_000_000_000}
    key = f"A-LONG-NAME-{scheme}".upper()
    decide(busy_server, *names, CreateLicense(**asked(key=key, status=Status.ACTIVE, **numbers)))
    page.goto("/admin/licenses")
    with viewport(page, PHONE, scheme):
        axe.check(page)
        assert page.evaluate(_SMALL) == []
        card = page.locator("tbody tr").first
        for text in ("active", "Places 0 no limit", "Expires never"):
            expect(card.get_by_role("cell", name=text, exact=True)).to_be_visible()
        heights = [one.bounding_box() for one in page.locator("tbody tr").all()]
        assert all(one is not None and one["height"] <= 120 for one in heights)
        # All of it is there, and can be touched.
        card.get_by_role("checkbox").check()
        expect(page.locator("[data-selected]")).to_have_text("1")
        assert page.evaluate(_SMALL) == []
        camera.take(page, f"licenses-phone-selected-{scheme}")
        card.get_by_role("link", name="A product").first.click()
        expect(page).to_have_url(re.compile("/products/77$"))
    check_fits(page)


def test_everything_works_without_scripts(busy_server: RunningServer, browser: Browser) -> None:
    with a_visitor(browser, busy_server.base_url, has_scripts=False) as bob:
        page = bob.page
        sign_in(page, "bob")
        page.goto("/admin/licenses?status=active")
        page.locator("tbody .key-of button").first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("License key")
        page.goto("/admin/licenses?status=active")
        page.get_by_role("checkbox", name="Select …").first.check()
        page.locator("#bulk").get_by_role("button", name="Disable").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Disable: 1 license")
        page.get_by_role("button", name="Disable").click()
        expect(page).to_have_url(re.compile(r"/admin/jobs/\d+$"))


def test_what_others_have_written_is_shown_as_text(server: RunningServer, signed_in: SignedIn) -> None:
    key = "A-LICENSE-OF-EVIL"
    decide(server, CreateLicense(**asked(key=key, status=Status.ACTIVE, product_id=99, order_id=99)))
    for text in PAYLOADS[:40]:
        origin = Origin("program", "192.0.2.1", text)
        decide(server, Activate(**asked(origin=origin, license=key, label=text)))
    bob = signed_in("bob")
    set_tripwire(bob.context)
    page = bob.page
    page.goto("/admin/licenses")
    find(page, key)
    expect(page.get_by_text(PAYLOADS[0], exact=True).first).to_be_visible()
    check_untripped(page)
    page.goto("/admin/licenses")
    find(page, PAYLOADS[0])
    check_untripped(page)
