"""Write docs/images/overview.png: the administration pages with demo data.

python -m tools.screenshot [PATH [FILE]]    another page and file: /admin/licenses/276 docs/images/license.png
python -m tools.screenshot /portal docs/images/portal.png    the portal, as a customer of the demo
"""

import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from playwright.sync_api import FloatRect, Page, ViewportSize

from keywright.cli.demo import fill
from keywright.core.command import Origin
from keywright.http.pages.render import PORTAL
from keywright.licensing.activations.model import ActivateDevice, Device
from keywright.provisioning.brand import SaveBrand
from keywright.provisioning.portal.model import MakePortalLink
from tests.browser.chromium import a_browser
from tests.browser.people import sign_in
from tests.browser.watching import a_visitor
from tests.http.admin_browser import asked, decide, make_users, opened
from tests.portal import make_customer, make_license, make_product
from tests.server import RunningServer, running

OVERVIEW = Path(__file__).parent.parent / "docs" / "images" / "overview.png"
#: The maximum size of a picture in the documents, in bytes.
MAX_BYTES = 150_000
#: The vendor of the demo data, and its color.
_VENDOR, _COLOR = "Lumen Works", "#1f4fd8"
#: The licenses of the customer in the pictures of the portal: product, key, purchase (days ago), and devices
#: with name, platform and activation (days ago).
_IMAC, _MACBOOK = ("Studio iMac", "macOS 26", 211), ("MacBook", "macOS 26", 34)
_OWNED = (
    (
        "Lumen Studio",
        "STUDIO-7QK2-M8VX-Z4RD",
        212,
        (_IMAC, _MACBOOK),
    ),
    ("Lumen Field Kit", "FIELD-3HV9-R2TC-8KWM", 41, (("Ada's laptop", "Windows 11", 40),)),
)
_WINDOW: ViewportSize = {"width": 1280, "height": 860}


def take(path: str) -> bytes:
    """Take a PNG picture of a page, on a temporary server with weeks of demo data."""
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
    # Remove the focus ring.
    page.evaluate("document.activeElement.blur()")
    return page.screenshot(animations="disabled")


def _picture_of_portal(page: Page, server: RunningServer, path: str) -> bytes:
    """Take a picture of a portal page, without the footer."""
    customer = make_customer(server, "ada@example.com", name="Ada Lovelace")
    for product, key, bought, devices in _OWNED:
        terms = {
            "max_activations": 3,
            "valid_for_days": 365,
            "portal_removals": {"count": 3, "per_days": 365},
        }
        number = make_product(server, product)
        make_license(server, key, customer, terms=terms, product_id=number, now=_days_ago(bought))
        for name, platform, days in devices:
            device = Device(fingerprint=f"{name} of Ada", name=name, platform=platform)
            origin = Origin("program", "192.0.2.7", "")
            fields = asked(license=key, device=device, origin=origin, now=_days_ago(days))
            decide(server, ActivateDevice(**fields))
    decide(server, SaveBrand(**asked(name=_VENDOR, color=_COLOR, links=())))
    decide(server, MakePortalLink(**asked(customer_id=customer, token="picture")))
    page.set_viewport_size(_WINDOW)
    page.goto(f"{PORTAL}/link/picture")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Account").wait_for()
    page.goto(path)
    # The server checks for changes of the brand every few seconds.
    while not page.get_by_role("banner").get_by_text(_VENDOR).count():
        page.wait_for_timeout(500)
        page.reload()
    footer = page.locator("footer").bounding_box()
    height = min(footer["y"] if footer else _WINDOW["height"], _WINDOW["height"])
    area: FloatRect = {"x": 0, "y": 0, "width": _WINDOW["width"], "height": height}
    return page.screenshot(animations="disabled", clip=area)


def _days_ago(days: int) -> datetime:
    return datetime.now(UTC).replace(microsecond=0) - timedelta(days=days)


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
