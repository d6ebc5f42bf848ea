"""The tasks of a day in support, and in how many steps each is done: a click, a key or a text is a step."""

import re
from collections.abc import Callable
from typing import NamedTuple

import pytest
from playwright.sync_api import Locator, Page, expect

from keywright.provisioning.customers import CreateCustomer, NewCustomer
from keywright.provisioning.policies.model import CreatePolicy
from keywright.provisioning.products import CreateProduct, NewProduct
from tests.browser.camera import PHONE, viewport
from tests.browser.watching import Visitor
from tests.http.admin_browser import asked, decide, make_users
from tests.http.admin_licenses import activate, make
from tests.http.test_admin_support import refuse
from tests.http.test_jobs_pages import ended
from tests.jobs import a_generation
from tests.server import RunningServer

SignedIn = Callable[[str], Visitor]
CUSTOMER, PRODUCT, KEY = 4_501, 4_502, "QWERT-ZUIOP-5T3P5"


class Steps:
    """A person who works with a page; ``count`` is the number of steps so far."""

    def __init__(self, page: Page) -> None:
        self.page, self.count = page, 0

    def click(self, place: Locator) -> None:
        self.count += 1
        place.click()

    def press(self, key: str) -> None:
        self.count += 1
        self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.count += 1
        self.page.keyboard.type(text)

    def button(self, name: str | re.Pattern[str]) -> None:
        self.click(self.page.get_by_role("button", name=name).first)


class Shop(NamedTuple):
    """The numbers of a license without a free place, and of jobs that made 500 licenses and 40."""

    license_id: int
    big_job: int
    small_job: int


@pytest.fixture(scope="module")
def shop(server: RunningServer) -> Shop:
    """A customer with one license, whose device is Kim's; a product with 40 licenses; a job that made 500."""
    make_users(server)
    recipe = {"charset": "0123456789ABCDEF", "chunks": 4, "chunk_length": 5}
    decide(
        server,
        CreateCustomer(**asked(fields=NewCustomer(id=CUSTOMER, name="Larch Street Clinic"))),
        CreateProduct(**asked(fields=NewProduct(id=PRODUCT, name="Lumen Atlas"))),
        CreatePolicy(**asked(name="Yearly", terms={"valid_for_days": 365}, **recipe)),
    )
    license = make(server, key=KEY, customer_id=CUSTOMER, times_activated_max=1)
    activate(server, license, label="desk of Kim")
    refuse(server, license, device_name="jane-desktop", ip_address="203.0.113.7")
    big = ended(server, a_generation(500), name="bob")
    small = ended(server, a_generation(40, product_id=PRODUCT), name="bob")
    return Shop(license.id, big, small)


def find_by_name(steps: Steps, _shop: Shop) -> None:
    steps.page.goto("/admin/account")
    steps.press("/")
    steps.type("street cl")
    expect(steps.page.locator(".find-panel").get_by_role("option").first).to_contain_text(
        "Larch Street Clinic"
    )


def find_by_the_end_of_a_key(steps: Steps, _shop: Shop) -> None:
    steps.page.goto("/admin/account")
    steps.press("/")
    steps.type(KEY[-5:].lower())
    expect(steps.page.locator(".find-panel").get_by_role("option").first).to_contain_text(
        "Larch Street Clinic"
    )


def see_why_it_is_refused(steps: Steps, shop: Shop) -> None:
    steps.page.goto(f"/admin/licenses/{shop.license_id}")
    expect(steps.page.get_by_role("region", name="New devices are refused")).to_contain_text("jane-desktop")


def free_a_device_and_undo(steps: Steps, shop: Shop) -> None:
    steps.page.goto("/admin/licenses?customer=4501")
    steps.click(steps.page.get_by_role("table").get_by_role("link", name=re.compile("5T3P5|T3P5")))
    steps.button("Free desk of Kim")
    expect(steps.page).to_have_url(re.compile(f"/licenses/{shop.license_id}#devices$"))
    steps.button("Undo")
    expect(steps.page.get_by_text("Undone: the license is as it was before.")).to_be_visible()


