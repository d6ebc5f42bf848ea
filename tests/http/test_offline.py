"""The page for machines without a network: it converts a program's request to a license file."""

import base64
import hashlib
import json
import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from keywright.licensing.licenses.model import Status
from keywright.provisioning.brand import FooterLink, SaveBrand
from keywright.signing import store
from keywright.signing.jws import read_signed
from keywright.signing.rules import read_license_file
from tests.http.admin_browser import asked, decide, look_up
from tests.http.admin_licenses import make
from tests.makers import set_terms
from tests.portal import PortalVisitor
from tests.server import NO_LIMITS, RunningServer, running, wait_until
from tests.tables import each_row

DEVICE = "device-without-a-network"


def request_of(key: str, **members: Any) -> str:
    """The request that a program shows."""
    asked = json.dumps({"license_key": key, "fingerprint": DEVICE, "name": "Studio", **members})
    return "keywright-request:" + base64.urlsafe_b64encode(asked.encode()).rstrip(b"=").decode()


def send(server: RunningServer, text: str, **fields: str) -> httpx.Response:
    form = urlencode({"request": text, **fields})
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    # Without loading the CA certificates, which takes 20 ms each time.
    url = f"{server.base_url}/offline"
    return httpx.post(url, content=form, headers=headers, timeout=60, verify=False)  # noqa: S501


def read(server: RunningServer, content: bytes) -> dict[str, Any]:
    newest = look_up(server, store.list_keys)[0]
    claims: dict[str, Any] = json.loads(read_signed(read_license_file(content), newest.public_key))
    return claims


def error_of(answer: httpx.Response) -> str:
    found = re.search(r'<p class="error" role="alert">([^<]*)</p>', answer.text)
    return "" if found is None else unescape(found[1])


@pytest.mark.smoke
def test_a_request_that_is_pasted_gives_the_file_of_its_device(server: RunningServer) -> None:
    license = make(server, times_activated_max=1)
    text = request_of(license.key)
    shown = send(server, f"My program says:\n{text[:40]}\n  {text[40:]}\r\n")
    assert shown.status_code == 200
    claims = read(server, unescape(shown.text).encode())
    assert claims["activation"]["fingerprint"] == DEVICE
    assert (claims["valid"], claims["license"]["activations"]) == (True, 1)
    assert claims["sub"] == f"license:{license.id}"
    # The device has its place: repeating the request takes no other.
    saved = send(server, text, download="yes")
    assert saved.headers["content-type"] == "text/plain; charset=utf-8"
    assert saved.headers["content-disposition"] == 'attachment; filename="license.txt"'
    assert read(server, saved.content)["license"]["activations"] == 1
    other = send(server, request_of(license.key, fingerprint="device-number-two"))
    assert other.status_code == 409
    assert error_of(other) == "Every place of the license is taken: 1 of 1."


def test_a_license_that_cannot_be_kept_takes_no_place(server: RunningServer) -> None:
    license = make(server)
    decide(server, set_terms({"offline_days": 0}, license.id))
    answer = send(server, request_of(license.key))
    assert (answer.status_code, error_of(answer)) == (409, "The license cannot be used offline.")
    assert server.sql(f"SELECT times_activated FROM licenses WHERE id = {license.id}") == [(0,)]  # noqa: S608


def test_the_page_speaks_the_language_of_the_customer(server: RunningServer) -> None:
    """That of the portal, if the customer comes from there, else that of the browser."""
    for chosen, language, title in (
        ("", "de-AT", "Lizenzdatei für einen Computer ohne Internet"),
        ("", "xx", "License file for a computer without internet"),
        ("?language=de", "fr", "Lizenzdatei für einen Computer ohne Internet"),
        ("?language=xx", "de", "Lizenzdatei für einen Computer ohne Internet"),
    ):
        address, headers = f"{server.base_url}/offline{chosen}", {"Accept-Language": language}
        for page in (httpx.get(address, headers=headers), httpx.post(address, headers=headers)):
            assert title in unescape(page.text), (chosen, language)
    with PortalVisitor(server) as visitor:
        visitor.post("/language", language="ja")
        assert 'href="/offline?language=ja"' in visitor.get("").text


def test_the_page_has_the_vendors_brand_and_still_needs_nothing_from_anywhere(server: RunningServer) -> None:
    logo = b"\x89PNG\r\n\x1a\n" + b"0" * 20
    link = FooterLink("Imprint", "https://example.com/imprint")
    brand = SaveBrand(**asked(name="Lumen & Co", color="#8a1f5c", links=(link,), logo=logo))
    decide(server, brand)
    wait_until(lambda: "Imprint" in httpx.get(f"{server.base_url}/offline").text, "the brand")
    page = httpx.get(f"{server.base_url}/offline")
    style = page.text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    for part in ("default-src 'none'", "form-action 'self'", f"'sha256-{digest}'"):
        assert part in page.headers["content-security-policy"]
    assert ("script" in page.text, page.headers["cache-control"]) == (False, "no-store")
    assert "#8a1f5c" in style
    image = base64.b64encode(logo).decode()
    assert f'<img src="data:image/png;base64,{image}" alt="Lumen &amp; Co">' in page.text
    decide(server, SaveBrand(**asked(name=None, color=None, links=(), logo=None)))


def test_what_stands_against_it_is_said_to_the_customer(server: RunningServer) -> None:
    disabled = make(server, status=Status.DISABLED)
    for text, status, part in (
        (request_of(disabled.key), 409, "disabled"),
        (request_of("NO-SUCH-KEY"), 404, "No license has this key"),
        (request_of(make(server).key, product="editor"), 409, "another product"),
    ):
        answer = send(server, text)
        assert answer.status_code == status
        assert part in error_of(answer)


@each_row(
    "text",
    [
        *("", "Dear Anna", "keywright-request:" + "A" * 9000, request_of("\0")),
        *("keywright-request:", "keywright-request:e30", "keywright-request:bm8"),
        *(request_of("K", fingerprint=one) for one in ("short", "a null \0")),
        *(request_of("K", name=one) for one in (5, "\0")),
        *(request_of("K", product=one) for one in ("\0", 2**64)),
        *(request_of("K", built_at=one) for one in ("2026-11-22", "0001-01-01T00:00:00+23:00")),
    ],
)
def test_what_is_no_request_is_refused(server: RunningServer, text: str) -> None:
    answer = send(server, text)
    sentence = "This is not a request of a program. Copy all of it, from keywright-request: to the end."
    assert (answer.status_code, error_of(answer)) == (400, sentence)


def test_other_methods_and_broken_forms_are_refused(server: RunningServer) -> None:
    assert httpx.put(f"{server.base_url}/offline").status_code == 405
    assert httpx.post(f"{server.base_url}/offline", content=b"\xff=%").status_code == 400
    assert httpx.post(f"{server.base_url}/offline").status_code == 400
    assert httpx.post(f"{server.base_url}/offline", content=b"x" * 100_000).status_code == 413


def test_keys_cannot_be_tried_faster_than_over_v3(tmp_path: Path) -> None:
    with running(tmp_path / "data", **NO_LIMITS | {"unknown_key_limit": 3}) as server:
        answers = [send(server, request_of(f"NO-KEY-{number}")).status_code for number in range(5)]
        assert (answers[0], answers[-1]) == (404, 429)
        refused = send(server, request_of("NO-KEY-9"))
        assert re.fullmatch(r"Too many attempts. Please try again in \d+ seconds?\.", error_of(refused))
        # They share one limit.
        body = {"license_key": "NO-KEY"}
        assert httpx.post(f"{server.base_url}/v3/validate", json=body).status_code == 429
