"""The first week of a vendor on an empty server, without scripts: the links and buttons of each task."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from pyotp import TOTP

from tests.browser.people import sign_in
from tests.browser.watching import a_visitor
from tests.http.admin_browser import PASSWORD, make_users
from tests.http.asking import Client
from tests.portal import mailed_code
from tests.server import RunningServer, running, wait_until
from tests.smtp_server import Mailbox, receiving


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A new server with its administrator."""
    with running(tmp_path_factory.mktemp("week") / "data") as started:
        make_users(started, "ada")
        yield started


class Walk:
    """Presses links and buttons, and counts them."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.steps = 0

    def press(self, *names: str) -> None:
        for name in names:
            found = self.page.get_by_role("link", name=name, exact=True)
            found = found.or_(self.page.get_by_role("button", name=name, exact=True))
            found.last.click()
            self.steps += 1

    def begin(self) -> None:
        """A task begins at the overview."""
        self.page.goto("/admin/overview")
        self.steps = 0


def make_product(walk: Walk) -> None:
    walk.press("A product")
    walk.page.locator("#field-name").fill("Paint")
    walk.press("Save")
    expect(walk.page.locator("#program")).to_contain_text("paint")


def make_policy(walk: Walk) -> None:
    walk.press("A policy for the product", "Perpetual Bought once, valid forever.", "Save")
    expect(walk.page.locator("main")).to_contain_text(re.compile(r"Perpetual\s+Paint"))


def connect_shop(walk: Walk) -> None:
    walk.press("Your shop")
    walk.page.get_by_label("Shop", exact=True).select_option("Stripe")
    walk.page.get_by_label("Secret").fill("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    walk.press("Connect", "Next: map products to licenses")
    walk.page.locator("#product-1").fill("price_1")
    walk.page.locator("#policy-1").select_option("Perpetual")
    walk.press("Save")
    expect(walk.page.get_by_role("status").first).to_be_visible()


def set_mail_up(walk: Walk, port: int) -> None:
    walk.press("A mail server")
    for name, text in {"smtp_host": "127.0.0.1", "smtp_port": str(port), "to": "ada@example.com"}.items():
        walk.page.locator(f"#field-{name}").fill(text)
    walk.page.locator("#field-mail_from").fill("Larch <keys@example.com>")
    walk.page.locator("#field-smtp_encryption").select_option("none")
    walk.press("Save and send a test mail")
    expect(walk.page.get_by_role("status").first).to_contain_text("accepted the test mail")


def invite(walk: Walk, there: Walk) -> None:
    """A colleague, who sets a password and a second factor."""
    walk.press("A colleague")
    walk.page.get_by_label("Name").fill("bob")
    walk.page.get_by_label("Support").check()
    walk.press("Create user")
    there.page.goto(walk.page.locator("#link").inner_text())
    there.page.get_by_label("Password", exact=True).fill(PASSWORD)
    there.page.get_by_label("Repeat the password").fill(PASSWORD)
    there.press("Set password")
    if there.page.get_by_role("button", name="Sign in", exact=True).count():
        sign_in(there.page, "bob", path=None)
        there.steps += 1
    there.press("My account", "Set up")
    totp = TOTP(there.page.locator("#secret").inner_text().replace(" ", ""))
    there.page.get_by_role("textbox", name="Code").fill(totp.now())
    there.press("Turn on", "I have saved them")
    walk.steps += there.steps + 1


def import_licenses(walk: Walk, server: RunningServer, folder: Path) -> None:
    """A spreadsheet of licenses with their customers."""
    table = folder / "licenses.csv"
    ends = {7: "2026-01-31"}
    lines = [
        f"SHEET-{at:05}-KEY,Customer {at},c{at}@example.com,Paint,1,{ends.get(at, '2031-02-28')}"
        for at in range(320)
    ]
    table.write_text("\n".join(["license key,customer name,customer email,product,devices,expires", *lines]))
    walk.press("Licenses", "Import")
    walk.page.locator("#field-table").set_input_files(table)
    walk.press("Upload", "Import 320 lines")
    wait_until(lambda: server.sql("SELECT count(*) FROM customers") == [(320,)], "customers of all lines")
    walk.page.goto("/admin/jobs")
    expect(walk.page.locator("main")).to_contain_text("done")


def sign_in_to_portal(there: Walk, server: RunningServer, mailbox: Mailbox) -> None:
    """A customer of the spreadsheet sees the license there."""
    [(customer,)] = server.sql("SELECT id FROM customers WHERE email = 'c5@example.com'")
    there.page.goto("/portal")
    there.page.get_by_label("E-mail address").fill("c5@example.com")
    there.press("Send me a code")
    wait_until(lambda: "c5@example.com" in mailbox.recipients, "the mail with the code")
    there.page.get_by_label("Code").fill(mailed_code(server, customer))
    there.press("Sign in")
    expect(there.page.locator("main")).to_contain_text("Paint")


def activate_first(walk: Walk, server: RunningServer) -> None:
    """A license by hand, whose key the program activates with."""
    walk.press("New license", "Create license")
    key = walk.page.locator("#new-key").inner_text()
    with Client(server) as program:
        for one in (key, "SHEET-00005-KEY"):
            called = {
                "license_key": one,
                "fingerprint": "kims-laptop",
                "product": "paint",
                "name": "Kim's laptop",
            }
            assert program.post("/v3/activate", json_body=called).status in (200, 201)
    walk.page.reload()
    expect(walk.page.locator("#devices")).to_contain_text("Kim's laptop")


def find(walk: Walk, text: str, name: str = "") -> None:
    """Type it into the field at the top, press Enter, and open what is found, if it is not open already."""

    def is_found() -> bool:
        # The search follows changes after a moment.
        walk.page.locator("#find-text").fill(text)
        walk.page.keyboard.press("Enter")
        expect(walk.page.locator("main h1")).to_be_visible()
        return walk.page.locator("main :is(a.key, .key, a[href*='/customers/'])").count() > 0

    wait_until(is_found, f"{text} is found")
    walk.steps += 1
    if name:
        walk.page.locator("main").get_by_role("link", name=name).first.click()
        walk.steps += 1


def free_lost_device(walk: Walk) -> None:
    """A customer has lost a laptop and calls by name."""
    find(walk, "Customer 5", "Customer 5")
    walk.press("Free Kim's laptop")
    expect(walk.page.get_by_role("status").first).to_contain_text("The device was freed.")


def sell_seats(walk: Walk) -> None:
    """A customer buys two more."""
    find(walk, "Customer 5", "Customer 5")
    walk.page.locator("main a.key").first.click()
    walk.press("Change limit")
    walk.page.get_by_label("Devices").fill("3")
    walk.press("Change limit")
    walk.steps += 1
    expect(walk.page.locator("main")).to_contain_text("of 3")


def refund(walk: Walk) -> None:
    find(walk, "c6@example.com")
    walk.page.locator("main a.key").first.click()
    walk.press("Disable")
    walk.steps += 1
    expect(walk.page.locator("main")).to_contain_text("New devices are refused")


def renew(walk: Walk) -> None:
    """A customer whose license has expired pays by invoice."""
    find(walk, "SHEET-00007-KEY")
    walk.press("Extend …")
    walk.page.locator("#field-unit").select_option("years")
    walk.press("Extend")
    expect(walk.page.get_by_role("status").first).to_be_visible()
    expect(walk.page.locator("main")).not_to_contain_text("New devices are refused")


def back_up(walk: Walk) -> None:
    walk.press("System", "Back up now")
    for _ in range(60):
        if walk.page.get_by_text("Last backup:").count():
            break
        walk.page.wait_for_timeout(500)
        walk.page.reload()
    expect(walk.page.locator("#backup")).to_contain_text("Last backup:")


def explain_refusal(walk: Walk) -> None:
    """Why is the key refused that a customer sends?"""
    find(walk, "SHEET-00006-KEY")
    expect(walk.page.locator("main")).to_contain_text("The license was disabled by ada")


def test_each_task_of_the_first_week_takes_few_steps(
    server: RunningServer, browser: Browser, tmp_path: Path
) -> None:
    most = {
        "product": 3,
        "policy": 4,
        "shop": 8,
        "mail": 4,
        "colleague": 10,
        "import": 5,
        "key": 4,
    }
    most |= {
        "portal": 2,
        "lost device": 3,
        "seats": 5,
        "refund": 4,
        "why refused": 1,
        "renewal": 4,
        "backup": 2,
    }
    mailbox = Mailbox()
    taken = {}
    with (
        a_visitor(browser, server.base_url, has_scripts=False) as ada,
        a_visitor(browser, server.base_url, has_scripts=False) as bob,
        a_visitor(browser, server.base_url, has_scripts=False) as kim,
        receiving(mailbox) as port,
    ):
        sign_in(ada.page, "ada")
        walk, customer = Walk(ada.page), Walk(kim.page)
        tasks: dict[str, Callable[[], None]] = {
            "product": partial(make_product, walk),
            "policy": partial(make_policy, walk),
            "shop": partial(connect_shop, walk),
            "mail": partial(set_mail_up, walk, port),
            "colleague": partial(invite, walk, Walk(bob.page)),
            "import": partial(import_licenses, walk, server, tmp_path),
            "portal": partial(sign_in_to_portal, customer, server, mailbox),
            "key": partial(activate_first, walk, server),
            "lost device": partial(free_lost_device, walk),
            "seats": partial(sell_seats, walk),
            "refund": partial(refund, walk),
            "why refused": partial(explain_refusal, walk),
            "renewal": partial(renew, walk),
            "backup": partial(back_up, walk),
        }
        for name, task in tasks.items():
            walk.begin()
            task()
            taken[name] = customer.steps if name == "portal" else walk.steps
        walk.begin()
        expect(walk.page.locator(".steps")).to_contain_text("A mail server done: 127.0.0.1")
    print(taken)
    assert [name for name, steps in taken.items() if steps > most[name]] == [], taken
    assert server.sql("SELECT product_id IS NOT NULL FROM policies") == [(1,)]
