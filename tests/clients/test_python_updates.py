"""The Python client asks for updates, downloads them, and refuses what is not right."""

import base64
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from keywright_client import Keywright, VerificationError
from keywright_client.updates import check_for_update, download
from tests.clients.test_python_server import LICENSE_KEY, Vendor
from tests.server import NO_LIMITS, running
from tests.unit.test_versions import MINISIGN_KEY, encode, minisign

CONTENT = b"a build " * 100_000
OTHER_KEY = encode(bytes(32))


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vendor]:
    with running(tmp_path_factory.mktemp("server"), **NO_LIMITS) as server, closing(Vendor(server)) as vendor:
        yield vendor


def publish(vendor: Vendor, version: str) -> None:
    release = vendor.call("POST", "/v3/releases", product_id=vendor.product_id, version=version)["id"]
    content, signed = CONTENT + version.encode(), minisign(CONTENT + version.encode())
    file = vendor.call("POST", f"/v3/releases/{release}/files", name="editor.zip", signature=signed)["id"]
    vendor._client.put(f"/v3/files/{file}/content", content=content).raise_for_status()
    vendor.call("POST", f"/v3/releases/{release}/publish")


def test_a_program_updates_from_1_to_2_and_is_held_back(vendor: Vendor, tmp_path: Path) -> None:
    path = vendor.sell()
    for version in ("1.0", "2.0"):
        publish(vendor, version)

    def program(version: str) -> Keywright:
        return Keywright(
            str(vendor._client.base_url),
            product="editor",
            public_keys=[vendor.public_key],
            app_version=version,
            folder=tmp_path / "kept",
        )

    notice = {"product_id": vendor.product_id, "title": "A hole", "affected": "< 2", "fixed_in": "2.0"}
    number = vendor.call("POST", "/v3/notices", **notice)["id"]
    vendor.call("POST", f"/v3/notices/{number}/publish")
    assert program("1.0").activate(LICENSE_KEY).valid
    found = check_for_update(program("1.0"))
    assert [(one["id"], one["title"], one["fixed_in"]) for one in found.notices] == [
        (number, "A hole", "2.0")
    ]
    status = program("1.0").check(now=True)
    assert (status.state, [one["id"] for one in status.notices]) == ("valid", [number])
    assert (found.available, found.code, found.version) == (True, "update_available", "2.0")
    assert found.file is not None
    got = download(found.file, tmp_path / "new", file_keys=[MINISIGN_KEY])
    assert got.read_bytes() == CONTENT + b"2.0"
    part = got.with_name(f"editor.zip.{found.file.sha256[:16]}.part")
    part.write_bytes(CONTENT[:1000])
    asked: list[int] = []
    got = download(found.file, tmp_path / "new", on_progress=lambda done, _size: asked.append(done))
    assert got.read_bytes() == CONTENT + b"2.0", "it goes on where it was cut off"
    assert asked[0] > 1000
    part.write_bytes(b"!" * 1000)
    for file, keys, code in (
        (found.file, [], "sha256"),
        (found.file._replace(size=5), [], "size"),
        (found.file, [OTHER_KEY], "file_signature"),
        (found.file._replace(signature=None), [MINISIGN_KEY], "file_signature"),
    ):
        with pytest.raises(VerificationError) as refused:
            download(file, tmp_path / "new", file_keys=keys)
        assert refused.value.code == code
        assert not part.exists(), "nothing is kept of what is not right"
    newest = check_for_update(program("2.0"))
    assert (newest.code, newest.notices) == ("up_to_date", [])
    vendor.call("PATCH", path, expires_at="2026-01-01T00:00:00Z")
    held = check_for_update(program("1.0"))
    assert (held.available, held.codes) == (False, ("newer_not_covered", "expired"))
    assert held.not_covered is not None
    assert held.not_covered["version"] == "2.0"


def test_an_answer_to_another_question_is_not_believed(vendor: Vendor) -> None:
    from keywright_client.updates import verify_update

    body = b'{"product":"editor","nonce":"n"}'
    headers = {"Accept": "application/jwt", "Content-Type": "application/json"}
    url = f"{str(vendor._client.base_url).rstrip('/')}/v3/updates"
    answer = httpx.post(url, content=body, headers=headers).text
    keys = [vendor.public_key]
    assert verify_update(answer, public_keys=keys, nonce="n", body=body)["code"] == "unknown_license"
    for nonce, asked, code in (("m", body, "nonce"), ("n", body + b" ", "question")):
        with pytest.raises(VerificationError) as refused:
            verify_update(answer, public_keys=keys, nonce=nonce, body=asked)
        assert refused.value.code == code
    _, payload, signature = answer.split(".")
    license = base64.urlsafe_b64encode(b'{"alg":"EdDSA","typ":"keywright-license+jwt"}').decode().rstrip("=")
    with pytest.raises(VerificationError):
        verify_update(f"{license}.{payload}.{signature}", public_keys=keys, nonce="n", body=body)
