"""Setting up a second factor, and signing in with it."""

from collections.abc import Callable

from playwright.sync_api import expect
from pyotp import TOTP

from tests.browser.axe import Axe
from tests.browser.camera import Camera
from tests.browser.waiting import follow
from tests.browser.watching import Visitor
from tests.http.admin_browser import PASSWORD

SignedIn = Callable[[str], Visitor]


def test_a_second_factor_is_set_up_and_asked_for(
    signed_in: SignedIn, visitor: Visitor, axe: Axe, camera: Camera
) -> None:
    page = signed_in("bob").page
    page.goto("/admin/account")
    follow(page, "Set up")
    axe.check(page)
    camera.take(page, "second-factor-enable")
    # Cameras want all of it: the picture fits what is shown of it.
    drawn = page.locator(".qr svg").evaluate("svg => [svg.getBBox().width, svg.viewBox.baseVal.width]")
    assert drawn[0] == drawn[1] > 0
    totp = TOTP(page.locator("#secret").inner_text().replace(" ", ""))
    page.get_by_role("textbox", name="Code").fill(totp.now())
    page.get_by_role("button", name="Turn on").click()
    expect(page.get_by_role("heading", name="Your second factor is set up")).to_be_visible()
    codes = page.locator("#codes").inner_text().split()
    axe.check(page)
    camera.take(page, "second-factor-codes")
    page.get_by_role("link", name="I have saved them").click()
    follow(page, "Manage")
    axe.check(page)
    camera.take(page, "second-factor")
    page.goto("/admin/account")
    camera.take(page, "account-second-factor")

    there = visitor.page
    there.goto("/admin/sign-in")
    there.get_by_label("Name").fill("bob")
    there.get_by_label("Password").fill(PASSWORD)
    there.get_by_role("button", name="Sign in").click()
    code = there.locator("#field-code")
    expect(code).to_be_focused()
    axe.check(there)
    camera.take(there, "second-factor-code")
    visitor.watch.expect(403)
    code.fill("000000")
    there.get_by_role("button", name="Sign in", exact=True).click()
    expect(there.get_by_role("alert")).to_contain_text("This code is wrong")
    there.get_by_text("No access to your app?").click()
    there.get_by_label("Recovery code").fill(codes[0])
    axe.check(there)
    camera.take(there, "second-factor-recovery")
    there.get_by_role("button", name="Use the recovery code").click()
    expect(there.get_by_role("status")).to_contain_text("9 codes left")
