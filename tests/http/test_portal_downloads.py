"""In the portal, customers download what their licenses cover, and create and revoke update tokens."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from keywright.http.portal.downloads import read_system
from keywright.licensing.updates.model import Updates
from keywright.provisioning.products import ProductFields, UpdateProduct
from keywright.provisioning.releases.commands import YankRelease
from tests.http.admin_browser import asked, decide
from tests.portal import PortalVisitor, make_customer, make_license, make_product, publish_release, said
from tests.server import RunningServer

NOW = datetime.now(UTC)
WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/142.0 Safari/537.36"
MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1 Version/18.5 Safari/605.1"
ANDROID = "Mozilla/5.0 (Linux; Android 16; Pixel 9) AppleWebKit/537.36 Chrome/142.0 Mobile Safari/537.36"
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1 Mobile/15E148 Safari/604.1"
LINUX = "Mozilla/5.0 (X11; Linux aarch64; rv:140.0) Gecko/20100101 Firefox/140.0"
_URL = re.compile(r'href="(/d/[a-z2-7]+/[^"]+)"')


def test_the_system_is_that_of_the_browser() -> None:
    found = {text: read_system(text) for text in (WINDOWS, MAC, ANDROID, PHONE, LINUX, "curl/8", "")}
    assert found == {
        WINDOWS: ("windows", "x86_64"),
        MAC: ("macos", None),
        ANDROID: ("android", None),
        PHONE: ("ios", None),
        LINUX: ("linux", "arm64"),
        "curl/8": (None, None),
        "": (None, None),
    }


class Shop:
    """A product with releases, and Ann, who owns licenses of it."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.product = make_product(server, "Downloaded")
        self.ann = make_customer(server, "ann@downloads.example")
        old = {"released_at": NOW - timedelta(days=90)}
        self.releases = [
            publish_release(server, self.product, version, how=how, **members)
            for version, how, members in (
                ("1.0", old, {"notes": "The <first> one."}),
                ("2.0", {}, {}),
                ("3.0", {}, {"entitlements": ["pro"]}),
            )
        ]
        self.visitor = PortalVisitor(server).sign_in("ann@downloads.example", self.ann)

    def license(self, key: str, **members: Any) -> int:
        return make_license(self.server, key, self.ann, product_id=self.product, **members)


@pytest.fixture(scope="module")
def shop(server: RunningServer) -> Iterator[Shop]:
    shop = Shop(server)
    with shop.visitor:
        yield shop


def versions_of(page: httpx.Response) -> list[str]:
    return re.findall(r"<span>Version ([^<]+)</span>", page.text)


def test_what_is_covered_is_offered_for_the_browsers_system(shop: Shop) -> None:
    number = shop.license("DOWNLOADS-1", terms={"device": "required"})
    page = shop.visitor.get(f"/licenses/{number}", **{"User-Agent": MAC})
    assert versions_of(page) == ["2.0"]
    own, _, folded = page.text.partition("For other systems")
    assert ("app-2.0.dmg" in own, "app-2.0.msi" in own, "app-2.0.msi" in folded) == (True, False, True)
    assert "<details open>" not in page.text
    every = shop.visitor.get(f"/licenses/{number}/downloads", **{"User-Agent": LINUX})
    assert versions_of(every) == ["2.0", "1.0"]
    assert every.text.count("<details open>") == 2, "no file is for this system: all are shown"
    assert "The &lt;first&gt; one." in every.text
    assert f"SHA-256 {'1' * 64}" in said(every)
    assert "1.5 MB" in said(every)
    for shown in (page, every):
        found = shop.visitor.http.get(_URL.findall(shown.text)[0])
        assert (found.status_code, found.headers["location"]) == (
            302,
            "https://files.example.com/app-2.0.dmg",
        )
    older = shop.visitor.get(f"/licenses/{number}/downloads?below=2")
    assert versions_of(older) == ["1.0"]


