"""What support does all day: see why a program is refused, free a device and take that back; with a mouse,
with the keyboard, on a phone.
"""

import re
from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.axe import Axe
from tests.browser.camera import Camera
from tests.browser.watching import Visitor
from tests.http.admin_licenses import activate, make
from tests.http.test_admin_support import refuse
from tests.server import RunningServer

SignedIn = Callable[[str], Visitor]
#: The smallest height of what a finger touches.
_TOUCHED = 44


def test_a_device_is_freed_and_given_back_in_three_clicks(
    server: RunningServer, signed_in: SignedIn, axe: Axe, camera: Camera
) -> None:
    license = make(server, times_activated_max=1)
    activate(server, license, label="desk of Kim")
    refuse(server, license, device_name="jane-desktop", ip_address="203.0.113.7")
    page = signed_in("bob").page
    page.goto(f"/admin/licenses/{license.id}")
    box = page.get_by_role("region", name="New devices are refused")
    # One look: above everything else, without a click.
    refused = (
        r"1 of 1 places are taken\.\s+"
        r"Last refused 3 minutes ago, \d\d:\d\d\s[AP]M · jane-desktop · 203\.0\.113\.7"
    )
    expect(box).to_contain_text(re.compile(refused))
    axe.check(page)
    camera.take(page, "refused")
    page.get_by_role("button", name="Free desk of Kim").click()
    expect(page.get_by_text("A new device would be accepted now.")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(box).to_be_visible()


def test_the_same_on_a_phone_with_a_thumb(server: RunningServer, signed_in: SignedIn) -> None:
    license = make(server, times_activated_max=1)
    activate(server, license, label="desk of Kim")
    page = signed_in("bob").page
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/admin/licenses/{license.id}")
    page.get_by_role("link", name="Free a device").click()
    free = page.get_by_role("button", name="Free desk of Kim")
    box = free.bounding_box()
    assert box is not None
    assert box["height"] >= _TOUCHED
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    free.click()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()


def test_the_keyboard_opens_sections_and_lists_its_shortcuts(
    server: RunningServer, signed_in: SignedIn, axe: Axe
) -> None:
    make(server)
    page = signed_in("bob").page
    page.goto("/admin/customers")
    page.locator("main").press("?")
    dialog = page.get_by_role("dialog", name="Shortcuts")
    expect(dialog).to_contain_text("g l")
    axe.check(page)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.locator("main").press("g")
    page.keyboard.press("l")
    expect(page).to_have_url(re.compile("/admin/licenses$"))
    page.get_by_role("row").nth(1).get_by_role("cell", name="active").click()
    expect(page).to_have_url(re.compile(r"/admin/licenses/\d+$"))
