"""Apps with real update frameworks update from Keywright: electron-updater, and Velopack."""

import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.clients.test_python_server import Vendor
from tests.packages.tools import NODE_MODULES, SCRIPTS, npm_package, python_program, run
from tests.server import NO_LIMITS, RunningServer, running

BLOCK, BLOCKS = 1000, 300
OLD, NEW = "2026-01-01T00:00:00Z", "2026-03-01T00:00:00Z"
EXPIRED = "2026-02-01T00:00:00Z"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with running(tmp_path / "data", **NO_LIMITS) as server:
        yield server


@pytest.fixture
def vendor(server: RunningServer) -> Iterator[Vendor]:
    with closing(Vendor(server)) as vendor:
        vendor.call("PATCH", f"/v3/products/{vendor.product_id}", channels=["beta"])
        yield vendor


def ship(vendor: Vendor, version: str, at: str, files: dict[str, tuple[str, bytes]], **members: Any) -> None:
    made = vendor.call("POST", "/v3/releases", product_id=vendor.product_id, version=version, **members)
    for name, (kind, content) in files.items():
        file = vendor.call("POST", f"/v3/releases/{made['id']}/files", name=name, kind=kind)
        vendor._client.put(f"/v3/files/{file['id']}/content", content=content).raise_for_status()
    vendor.call("POST", f"/v3/releases/{made['id']}/publish", released_at=at)


def sell(vendor: Vendor) -> tuple[str, str]:
    """The path of a license, and the address that its app updates from."""
    path = vendor.sell(after_expiry="older_versions")
    token = vendor.call("POST", f"{path}/update-tokens")["token"]
    return path, f"{str(vendor._client.base_url).rstrip('/')}/u/{token}/editor/"


def alter(server: RunningServer, content: bytes) -> None:
    """Alter the last byte of a file on the server's disk."""
    digest = hashlib.sha256(content).hexdigest()
    (place,) = server.data_dir.rglob(digest)
    place.chmod(0o600)
    place.write_bytes(content[:-1] + b"!")


def blocks_of(version: int) -> list[bytes]:
    """An installer, of which each second block is another one in each version."""
    return [f"{one} {version if one % 2 else 0} ".encode().ljust(BLOCK, b".") for one in range(BLOCKS)]


def electron_files(version: str, feed: str = "latest.yml") -> dict[str, tuple[str, bytes]]:
    """What electron-builder makes of a version."""
    blocks, name = blocks_of(int(version[0])), f"Paint Setup {version}.exe"
    content = b"".join(blocks)
    sums = [base64.b64encode(hashlib.blake2b(one, digest_size=18).digest()).decode() for one in blocks]
    block_map = {"name": "file", "offset": 0, "checksums": sums, "sizes": [BLOCK] * BLOCKS}
    sha512 = base64.b64encode(hashlib.sha512(content).digest()).decode()
    text = (
        f"version: {version}\nfiles:\n  - url: {name}\n    sha512: {sha512}\n    size: {len(content)}\n"
        f"path: {name}\nsha512: {sha512}\nreleaseDate: '2026-03-01T00:00:00.000Z'\n"
    )
    return {
        name: ("installer", content),
        f"{name}.blockmap": (
            "blockmap",
            gzip.compress(json.dumps({"version": "2", "files": [block_map]}).encode()),
        ),
        feed: ("feed", text.encode()),
    }


def electron(tmp_path: Path) -> Callable[..., Any]:
    """Runs an app of version 1.0.0."""
    npm_package("electron-updater")
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    installed = tmp_path / "installed.exe"
    installed.write_bytes(b"".join(blocks_of(1)))
    runs = iter(range(9))

    def app(url: str, **given: Any) -> Any:
        folder = str(tmp_path / f"app-{next(runs)}")
        asked = {"url": url, "folder": folder, "version": "1.0.0", "installed": str(installed)} | given
        return json.loads(run(["node", str(SCRIPTS / "electron_app.mjs"), json.dumps(asked)], tmp_path))

    return app


