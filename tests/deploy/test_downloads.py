"""Releases behind proxies: large uploads pass, and nginx sends the downloads that Keywright has allowed."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.deploy.programs import program
from tests.deploy.proxies import Certificate, Nginx, Proxy, trusting
from tests.server import NO_LIMITS, RunningServer, running

CONTENT = bytes(range(256)) * 12_500


class Accelerating(Nginx):
    """nginx with the folder of files of the server."""

    def _from_deploy(self, name: str, changes: Mapping[str, str]) -> str:
        files = f"{self.folder}/data/files/"
        return super()._from_deploy(name, {**changes, "/var/lib/keywright-files/": files})

    def _write(self) -> Path:
        file = super()._write()
        # Its workers may read what root has made.
        user = "user root;\n" if os.geteuid() == 0 else ""
        file.write_text(user + file.read_text())
        return file


@pytest.fixture
def nginx(tmp_path: Path, certificate: Certificate) -> Iterator[tuple[httpx.Client, RunningServer]]:
    """A client of nginx in front of a server that lets it send the bytes."""
    program("nginx")
    settings = {"files_accel_path": "/keywright-files", "trusted_proxies": "127.0.0.1"}
    with running(tmp_path / "data", **settings, **NO_LIMITS) as server:
        proxy = Accelerating(tmp_path, certificate, (server.port,))
        try:
            proxy.start()
            url = f"https://localhost:{proxy.port}"
            with httpx.Client(base_url=url, verify=trusting(certificate), timeout=60) as client:
                yield client, server
        finally:
            proxy.stop()


def publish(client: httpx.Client, auth: httpx.BasicAuth, code: str = "paint") -> tuple[int, str]:
    """A release with a file, which is uploaded through nginx; its ID, and the SHA-256."""

    def ask(path: str, **body: Any) -> Any:
        answer = client.post(f"/v3{path}", json=body or None, auth=auth)
        assert answer.is_success, answer.text
        return answer.json()

    product = ask("/products", name="Paint", code=code)["id"]
    release = ask("/releases", product_id=product, version="1.0")["id"]
    file = ask(f"/releases/{release}/files", name="paint.msi")["id"]
    sent = client.put(f"/v3/files/{file}/content", content=CONTENT, auth=auth)
    assert sent.status_code == 200, "more than nginx takes of other bodies"
    ask(f"/releases/{release}/publish")
    ask("/licenses", key=f"KEY-{code}", product_id=product, status="active")
    return release, sent.json()["sha256"]


def test_a_file_of_a_release_is_uploaded_through_every_proxy(proxy: Proxy, behind: RunningServer) -> None:
    url, auth = f"https://localhost:{proxy.port}", httpx.BasicAuth(*behind.api_key())
    with httpx.Client(base_url=url, verify=trusting(proxy.certificate), timeout=60) as client:
        assert publish(client, auth, code=f"{type(proxy).__name__}-paint".lower())


def test_nginx_sends_what_keywright_allows(nginx: tuple[httpx.Client, RunningServer], tmp_path: Path) -> None:
    client, server = nginx
    auth = httpx.BasicAuth(*server.api_key())
    release, sha256 = publish(client, auth)
    offered = client.post("/v3/updates", json={"license_key": "KEY-paint"}).json()["file"]
    path, tag = "/d/" + offered["url"].partition("/d/")[2], f'"{sha256}"'
    itself = httpx.get(f"{server.base_url}{path}")
    assert (itself.status_code, itself.content) == (200, b""), "Keywright sends nothing"
    whole = client.get(path)
    expected = {
        "etag": tag,
        "content-disposition": "attachment; filename*=UTF-8''paint.msi",
        "content-type": "application/octet-stream",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
        "accept-ranges": "bytes",
    }
    assert (whole.status_code, whole.content == CONTENT) == (200, True)
    assert {name: whole.headers.get(name) for name in expected} == expected
    assert "x-accel-redirect" not in whole.headers
    part = client.get(path, headers={"Range": "bytes=5-9"})
    assert (part.status_code, part.content) == (206, CONTENT[5:10])
    rest = client.get(path, headers={"Range": "bytes=3199990-", "If-Range": tag})
    assert (rest.status_code, rest.content) == (206, CONTENT[3199990:]), "a download goes on where it stopped"
    other = client.get(path, headers={"Range": "bytes=5-9", "If-Range": '"other"'})
    assert (other.status_code, other.content == CONTENT) == (200, True)
    head = client.head(path)
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(CONTENT)))
    location = itself.headers["x-accel-redirect"]
    assert client.get(location).status_code == 404, "strangers do not reach the folder"
    assert client.post(f"/v3/releases/{release}/yank", auth=auth).is_success
    assert client.get(path).status_code == 403
    [stored] = (tmp_path / "data" / "files").glob("??/*")
    assert (stored.stat().st_mode & 0o777, stored.parent.stat().st_mode & 0o777) == (0o640, 0o750)
