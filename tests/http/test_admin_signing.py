"""The pages about signing keys and license files."""

from typing import Any

import httpx
import msgspec
import pytest

from keywright.signing import store
from keywright.signing.explanation import lines_to_paste, programs_to_paste
from keywright.signing.jws import read_signed
from keywright.signing.rules import read_license_file
from tests.http.admin_browser import Visitor, look_up, said, title
from tests.http.admin_licenses import activate, events, make
from tests.server import RunningServer


def read(server: RunningServer, file: httpx.Response) -> dict[str, Any]:
    """The claims of a license file."""
    newest = look_up(server, store.list_keys)[0]
    claims: dict[str, Any] = msgspec.json.decode(
        read_signed(read_license_file(file.content), newest.public_key)
    )
    return claims


@pytest.mark.smoke
def test_a_license_file_for_a_device_is_downloaded(server: RunningServer, bob: Visitor) -> None:
    license = make(server)
    device = activate(server, license, label="Anna's laptop")
    path = f"/licenses/{license.id}/file"
    assert f'href="/admin{path}"' in bob.get(f"/licenses/{license.id}").text
    form = bob.get(path).text
    assert "Anna&#39;s laptop" in form
    # A file for one device is offered first, because a file for any device can be shared.
    assert f'<option value="{device.token}" selected>' in form
    assert '<option value="">every device</option>' in form
    file = bob.post(path, token=device.token, days="7")
    assert file.headers["content-disposition"] == (f"attachment; filename*=UTF-8''license-{license.id}.txt")
    claims = read(server, file)
    assert claims["exp"] - claims["iat"] == 7 * 86_400
    assert claims["activation"] == {"id": device.id, "fingerprint": None}
    assert "activation" not in read(server, bob.post(path, token="", days=""))
    assert [name for name, _, _ in events(server, license)][-2:] == ["license.file_made"] * 2


def test_what_stands_against_a_license_file_is_said_in_the_form(server: RunningServer, bob: Visitor) -> None:
    license = make(server)
    path = f"/licenses/{license.id}/file"
    assert "must be" in bob.post(path, token="", days="many").text
    refused = bob.post(path, token="0" * 40, days="7")
    assert refused.status_code == 422
    assert "The device holds no place" in refused.text


def test_the_public_key_is_shown_with_the_lines_that_pin_it(server: RunningServer, ada: Visitor) -> None:
    assert 'href="/admin/signing-keys"' in ada.get("/system").text
    shown = ada.get("/signing-keys")
    assert title(shown) == "Signing keys"
    newest = look_up(server, store.list_keys)[0]
    text = shown.text.replace("&#34;", '"')
    for line in lines_to_paste([newest.public_key]).values():
        assert line in text


def test_the_page_of_a_product_shows_how_its_programs_are_licensed(
    server: RunningServer, ada: Visitor
) -> None:
    ada.post("/products/new", number="77", name="Editor", code="editor")
    text = ada.get("/products/77").text.replace("&#34;", '"')
    newest = look_up(server, store.list_keys)[0]
    assert text.count(newest.public_key) == len(programs_to_paste("", None, ())) == 6
    assert text.count(server.base_url) >= 5
    assert text.count('"editor"') == 6


def test_a_key_is_rotated_and_withdrawn(server: RunningServer, ada: Visitor) -> None:
    ada.get("/signing-keys")
    before = look_up(server, store.list_keys)
    assert "Make a new signing key?" in ada.get("/signing-keys/rotate").text
    ada.post("/signing-keys/rotate")
    assert "The new key signs from now on." in said(ada.get("/signing-keys"))
    old = before[0]
    assert look_up(server, store.list_keys)[1] == old
    path = f"/signing-keys/{old.id}/withdraw"
    assert old.kid[:12] in ada.get(path).text
    ada.post(path)
    assert "The key was withdrawn." in said(ada.get("/signing-keys"))
    assert look_up(server, store.list_keys)[1].withdrawn_at is not None
    newest = look_up(server, store.list_keys)[0]
    assert "is the current signing key" in ada.post(f"/signing-keys/{newest.id}/withdraw").text
    assert ada.get("/signing-keys/999999/withdraw").status_code == 404
