"""Signing in with the accounts of a real OpenID provider (npm oidc-provider)."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import Axe
from tests.browser.camera import Camera
from tests.browser.chromium import TIMEOUT
from tests.browser.people import sign_in
from tests.browser.watching import a_visitor
from tests.deploy.programs import give_up
from tests.http.admin_browser import make_users
from tests.server import MAIL_WAITS, RunningServer, running

_HERE = Path(__file__).parent
BUTTON = "Sign in with your company's account"


@contextmanager
def a_real_provider(redirect_uri: str) -> Iterator[str]:
    """The issuer of a provider that runs as long as the block."""
    if shutil.which("node") is None or not (_HERE / "node_modules" / "oidc-provider").exists():
        give_up("oidc-provider", "no oidc-provider here: npm ci --prefix tests/browser")
    command = ["node", str(_HERE / "provider.mjs"), redirect_uri]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as program:
        assert program.stdout is not None
        try:
            yield program.stdout.readline().strip()
        finally:
            program.kill()


@contextmanager
def a_page(browser: Browser, server: RunningServer) -> Iterator[Page]:
    """A browser that may go to other hosts, whose pages load what they like."""
    context = browser.new_context(base_url=server.base_url)
    context.route("https://**", lambda route: route.abort())
    context.set_default_timeout(TIMEOUT)
    try:
        yield context.new_page()
    finally:
        context.close()


def sign_in_there(page: Page, account: str) -> None:
    page.get_by_placeholder("Enter any login").fill(account)
    page.get_by_placeholder("and password").fill("anything")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def test_an_account_of_a_real_provider_signs_in_and_a_lost_group_ends_it(
    browser: Browser, axe: Axe, camera: Camera, tmp_path: Path
) -> None:
    with running(tmp_path / "data", **MAIL_WAITS) as server:
        make_users(server, "ada")
        callback = f"{server.base_url}/admin/sign-in/company/callback"
        with a_real_provider(callback) as issuer:
            _set_up(browser, server, issuer, axe, camera)
            with a_page(browser, server) as page:
                page.goto("/admin/licenses?status=sold")
                axe.check(page)
                camera.take(page, "sign-in-company")
                page.get_by_role("link", name=BUTTON).click()
                sign_in_there(page, "eva.desk")
                expect(page).to_have_url(re.compile(r"/admin/licenses\?status=sold$"))
                expect(page.get_by_role("banner")).to_contain_text("eva@example.com")
                # The check: the provider knows her still, and asks nothing.
                page.context.clear_cookies(name="keywright")
                page.goto("/admin/customers")
                expect(page).to_have_url(re.compile("/admin/customers$"))
                page.get_by_role("button", name="Sign out", exact=True).click()
                expect(page.get_by_role("link", name=BUTTON)).to_be_visible()
            with a_page(browser, server) as page:
                page.goto("/admin/sign-in")
                page.get_by_role("link", name=BUTTON).click()
                sign_in_there(page, "kim.canteen")
                expect(page.get_by_role("alert")).to_contain_text("has no access to these pages")


def _set_up(browser: Browser, server: RunningServer, issuer: str, axe: Axe, camera: Camera) -> None:
    values: dict[str, Any] = {
        "Provider": issuer,
        "Client ID": "keywright",
        "Client secret": "a secret of tests",
        "Support": "desk, helpers",
    }
    with a_visitor(browser, server.base_url) as visitor:
        page = visitor.page
        sign_in(page, "ada")
        page.goto("/admin/settings#company")
        for label, value in values.items():
            page.locator("#company").get_by_label(label, exact=True).fill(value)
        axe.check(page)
        camera.take(page, "settings-company")
        page.get_by_role("button", name="Save: Sign-in with your company's accounts").click()
        expect(page.get_by_role("status")).to_contain_text("Saved.")