def test_an_electron_app_updates_by_differences_and_is_held_back(
    server: RunningServer, vendor: Vendor, tmp_path: Path
) -> None:
    app, (license, url), new = electron(tmp_path), sell(vendor), b"".join(blocks_of(2))
    ship(vendor, "1.0.0", OLD, electron_files("1.0.0"))
    ship(vendor, "2.0.0", NEW, electron_files("2.0.0"))
    ship(vendor, "3.0.0-beta.1", NEW, electron_files("3.0.0-beta.1", "beta.yml"), channel="beta")
    updated = app(url)
    assert (updated["version"], updated["isNewer"]) == ("2.0.0", True), updated
    assert base64.b64decode(updated["content"]) == new
    assert any("Setup%201.0.0.exe.blockmap" in path for path, _ in updated["asked"]), "of the version before"
    ranges = [found for _, found in updated["asked"] if found is not None]
    assert [one.count(",") for one in ranges] == [BLOCKS // 2 - 1], "all that is new, in one request"
    assert app(url, version="2.0.0")["isNewer"] is False
    assert app(url, channel="beta")["version"] == "2.0.0", "its license has not the channel"
    vendor.call("PATCH", license, terms={"channels": ["beta"]})
    assert app(url, channel="beta")["version"] == "3.0.0-beta.1"
    vendor.call("PATCH", license, expires_at=EXPIRED)
    held = app(url)
    assert (held["version"], held["isNewer"]) == ("1.0.0", False)
    vendor.call("PATCH", license, expires_at=None)
    alter(server, new)
    refused = app(url)
    assert (refused["error"], "content" in refused) == ("ERR_CHECKSUM_MISMATCH", False)
    vendor.call("PATCH", license, status="disabled")
    assert app(url)["error"] == "HTTP_ERROR_403"


def velopack_files(version: str) -> dict[str, tuple[str, bytes]]:
    """What `vpk pack` makes of a version."""
    content, name = f"package {version}".encode(), f"Paint-{version}-full.nupkg"
    asset = {
        "PackageId": "Paint",
        "Version": version,
        "Type": "Full",
        "FileName": name,
        "SHA1": hashlib.sha1(content).hexdigest().upper(),  # noqa: S324
        "SHA256": hashlib.sha256(content).hexdigest().upper(),
        "Size": len(content),
    }
    feed = {"Assets": [asset]}
    return {name: ("archive", content), "releases.linux.json": ("feed", json.dumps(feed).encode())}


def test_a_velopack_app_updates_and_is_held_back(
    server: RunningServer, vendor: Vendor, tmp_path: Path
) -> None:
    license, url = sell(vendor)
    ship(vendor, "1.0.0", OLD, velopack_files("1.0.0"))
    ship(vendor, "2.0.0", NEW, velopack_files("2.0.0"))
    runs = iter(range(9))

    def app(version: str = "1.0.0") -> Any:
        given = {"url": url, "folder": str(tmp_path / f"app-{next(runs)}"), "version": version}
        script = [python_program("python"), str(SCRIPTS / "velopack_app.py")]
        return json.loads(run([*script, json.dumps(given)], tmp_path))

    assert app() == {"version": "2.0.0", "packages": {"Paint-2.0.0-full.nupkg": "package 2.0.0"}}
    assert app("2.0.0") == {"version": None, "packages": {}}
    vendor.call("PATCH", license, expires_at=EXPIRED)
    assert app() == {"version": None, "packages": {}}
    vendor.call("PATCH", license, expires_at=None)
    alter(server, b"package 2.0.0")
    refused = app()
    assert ("checksum" in refused["error"].lower(), refused["packages"]) == (True, {}), refused
    vendor.call("PATCH", license, status="disabled")
    assert "403" in app()["error"]
