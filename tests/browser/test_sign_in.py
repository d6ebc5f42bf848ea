"""Signing in and out."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.axe import Axe
from tests.browser.camera import Camera
from tests.browser.people import sign_in
from tests.browser.watching import Visitor
from tests.http.admin_browser import ROLES
from tests.server import RunningServer

SignedIn = Callable[[str], Visitor]


@pytest.mark.parametrize("name", ROLES)
def test_each_user_signs_in_and_out(visitor: Visitor, server: RunningServer, name: str) -> None:
    page = visitor.page
    sign_in(page, name)
    who = page.get_by_role("banner").get_by_role("link", name=name)
    expect(who).to_contain_text(ROLES[name])
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("You are signed out")
    page.goto("/admin/account")
    expect(page).to_have_url(re.compile("/admin/sign-in"))
    assert server.count("sessions") == 0


def test_a_wrong_password_is_refused_as_an_unknown_name_is(
    visitor: Visitor, server: RunningServer, axe: Axe, camera: Camera
) -> None:
    page = visitor.page
    page.goto("/admin/sign-in")
    axe.check(page)
    camera.take(page, "sign-in")
    visitor.watch.expect(403)
    said = []
    for name in ("ada", "nobody"):
        sign_in(page, name, "not the password", is_right=False)
        said.append(page.get_by_role("alert").inner_text())
        expect(page.get_by_label("Name")).to_have_value(name)
        expect(page.get_by_label("Password")).to_have_value("")
    assert said == ["The name or the password is wrong."] * 2
    axe.check(page)
    camera.take(page, "sign-in-wrong")
    assert server.count("sessions") == 0


def test_who_has_to_sign_in_first_comes_to_the_page_that_was_wanted(visitor: Visitor) -> None:
    visitor.page.goto("/admin/account")
    expect(visitor.page).to_have_url(re.compile("/admin/sign-in"))
    sign_in(visitor.page, "carol", path=None)
    expect(visitor.page).to_have_url(re.compile("/admin/account$"))


def test_a_session_that_was_ended_elsewhere_is_over(signed_in: SignedIn, server: RunningServer) -> None:
    here, there = signed_in("bob").page, signed_in("bob").page
    here.goto("/admin/account")
    here.get_by_role("button", name="Sign out everywhere else").click()
    expect(here.get_by_role("status")).to_contain_text("signed out everywhere else")
    there.goto("/admin/account")
    expect(there).to_have_url(re.compile("/admin/sign-in"))
    here.reload()
    expect(here.get_by_role("heading", name="My account")).to_be_visible()
