"""Write docs/images/overview.png: the administration pages, filled with demo data.

python -m tools.screenshot [PATH [FILE]]    another page and file: /admin/licenses/276 docs/images/license.png
python -m tools.screenshot /portal docs/images/portal.png    the customer's portal, as a customer of the demo
"""

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from playwright.sync_api import Page, ViewportSize

from keywright.cli.demo_data import fill
from keywright.http.pages.urls import PORTAL
from keywright.provisioning.portal.commands import MakePortalLink
from tests.browser.chromium import a_browser
from tests.browser.people import sign_in
from tests.browser.watching import a_visitor
from tests.http.admin_browser import asked, decide, make_users, opened
from tests.portal import make_customer, make_license, make_product
from tests.server import RunningServer, running

OVERVIEW = Path(__file__).parent.parent / "docs" / "images" / "overview.png"
#: The largest size of a picture in the documents, in bytes.
MAX_BYTES = 150_000
#: What the customer in the pictures of the portal has: products, keys, devices.
_OWNED = (
    ("Photo Editor", "PHOTO-7QK2-M8VX-Z4RD", ("Ada's laptop", "Studio iMac")),
    ("Sound Mixer", "SOUND-3HV9-R2TC-8KWM", ("Ada's laptop",)),
)
_WINDOW: ViewportSize = {"width": 1280, "height": 860}


def take(path: str) -> bytes:
    """Take a picture of this page, as PNG, on a server of its own with weeks of demo data."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder) / "data") as server,
        a_browser() as browser,
        a_visitor(browser, server.base_url) as visitor,
    ):
        make_users(server)
        with opened(server) as storage:
            fill(storage, datetime.now(UTC).replace(microsecond=0))
        if path.startswith(PORTAL):
            return _picture_of_portal(visitor.page, server, path)
        return _picture(visitor.page, path)


def _picture(page: Page, path: str) -> bytes:
    page.set_viewport_size(_WINDOW)
    sign_in(page, "ada")
    page.goto(path)
    # Without the focus ring.
    page.evaluate("document.activeElement.blur()")
    return page.screenshot(animations="disabled")


def _picture_of_portal(page: Page, server: RunningServer, path: str) -> bytes:
    """The page as a customer sees it."""
    customer = make_customer(server, "ada@example.com", name="Ada Lovelace")
    for product, key, devices in _OWNED:
        terms = {"max_activations": 3, "portal_releases": {"count": 3, "per_days": 365}}
        number = make_product(server, product)
        make_license(server, key, customer, devices=devices, terms=terms, product_id=number)
    decide(server, MakePortalLink(**asked(customer_id=customer, token="picture")))
    page.set_viewport_size(_WINDOW)
    page.goto(f"{PORTAL}/link/picture")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Account").wait_for()
    page.goto(path)
    return page.screenshot(animations="disabled")


def main(arguments: list[str]) -> int:
    """Take the picture; return the exit status."""
    if len(arguments) > 2 or any(one.startswith("-") for one in arguments):
        print((__doc__ or "").strip())
        return 2
    path = arguments[0] if arguments else "/admin"
    file = Path(arguments[1]) if len(arguments) > 1 else OVERVIEW
    picture = take(path)
    if len(picture) > MAX_BYTES:
        print(f"The picture has {len(picture):,} bytes; {MAX_BYTES:,} are allowed.")
        return 1
    file.write_bytes(picture)
    print(f"{file}: {len(picture):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
