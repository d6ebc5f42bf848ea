"""Policies, API keys, names, users, events and the system, in a browser."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from keywright.licensing.licenses.keys import UNAMBIGUOUS
from keywright.licensing.licenses.model import CreateLicense, UpdateLicense
from keywright.provisioning.policies.model import CreatePolicy
from keywright.provisioning.products import CreateProduct, NewProduct
from tests.browser.axe import Axe
from tests.browser.camera import Camera
from tests.browser.people import sign_in
from tests.browser.waiting import follow, wait_until_done
from tests.browser.watching import Visitor, a_visitor
from tests.http.admin_browser import PASSWORD, asked, decide, make_users
from tests.server import RunningServer, running, wait_until

SignedIn = Callable[[str], Visitor]


@pytest.fixture
def ada(signed_in: SignedIn) -> Page:
    return signed_in("ada").page


@pytest.fixture
def plain(browser: Browser, server: RunningServer) -> Iterator[Page]:
    """Ada in a browser without scripts."""
    context = browser.new_context(base_url=server.base_url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/admin/sign-in")
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    yield page
    context.close()


@pytest.fixture
def policy(server: RunningServer) -> str:
    """The name of a policy."""
    fields = {"charset": UNAMBIGUOUS, "chunks": 4, "chunk_length": 5, "separator": "-", "prefix": "LS-"}
    decide(server, CreatePolicy(**asked(name="Studio", terms={"max_activations": 3}, **fields)))
    return "Studio"


def row(page: Page, text: str) -> str:
    """The text of the last row with this text."""
    return page.get_by_role("row").filter(has_text=text).last.inner_text()


def choose(page: Page, name: str) -> None:
    """Choose the radio button whose name begins with this."""
    page.get_by_role("radio", name=re.compile(f"^{name} (?!and)")).check()


def said(page: Page, text: str) -> None:
    """Wait until the page shows this message."""
    expect(page.get_by_role("status").filter(has_text=text)).to_be_visible()


def test_an_empty_page_says_what_to_do_next(
    browser: Browser, tmp_path: Path, axe: Axe, camera: Camera
) -> None:
    with running(tmp_path / "data") as fresh:
        make_users(fresh)
        for name in ("ada", "carol"):
            with a_visitor(browser, fresh.base_url) as visitor:
                sign_in(visitor.page, name)
                for area in ("policies", "api-keys", "products", "customers"):
                    if name == "carol" and area == "api-keys":
                        continue
                    visitor.page.goto(f"/admin/{area}")
                    empty = visitor.page.locator(".empty")
                    expect(empty).to_be_visible()
                    expect(empty.get_by_role("link")).to_have_count(1 if name == "ada" else 0)
                    axe.check(visitor.page)
                    camera.take(visitor.page, f"empty-{area.replace('/', '-')}-{name}")


def test_keys_are_shown_while_a_policy_is_described(signed_in: SignedIn, axe: Axe, camera: Camera) -> None:
    visitor = signed_in("ada")
    page = visitor.page
    page.goto("/admin/policies/new")
    preview = page.locator("#preview")
    expect(preview).to_contain_text("very good 150 random bits")
    page.get_by_text("License keys", exact=True).click()
    page.get_by_label("Prefix").fill("TRIAL-")
    expect(preview.locator("li").first).to_have_text(re.compile(r"TRIAL-(\w{5}-){5}\w{5}"))
    page.get_by_label("Groups").fill("")
    expect(preview).to_contain_text("No key can be made from these fields.")
    page.get_by_label("Groups").fill("2")
    expect(preview).to_contain_text("weak 50 random bits")
    page.locator("#field-name").fill("A trial")
    visitor.watch.expect(422)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("they have 50 bits, but need at least 64")).to_be_visible()
    axe.check(page)
    camera.take(page, "policy-weak")
    page.get_by_label("Allow keys that are easy to guess").check()
    page.get_by_label("Devices", exact=True).fill("3")
    page.get_by_text("More about devices").click()
    page.get_by_label("Fingerprint").select_option("required")
    page.get_by_text("Usage", exact=True).click()
    meter = page.get_by_role("group", name="Meter 1")
    meter.get_by_label("Name").fill("exports")
    meter.get_by_label("Limit", exact=True).fill("100")
    page.get_by_role("button", name="Save").click()
    said(page, "The policy A trial was created.")
    assert re.search(r"A trial\s+—\s+TRIAL-\w{5}-\w{5}\s+weak 50 bits", row(page, "A trial"))
    camera.take(page, "policies")
    page.get_by_role("link", name="Edit A trial").click()
    expect(page.locator("#meter-name-1")).to_have_value("exports")
    page.locator("#field-name").fill("Another trial")
    page.get_by_label("Groups").fill("6")
    page.get_by_role("button", name="Save").click()
    said(page, "The policy Another trial was changed.")
    page.get_by_role("link", name="Delete Another trial").click()
    page.get_by_role("button", name="Delete").click()
    said(page, "The policy Another trial was deleted.")


def test_without_programs_a_button_shows_the_keys(plain: Page) -> None:
    plain.goto("/admin/policies/new")
    plain.get_by_text("License keys", exact=True).click()
    plain.get_by_label("Prefix").fill("TRIAL-")
    plain.get_by_role("button", name="Preview").click()
    expect(plain.locator("#preview li").first).to_have_text(re.compile("TRIAL-"))
    expect(plain.get_by_label("Prefix")).to_have_value("TRIAL-")


def test_licenses_are_made_and_the_page_can_be_left(signed_in: SignedIn, policy: str) -> None:
    page = signed_in("bob").page
    page.goto("/admin/policies")
    expect(page.get_by_role("link", name="New policy")).to_have_count(0)
    page.get_by_role("link", name=f"Generate licenses with {policy}").first.click()
    page.get_by_label("Number of licenses").fill("120")
    page.get_by_label("Order").fill("8812")
    page.get_by_role("button", name="Generate", exact=True).click()
    said(page, "120 licenses are being made.")
    job = page.url
    page.goto("/admin/products")
    page.goto(job)
    expect(page.get_by_role("main")).to_contain_text(re.compile("120 of 120|120 licenses", re.IGNORECASE))


def test_an_api_key_is_shown_once_copied_and_ended(
    ada: Page, axe: Axe, camera: Camera, server: RunningServer
) -> None:
    ada.goto("/admin/api-keys")
    ada.get_by_role("link", name="New API key").first.click()
    ada.get_by_label("Name").fill("The shop")
    choose(ada, "Read")
    ada.get_by_role("button", name="Create API key").click()
    secret = ada.locator("#consumer-secret")
    expect(secret).to_have_text(re.compile("cs_[0-9a-f]{40}"))
    for target in ("#consumer-key", "#consumer-secret", "#curl"):
        button = ada.locator(f'[data-copy="{target}"]')
        button.click()
        expect(button).to_have_text("Copied")
    axe.check(ada)
    camera.take(ada, "api-key-issued")
    shown = secret.inner_text()
    follow(ada, "I have saved it")
    assert shown not in ada.content()
    assert server.log.count(shown) == 0
    ada.get_by_role("link", name="Revoke the API key The shop").click()
    expect(ada.get_by_text("This key was never used.")).to_be_visible()
    ada.get_by_role("button", name="Revoke it").click()
    said(ada, "The API key The shop was revoked.")
    assert "revoked" in row(ada, "The shop")
    camera.take(ada, "api-keys-revoked")


def test_a_notice_is_written_on_the_page_of_a_product(
    server: RunningServer, signed_in: SignedIn, axe: Axe, camera: Camera
) -> None:
    decide(server, CreateProduct(**asked(fields=NewProduct(id=170, name="Brush"))))
    page = signed_in("bob").page
    page.goto("/admin/products/170")
    page.get_by_role("link", name="New notice").click()
    page.get_by_label("Title").fill("A crafted file runs code")
    page.get_by_label("Affected versions").fill("< 3.2.1")
    page.get_by_label("Severity").select_option("critical")
    page.get_by_label("About security").select_option("yes")
    axe.check(page)
    camera.take(page, "notice-new")
    page.get_by_role("button", name="Save").click()
    said(page, "The notice was saved as a draft.")
    page.get_by_role("link", name="Publish").click()
    page.get_by_role("button", name="Publish").click()
    said(page, "The notice was published.")
    axe.check(page)
    camera.take(page, "notice")
    page.get_by_role("link", name="Notify customers").click()
    expect(page.get_by_text("0 customers have a device with an affected version.")).to_be_visible()
    axe.check(page)
    camera.take(page, "notice-notify")
    page.goto("/admin/notices")
    expect(page.get_by_role("link", name="A crafted file runs code")).to_be_visible()
    axe.check(page)
    camera.take(page, "notices")


def test_products_and_customers_are_made_and_changed(signed_in: SignedIn, axe: Axe, camera: Camera) -> None:
    page = signed_in("bob").page
    page.goto("/admin/products")
    page.get_by_role("link", name="New product").first.click()
    page.get_by_label("Name").fill("Alpine Studio")
    page.get_by_label("Features").fill("pro = Professional\nexport")
    axe.check(page)
    camera.take(page, "product-new")
    page.get_by_role("button", name="Save").click()
    said(page, "The product Alpine Studio was created.")
    axe.check(page)
    camera.take(page, "product")
    page.goto("/admin/products")
    assert re.search(r"alpine-studio\s+pro, export", row(page, "Alpine Studio"))
    axe.check(page)
    camera.take(page, "products")
    page.get_by_role("link", name="Edit Alpine Studio").click()
    page.get_by_label("Code").fill("alpine")
    page.get_by_role("button", name="Save").click()
    said(page, "The product Alpine Studio was saved.")
    expect(page).to_have_url(re.compile(r"/admin/products/\d+$"))
    page.goto("/admin/customers")
    page.get_by_role("link", name="New customer").first.click()
    page.get_by_label("ID", exact=True).fill("31")
    page.get_by_label("E-mail").fill("larch@example.com")
    page.get_by_role("button", name="Save").click()
    said(page, "The customer was created.")
    axe.check(page)
    camera.take(page, "customer")
    page.goto("/admin/customers")
    assert "no name" in row(page, "larch@example.com")
    axe.check(page)
    camera.take(page, "customers")
    page.get_by_role("link", name="Delete customer 31").click()
    page.get_by_role("button", name="Delete").click()
    said(page, "Customer 31 was deleted.")


def test_a_user_is_made_changed_and_disabled(
    signed_in: SignedIn, visitor: Visitor, axe: Axe, camera: Camera
) -> None:
    boss = signed_in("ada")
    page = boss.page
    page.goto("/admin/users/new")
    page.get_by_label("Name").fill("erin")
    choose(page, "Reader")
    page.get_by_role("button", name="Create user").click()
    link = page.locator("#link").inner_text()
    axe.check(page)
    camera.take(page, "user-invited")
    visitor.page.goto(link)
    for label in ("Password", "Repeat the password"):
        visitor.page.get_by_label(label, exact=True).fill(PASSWORD)
    axe.check(visitor.page)
    camera.take(visitor.page, "invitation")
    visitor.page.get_by_role("button", name="Set password").click()
    said(visitor.page, "The password was set.")
    page.get_by_role("link", name="I have copied it").click()
    sign_in(visitor.page, "erin")
    choose(page, "Support")
    page.get_by_role("button", name="Change role").click()
    said(page, "erin now has the role support.")
    camera.take(page, "user-signed-in")
    page.get_by_role("button", name="Sign out everywhere").click()
    said(page, "erin was signed out everywhere.")
    visitor.page.goto("/admin/account")
    expect(visitor.page).to_have_url(re.compile("/admin/sign-in"))
    page.get_by_role("link", name="Disable").click()
    page.get_by_role("button", name="Disable").click()
    said(page, "erin was disabled and signed out everywhere.")
    visitor.watch.expect(403)
    sign_in(visitor.page, "erin", is_right=False)
    page.get_by_role("button", name="Enable").click()
    said(page, "erin may sign in again.")


def test_the_last_administrator_stays(signed_in: SignedIn) -> None:
    visitor = signed_in("ada")
    visitor.watch.expect(409)
    page = visitor.page
    page.goto("/admin/users")
    page.get_by_role("link", name="ada", exact=True).first.click()
    choose(page, "Reader")
    page.get_by_role("button", name="Change role").click()
    expect(page.get_by_text("No other administrator has a password.")).to_be_visible()


def test_events_are_searched(ada: Page, axe: Axe, camera: Camera, server: RunningServer) -> None:
    changed = [
        CreateLicense(**asked(key="A-LICENSE-WITH-EVENTS", status=3, times_activated_max=2)),
        UpdateLicense(
            **asked(license="A-LICENSE-WITH-EVENTS", changes={"status": 5, "times_activated_max": None})
        ),
    ]
    decide(server, *changed)
    ada.goto("/admin/events")
    ada.get_by_label("Event", exact=True).select_option("license.updated")
    ada.get_by_role("button", name="Filter").click()
    first = ada.get_by_role("row").nth(1)
    expect(first).to_contain_text("License changed")
    expect(first).to_contain_text("Limit: 2 →")
    axe.check(ada)
    camera.take(ada, "events-changed")
    first.get_by_role("link", name="License changed").click()
    expect(ada).to_have_url(re.compile(r"/admin/licenses/\d+"))
    ada.goto("/admin/events?day=1999-12-31")
    camera.take(ada, "events-none")
    ada.get_by_role("main").get_by_role("link", name="Clear filters").first.click()
    expect(ada).to_have_url(re.compile("/admin/events$"))


def test_a_backup_is_made_while_one_looks_and_downloaded(
    ada: Page, axe: Axe, camera: Camera, tmp_path: Path, server: RunningServer
) -> None:
    ada.goto("/admin/system")
    ada.get_by_role("button", name="Back up now").click()
    expect(ada.locator("#backup")).to_contain_text("Last backup:")
    wait_until_done(ada)
    download = ada.get_by_role("button", name=re.compile(r"Download keywright-\d+-\d+\.tar"))
    expect(download).to_have_count(1)
    axe.check(ada)
    # It can be had twice.
    for number in range(2):
        with ada.expect_download() as found:
            download.click()
        file = tmp_path / str(number)
        found.value.save_as(file)
        kept = server.data_dir / "backups" / found.value.suggested_filename
        assert file.read_bytes() == kept.read_bytes()
    ada.get_by_role("button", name="Check now").click()
    expect(ada.locator("#examination")).to_contain_text("no problems found")
    wait_until_done(ada)
    axe.check(ada)
    camera.take(ada, "system-done")
    ada.get_by_role("link", name=re.compile("Delete keywright")).click()
    ada.get_by_role("button", name="Delete").click()
    said(ada, "was deleted.")


def test_without_programs_a_backup_is_made_too(plain: Page) -> None:
    plain.goto("/admin/system")
    plain.get_by_role("button", name="Back up now").click()

    def is_made() -> bool:
        if "Last backup:" in plain.locator("#backup").inner_text():
            return True
        plain.get_by_role("main").get_by_role("link", name="Refresh").first.click()
        return False

    wait_until(is_made, "the backup")
    expect(plain.get_by_role("button", name="Back up now")).to_be_visible()


def test_what_the_doctor_finds_can_be_read(
    ada: Page, axe: Axe, camera: Camera, server: RunningServer
) -> None:
    """The output of both tasks is made up: the database is in order."""
    folder = server.data_dir / "tasks"
    folder.mkdir(exist_ok=True)
    lines = [
        f"License {number} has an activation count of 3, but 2 active activations." for number in range(1, 8)
    ]
    verdict = "Looked at 7 licenses and 14 activations in 0.1 s: problems found, see above."
    quoted = ",".join(f'"{one}"' for one in [*lines, verdict])
    (folder / "examination.json").write_text(
        '{"kind":"examination","state":"ended","started_at":"2026-01-15T12:30:45Z","status":1,'
        f'"ended_at":"2026-01-15T12:30:46Z","lines":[{quoted}],"last_line":"{verdict}"}}'
    )
    (folder / "backup.json").write_text(
        '{"kind":"backup","state":"ended","started_at":"2026-01-15T12:30:45Z","status":1,'
        '"ended_at":"2026-01-15T12:30:46Z","error_output":"not enough space in /var/lib/keywright."}'
    )
    ada.goto("/admin/system")
    expect(ada.locator("#repair")).to_contain_text("keywright doctor --repair --data-dir")
    axe.check(ada)
    camera.take(ada, "system-findings")
    for name in ("examination", "backup"):
        (folder / f"{name}.json").unlink()
