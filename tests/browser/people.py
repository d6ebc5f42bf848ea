"""Users in a browser."""

from playwright.sync_api import Page, expect

from tests.http.admin_browser import PASSWORD


def sign_in(
    page: Page,
    name: str,
    password: str = PASSWORD,
    *,
    path: str | None = "/admin/sign-in",
    is_right: bool = True,
) -> None:
    """Sign in as this user, on the page at ``path`` or on the open one."""
    if path is not None:
        page.goto(path)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    if is_right:
        expect(page.get_by_role("button", name="Sign out", exact=True)).to_be_visible()
    else:
        expect(page.get_by_role("alert")).to_be_visible()
