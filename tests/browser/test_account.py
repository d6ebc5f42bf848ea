"""A user changes their password."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from keywright.identity.model import CreateUser, Role
from tests.browser.axe import Axe
from tests.browser.camera import Camera
from tests.browser.people import sign_in
from tests.browser.watching import Visitor
from tests.http.admin_browser import PASSWORD, asked, decide
from tests.makers import a_cheap_hash
from tests.server import RunningServer

_ANOTHER = "a horse that is another"


def change(page: Page, old: str, new: str, repeated: str) -> None:
    page.goto("/admin/account")
    page.get_by_label("Current password").fill(old)
    page.get_by_label("New password", exact=True).fill(new)
    page.get_by_label("Repeat the new password").fill(repeated)
    page.get_by_role("button", name="Change password").click()


def test_a_new_password_is_the_one_to_sign_in_with(
    visitor: Visitor, signed_in: Callable[[str], Visitor], server: RunningServer
) -> None:
    create = CreateUser(**asked(name="dora", role=Role.READER, password_hash=a_cheap_hash(PASSWORD)))
    decide(server, create)
    here, elsewhere = signed_in("dora").page, signed_in("dora").page
    change(here, PASSWORD, _ANOTHER, _ANOTHER)
    expect(here.get_by_role("status")).to_contain_text("Your password was changed")
    elsewhere.goto("/admin/account")
    expect(elsewhere).to_have_url(re.compile("/admin/sign-in"))
    visitor.watch.expect(403)
    sign_in(visitor.page, "dora", PASSWORD, is_right=False)
    sign_in(visitor.page, "dora", _ANOTHER)


def test_what_is_wrong_is_said_at_its_field(
    signed_in: Callable[[str], Visitor], axe: Axe, camera: Camera
) -> None:
    bob = signed_in("bob")
    bob.watch.expect(422)
    change(bob.page, "not the password", _ANOTHER, "yet another one")
    for label, said in (("Current password", "not your"), ("Repeat the new password", "are different")):
        expect(bob.page.get_by_label(label)).to_have_accessible_description(re.compile(said))
        expect(bob.page.get_by_label(label)).to_have_attribute("aria-invalid", "true")
    axe.check(bob.page)
    camera.take(bob.page, "account-wrong")
