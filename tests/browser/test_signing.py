"""The pages about signed answers: a license file by the vendor, by the customer, and the public key."""

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.axe import Axe
from tests.browser.camera import Camera, check_fits
from tests.browser.watching import Visitor
from tests.http.admin_licenses import activate, make
from tests.server import RunningServer


def test_a_customer_without_a_network_gets_a_file(
    visitor: Visitor, server: RunningServer, axe: Axe, camera: Camera, tmp_path: Path
) -> None:
    page, license = visitor.page, make(server)
    page.goto("/offline")
    axe.check(page)
    asked = json.dumps({"license_key": license.key, "fingerprint": "device-without-a-network"})
    text = "keywright-request:" + base64.urlsafe_b64encode(asked.encode()).rstrip(b"=").decode()
    page.get_by_label("Text that the program shows").fill(text)
    page.get_by_role("button", name="Show the license file").click()
    shown = page.get_by_label("License file")
    expect(shown).to_have_value(re.compile("^-----BEGIN KEYWRIGHT LICENSE-----\n"))
    axe.check(page)
    check_fits(page)
    camera.take(page, "offline-file")
    with page.expect_download() as found:
        page.get_by_role("button", name="Save as a file").click()
    found.value.save_as(tmp_path / "license.txt")
    assert (tmp_path / "license.txt").read_text().startswith("-----BEGIN KEYWRIGHT LICENSE-----\n")


def test_the_vendor_downloads_a_file_and_sees_the_public_key(
    signed_in: Callable[[str], Visitor], server: RunningServer, axe: Axe, camera: Camera
) -> None:
    ada, license = signed_in("ada").page, make(server)
    activate(server, license, label="Studio")
    ada.goto(f"/admin/licenses/{license.id}/file")
    axe.check(ada)
    check_fits(ada)
    camera.take(ada, "license-file")
    with ada.expect_download() as found:
        ada.get_by_role("button", name="Download").click()
    assert found.value.suggested_filename == f"license-{license.id}.txt"
    ada.goto("/admin/signing-keys")
    axe.check(ada)
    check_fits(ada)