def test_an_expired_license_gets_what_it_covered(shop: Shop) -> None:
    terms = {"after_expiry": "older_versions"}
    number = shop.license("DOWNLOADS-2", terms=terms, has_expiry=True, expires_at=NOW - timedelta(days=30))
    page = shop.visitor.get(f"/licenses/{number}/downloads")
    assert versions_of(page) == ["1.0"]
    pro = shop.license("DOWNLOADS-3", terms={"entitlements": ["pro"]})
    assert versions_of(shop.visitor.get(f"/licenses/{pro}/downloads")) == ["3.0", "2.0", "1.0"]
    refused = shop.license(
        "DOWNLOADS-4", terms={"after_expiry": "refuse"}, has_expiry=True, expires_at=NOW - timedelta(days=1)
    )
    empty = shop.visitor.get(f"/licenses/{refused}/downloads")
    assert "There is nothing to download for this license." in said(empty)
    assert "/downloads" not in shop.visitor.get(f"/licenses/{refused}").text


def test_with_a_key_alone_there_are_downloads_and_no_tokens(shop: Shop) -> None:
    shop.license("DOWNLOADS-KEY")
    with PortalVisitor(shop.server) as stranger:
        stranger.enter_key("DOWNLOADS-KEY")
        assert versions_of(stranger.get("/license")) == ["2.0"]
        page = stranger.get("/license/downloads")
        assert versions_of(page) == ["2.0", "1.0"]
        assert "Update tokens" not in page.text
        assert "DOWNLOADS-KEY" not in page.text


def test_a_product_that_is_closed_and_a_release_that_was_yanked_have_no_downloads(
    server: RunningServer,
) -> None:
    product, ann = make_product(server, "Withdrawn"), make_customer(server, "ann@withdrawn.example")
    _, second = (publish_release(server, product, one) for one in ("1.0", "2.0"))
    number = make_license(server, "DOWNLOADS-CLOSED", ann, product_id=product)
    with PortalVisitor(server) as visitor:
        visitor.sign_in("ann@withdrawn.example", ann)
        url = _URL.findall(visitor.get(f"/licenses/{number}").text)[0]
        decide(server, YankRelease(**asked(release_id=second)))
        assert versions_of(visitor.get(f"/licenses/{number}/downloads")) == ["1.0"]
        assert visitor.http.get(url).status_code == 403
        decide(server, UpdateProduct(**asked(id=product, fields=ProductFields(updates=Updates.CLOSED))))
        assert versions_of(visitor.get(f"/licenses/{number}/downloads")) == []


def test_an_update_token_is_made_shown_once_and_ended(shop: Shop) -> None:
    number, visitor = shop.license("DOWNLOADS-5"), shop.visitor
    made = visitor.post(f"/licenses/{number}/update-tokens")
    token = re.findall(r"upd_[a-z2-7]{32}", made.text)[0]
    body = {"update_token": token, "platform": "windows"}
    asked_for = visitor.http.post("/v3/updates", json=body).json()
    assert (asked_for["code"], asked_for["release"]["version"]) == ("update_available", "2.0")
    page = visitor.get(f"/licenses/{number}/downloads")
    assert (token in page.text, token[:8] in page.text) == (False, True)
    [path] = re.findall(r'action="/portal(/licenses/[0-9]+/update-tokens/[0-9]+/end)"', page.text)
    other = shop.license("DOWNLOADS-6")
    elsewhere = visitor.post(path.replace(f"/{number}/", f"/{other}/"))
    assert "This page does not exist" not in said(elsewhere)
    assert visitor.http.post("/v3/updates", json=body).json()["code"] == "update_available"
    assert visitor.post(path).headers["location"] == f"/portal/licenses/{number}/downloads"
    assert "The update token has ended." in said(visitor.get(f"/licenses/{number}/downloads"))
    assert visitor.http.post("/v3/updates", json=body).json()["code"] == "unknown_license"
    decided = [visitor.post(path), visitor.post(f"/licenses/{number}/update-tokens/{2**62}/end")]
    assert {one.status_code for one in decided} == {303}


def test_other_customers_get_neither_downloads_nor_tokens(shop: Shop) -> None:
    number = shop.license("DOWNLOADS-7")
    eve = make_customer(shop.server, "eve@downloads.example")
    before = shop.server.count("update_tokens")
    with PortalVisitor(shop.server) as visitor:
        visitor.sign_in("eve@downloads.example", eve)
        refused = [
            visitor.get(f"/licenses/{number}/downloads"),
            visitor.post(f"/licenses/{number}/update-tokens"),
            visitor.post(f"/licenses/{number}/update-tokens/1/end"),
            visitor.get(f"/licenses/{2**70}/downloads"),
        ]
        assert [one.status_code for one in refused] == [404] * 4
    assert shop.server.count("update_tokens") == before
