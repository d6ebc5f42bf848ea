"""From a new server to its first administrator."""

import re
from collections.abc import Iterator
from functools import partial

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import Axe
from tests.browser.camera import Camera
from tests.browser.checks import Checks
from tests.browser.people import sign_in
from tests.browser.walking import menu, name_of
from tests.browser.watching import Visitor, a_visitor
from tests.http.admin_browser import PASSWORD, make_users
from tests.server import RunningServer, running

_LINK = re.compile(r'"setup_link":"(http://[^"]+/admin/setup\?token=[^"]+)"')


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A new server."""
    with running(tmp_path_factory.mktemp("new") / "data") as started:
        yield started


def link(server: RunningServer) -> str:
    found = _LINK.search(server.log)
    assert found is not None
    return found[1]


def choose(page: Page, name: str, password: str, repeated: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_label("Repeat the password").fill(repeated)
    page.get_by_role("button", name="Create administrator").click()


def test_the_link_that_the_server_prints_makes_the_first_administrator(
    server: RunningServer, visitor: Visitor, axe: Axe, camera: Camera
) -> None:
    page = visitor.page
    page.goto("/admin")
    expect(page).to_have_title(re.compile("Sign in"))
    expect(page.get_by_text("keywright user link")).to_be_visible()
    axe.check(page)
    camera.take(page, "no-users-yet")

    page.goto(link(server))
    axe.check(page)
    camera.take(page, "setup")
    visitor.watch.expect(422)
    choose(page, "ada", PASSWORD, "something else entirely")
    expect(page.get_by_label("Repeat the password")).to_have_accessible_description(
        re.compile("are different")
    )
    axe.check(page)
    camera.take(page, "setup-wrong")

    choose(page, "ada", PASSWORD, PASSWORD)
    expect(page.get_by_role("status")).to_contain_text("Welcome, ada")
    assert server.sql("SELECT name, role FROM users") == [("ada", "administrator")]


def test_the_link_is_good_once(server: RunningServer, visitor: Visitor, browser: Browser) -> None:
    visitor.page.goto(link(server))
    choose(visitor.page, "ada", PASSWORD, PASSWORD)
    with a_visitor(browser, server.base_url) as another:
        another.page.goto(link(server))
        expect(another.page).to_have_url(re.compile("/admin/sign-in$"))
        expect(another.page.get_by_role("alert")).to_contain_text("already set up")
        sign_in(another.page, "ada")


def test_a_link_that_was_made_up_makes_nobody(server: RunningServer, visitor: Visitor, axe: Axe) -> None:
    visitor.watch.expect(403)
    visitor.page.goto(link(server)[:-4] + "0000")
    expect(visitor.page.get_by_label("Name")).to_have_count(0)
    axe.check(visitor.page)
    assert server.count("users") == 0


def test_what_is_still_empty_is_a_page_too(
    server: RunningServer, page: Page, axe: Axe, camera: Camera
) -> None:
    make_users(server)
    sign_in(page, "ada")
    checks = Checks()
    for address in menu(page):
        page.goto(address)
        checks.run(axe.check, page)
        checks.run(partial(camera.take, schemes=["light"]), page, f"empty-{name_of(address)}")
    checks.assert_passed()
