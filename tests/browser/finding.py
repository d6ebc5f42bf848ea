"""Find things with the field of the top bar."""

from playwright.sync_api import Page


def find(page: Page, text: str) -> None:
    """Type a text into the field, and send it at once: the first hit, or the page of what was found."""
    field = page.get_by_role("combobox", name="Find anything")
    field.fill(text)
    with page.expect_navigation():
        field.press("Enter")