def extend_all_of_a_product(steps: Steps, _shop: Shop) -> None:
    page = steps.page
    page.goto("/admin/licenses")
    steps.click(page.get_by_role("textbox", name="Product").or_(page.get_by_role("combobox", name="Product")))
    steps.type("Lumen Atlas")
    steps.press("Enter")
    expect(page.get_by_text(f"Product: Lumen Atlas ({PRODUCT})")).to_be_visible()
    steps.click(page.get_by_role("checkbox", name="Select all on this page"))
    steps.click(page.locator("#bulk").get_by_role("button", name="Extend"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Extend: 40 licenses")
    steps.click(page.get_by_role("button", name="Extend: 40 licenses"))
    expect(page).to_have_url(re.compile(r"/admin/jobs/\d+$"))
    expect(page.get_by_text("40 licenses done.")).to_be_visible()


def undo_that(steps: Steps, _shop: Shop) -> None:
    steps.page.goto("/admin/jobs")
    steps.click(steps.page.get_by_role("link", name=re.compile("^Extend")).first)
    steps.button("Take this back: 40 licenses")
    expect(steps.page.get_by_role("heading", level=1)).to_have_text(re.compile("Take back job"))
    expect(steps.page.get_by_text("40 licenses done.")).to_be_visible()


def fetch_500_keys(steps: Steps, shop: Shop) -> None:
    steps.page.goto("/admin/jobs")
    steps.click(steps.page.locator(f'a[href="/admin/jobs/{shop.big_job}"]').first)
    with steps.page.expect_download() as download:
        steps.button("Download 500 keys (CSV)")
    assert download.value.suggested_filename.endswith(".csv")


def see_a_customer_s_yesterday(steps: Steps, _shop: Shop) -> None:
    steps.page.goto("/admin/customers")
    steps.click(steps.page.get_by_role("link", name="Larch Street Clinic"))
    steps.click(steps.page.get_by_role("link", name="Yesterday"))
    expect(steps.page).to_have_url(re.compile(f"/customers/{CUSTOMER}.*period=yesterday"))


def find_and_free_on_a_phone(steps: Steps, _shop: Shop) -> None:
    page = steps.page
    with viewport(page, PHONE):
        page.goto("/admin/overview")
        steps.click(page.get_by_role("combobox", name="Find anything"))
        steps.type("larch street")
        steps.click(page.locator(".find-panel").get_by_role("option").first)
        steps.button("Free desk of Kim")
        expect(page.get_by_text("The device was freed.")).to_be_visible()
        small = page.evaluate(_SMALL)
    assert small == []


def find_with_the_keyboard(steps: Steps, _shop: Shop) -> None:
    steps.page.goto("/admin/events")
    steps.press("/")
    expect(steps.page.get_by_role("combobox", name="Find anything")).to_be_focused()


#: What can be touched, and is less than 44 px high: links in sentences, which are as high as a line, are not.
_SMALL = """() => [...document.querySelectorAll('main :is(.button, input, select), .top :is(button, .who a)')]
    .map(one => [one.outerHTML, one.getBoundingClientRect()])
    .filter(([_, place]) => place.width > 1 && place.height < 43.5)"""
#: Each task, the most steps that it may take, in an order in which the later ones find what they need.
TASKS: list[tuple[Callable[[Steps, Shop], None], int]] = [
    (find_by_name, 2),
    (find_by_the_end_of_a_key, 2),
    (see_why_it_is_refused, 0),
    (free_a_device_and_undo, 3),
    (extend_all_of_a_product, 6),
    (undo_that, 2),
    (fetch_500_keys, 2),
    (see_a_customer_s_yesterday, 3),
    (find_and_free_on_a_phone, 4),
    (find_with_the_keyboard, 1),
]


def test_every_task_is_done_in_few_steps(shop: Shop, signed_in: SignedIn) -> None:
    page = signed_in("bob").page
    taken = {}
    for task, _most in TASKS:
        steps = Steps(page)
        task(steps, shop)
        taken[task.__name__] = steps.count
    assert [name for (name, count), (_, most) in zip(taken.items(), TASKS, strict=True) if count > most] == []
