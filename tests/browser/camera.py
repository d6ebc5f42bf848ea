"""Pictures of the pages, for people to look at after the tests."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import FloatRect, Page, ViewportSize

from tests.browser.waiting import undisturbed

Scheme = Literal["light", "dark"]
DESK: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
#: The largest height of a picture; longer pages are cut off.
_MAX_HEIGHT = 3000
SCHEMES: tuple[Scheme, ...] = ("light", "dark")


class Camera:
    """Takes pictures into a folder; none without one."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def take(self, page: Page, name: str, *, schemes: Sequence[Scheme] = SCHEMES) -> None:
        """Take the whole page on a desktop and a phone, light and dark, as ``name-1280-light.png`` and so
        on. Fails if it scrolls sideways on a phone.
        """
        if self._folder is not None:
            self._take_all(self._folder, page, name, schemes)
        check_fits(page)

    def snap(self, page: Page, name: str) -> None:
        """Take what the window shows, as ``name.png``: what closes when the window gets another size."""
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=self._folder / f"{name}.png", animations="disabled")

    def _take_all(self, folder: Path, page: Page, name: str, schemes: Sequence[Scheme]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for size in (DESK, PHONE):
            page.set_viewport_size(size)
            height = undisturbed(page, lambda: page.evaluate("document.documentElement.scrollHeight"))
            part: FloatRect = {
                "x": 0,
                "y": 0,
                "width": size["width"],
                "height": min(max(height, size["height"]), _MAX_HEIGHT),
            }
            for scheme in schemes:
                page.emulate_media(color_scheme=scheme)
                path = folder / f"{name}-{size['width']}-{scheme}.png"
                page.screenshot(path=path, full_page=True, clip=part, animations="disabled")
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(DESK)


@contextmanager
def viewport(page: Page, size: ViewportSize, scheme: Scheme = "light") -> Iterator[None]:
    """Show the page in a window of this size, with light or dark colors; as on a desktop again afterwards."""
    page.set_viewport_size(size)
    page.emulate_media(color_scheme=scheme)
    yield
    page.set_viewport_size(DESK)
    page.emulate_media(color_scheme="light")


def check_fits(page: Page) -> None:
    """Fail if the page scrolls sideways on a phone."""
    with viewport(page, PHONE):
        width, too_wide = undisturbed(page, lambda: page.evaluate(_WIDTHS))
    assert width <= PHONE["width"], f"{page.url} is {width} px wide on a phone:\n" + "\n".join(too_wide)


# And what is too wide.
_WIDTHS = """() => [document.documentElement.scrollWidth, [...document.body.querySelectorAll("*")]
    .filter((one) => one.getBoundingClientRect().right > window.innerWidth + 1)
    .slice(0, 10)
    .map((one) => one.outerHTML.slice(0, 150))]"""
