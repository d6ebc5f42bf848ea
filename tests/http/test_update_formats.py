"""Addresses of update frameworks at ``/u``: the vendor's feeds, unchanged, and generated answers
for Tauri.
"""

import base64
import hashlib
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin
from xml.etree import ElementTree

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from keywright.http import update_formats
from keywright.http.update_formats import list_addresses
from tests.http.test_v3_releases import a_release, add_file, publish, upload
from tests.http.test_v3_updates import DEVICE, a_license
from tests.http.v3_app import App, Reply, open_app
from tests.unit.test_versions import MINISIGN_KEY, minisign

DATABASES = ("sqlite",)
OLD, NEW = "2026-01-01T00:00:00Z", "2026-03-01T00:00:00Z"
EXPIRED = {"expires_at": "2026-02-01T00:00:00Z", "terms": {"after_expiry": "older_versions"}}
FEED = b"\xef\xbb\xbfversion: %s # \t\r\n\r\n<!-- not ours to touch \xff -->  "


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with open_app(tmp_path, files_dir=str(tmp_path / "files")) as app:
        body = {"id": 17, "name": "Paint", "code": "paint", "channels": ["beta", "nightly"]}
        assert app.ask("POST", "/products", body).status == 201
        yield app


def ship(app: App, version: str, files: dict[str, bytes], **members: Any) -> int:
    """Publish a release with these files, whose names contain their kinds."""
    at = members.pop("released_at", None)
    release = a_release(app, version, **members)
    kinds = {".yml": "feed", ".xml": "feed", ".blockmap": "blockmap", ".signature": "signature"}
    for name, content in files.items():
        kind = kinds.get(Path(name).suffix, "installer")
        assert upload(app, add_file(app, release, name, kind=kind), content).status == 200
    assert publish(app, release, **{"released_at": at} if at else {}).status == 200
    return release


def ship_both(app: App) -> None:
    for version, at in (("1.0.0", OLD), ("2.0.0", NEW)):
        text = version.encode()
        files = {
            "latest.yml": FEED % text,
            f"Paint Setup {version}.exe": b"exe " + text,
            f"Paint Setup {version}.exe.blockmap": b"map " + text,
        }
        ship(app, version, files, released_at=at)


def a_token(app: App, license: dict[str, Any], **body: Any) -> str:
    made = app.ask("POST", f"/licenses/{license['id']}/update-tokens", body)
    assert made.status == 201, made.body
    return str(made.json["token"])


def fetch(app: App, path: str, method: str = "GET", **headers: str) -> Reply:
    return app.ask(method, f"//u/{path}", token=None, headers=headers)


def reason(reply: Reply) -> tuple[int, str | None]:
    return reply.status, reply.headers.get("keywright-update")


def test_feeds_and_files_come_byte_for_byte_of_the_newest_covered_release(app: App) -> None:
    license = a_license(app)
    ship_both(app)
    at = f"{a_token(app, license)}/paint"
    feed = fetch(app, f"{at}/latest.yml")
    assert (feed.status, feed.body) == (200, FEED % b"2.0.0")
    assert app.counters.releases == {(2, "offers"): 1}
    private = ("cache-control", "referrer-policy", "x-content-type-options")
    assert [feed.headers[one] for one in private] == ["no-store", "no-referrer", "nosniff"]
    assert "keywright-update" not in feed.headers
    setup = f"{at}/{quote('Paint Setup 2.0.0.exe')}"
    assert fetch(app, setup).body == b"exe 2.0.0"
    assert app.counters.releases == {(2, "downloads"): 1}
    part = fetch(app, setup, Range="bytes=4-")
    assert (part.status, part.body, app.counters.releases) == (206, b"2.0.0", {})
    old = quote("Paint Setup 1.0.0.exe.blockmap")
    assert fetch(app, f"{at}/{old}?noCache=1").body == b"map 1.0.0", "a difference to the version before"
    folded = f"{at.upper()}/{quote('PAINT SETUP 2.0.0.EXE')}"
    assert fetch(app, folded).body == b"exe 2.0.0"
    app.ask("PATCH", f"/licenses/{license['id']}", EXPIRED)
    covered = fetch(app, f"{at}/latest.yml")
    assert (covered.body, reason(covered)) == (FEED % b"1.0.0", (200, "newer_not_covered"))
    assert reason(fetch(app, setup)) == (403, "newer_not_covered")
    assert fetch(app, f"{at}/{old}").status == 200
    app.ask("POST", "/releases/1/yank")
    assert reason(fetch(app, f"{at}/latest.yml")) == (403, "newer_not_covered")
    app.ask("PATCH", f"/licenses/{license['id']}", {"expires_at": None})
    assert fetch(app, f"{at}/latest.yml").body == FEED % b"2.0.0"
    app.ask("PATCH", f"/licenses/{license['id']}", {"status": "disabled"})
    assert reason(fetch(app, f"{at}/latest.yml")) == (403, "unknown_license"), "its tokens are ended"


def test_a_token_gets_what_its_license_and_device_may_have(app: App) -> None:
    license = a_license(app, terms={"device": "required", "max_activations": 1})
    ship_both(app)
    body = {"license_key": "KEY-1", "fingerprint": DEVICE, "update_token": True}
    of_device = app.ask("POST", "/activate", body, token=None).json["update_token"]
    of_license = a_token(app, license)
    assert fetch(app, f"{of_device}/17/latest.yml").status == 200
    expected = {
        f"{of_license}/paint/latest.yml": (403, "fingerprint_required"),
        f"{of_device}/other/latest.yml": (403, "product_mismatch"),
        f"{of_device[:-1]}0/paint/latest.yml": (403, "unknown_license"),
        "KEY-1/paint/latest.yml": (403, "unknown_license"),
        "open/paint/latest.yml": (403, "unknown_license"),
        "open/other/latest.yml": (403, "unknown_license"),
        f"{of_device}/paint/latest-mac.yml": (404, None),
    }
    assert {path: reason(fetch(app, path)) for path in expected} == expected
    app.ask("POST", "/deactivate", {"license_key": "KEY-1", "fingerprint": DEVICE}, token=None)
    assert reason(fetch(app, f"{of_device}/paint/latest.yml")) == (403, "not_activated")
    app.ask("PATCH", "/products/17", {"updates": "open"})
    assert fetch(app, "open/paint/latest.yml").body == FEED % b"2.0.0"
    app.ask("PATCH", "/products/17", {"updates": "closed"})
    assert reason(fetch(app, "open/paint/latest.yml")) == (403, "not_offered")


def test_channels_are_named_by_the_feed_or_before_it(app: App) -> None:
    license = a_license(app)
    ship(app, "1.0", {"latest.yml": b"1.0", "releases.win.json": b"1.0", "a.exe": b"1.0"})
    ship(app, "2.0", {"beta.yml": b"2.0", "latest.yml": b"2.0", "b.exe": b"2.0"}, channel="beta")
    at = f"{a_token(app, license)}/paint"
    refused = fetch(app, f"{at}/beta.yml")
    assert (refused.body, reason(refused)) == (b"1.0", (200, "channel_not_allowed")), "latest.yml is steadier"
    assert reason(fetch(app, f"{at}/b.exe")) == (403, "channel_not_allowed")
    app.ask("PATCH", f"/licenses/{license['id']}", {"terms": {"channels": ["nightly"]}})
    expected = {
        "latest.yml": b"1.0",
        "beta.yml": b"2.0",
        "nightly.yml": b"2.0",
        "BETA/latest.yml": b"2.0",
        "beta/by-hand/beta.yml": b"2.0",
        "unknown/latest.yml": b"1.0",
        "b.exe": b"2.0",
        "beta/a.exe": b"1.0",
    }
    assert {name: fetch(app, f"{at}/{name}").body for name in expected} == expected
    ship(app, "3.0", {"latest.yml": b"3.0", "c.exe": b"3.0"})
    assert fetch(app, f"{at}/beta.yml").body == b"3.0", "who has a channel has the steadier ones"


def test_a_feed_and_what_belongs_to_it_are_of_one_release_while_it_is_rolled_out(app: App) -> None:
    license = a_license(app)
    for version, percent in (("1.0", 100), ("2.0", 0)):
        text = version.encode()
        files = {"appcast.xml": text, "appcast.xml.signature": text, "app.zip": text, f"{version}.zip": text}
        ship(app, version, files, rollout={"percent": percent})
    at = f"{a_token(app, license)}/paint"
    names = ("appcast.xml", "appcast.xml.signature", "app.zip", "2.0.zip")
    assert [fetch(app, f"{at}/{one}").body for one in names] == [b"1.0", b"1.0", b"1.0", b"2.0"]
    assert reason(fetch(app, f"{at}/appcast.xml")) == (200, "held_back_by_rollout")
    assert [fetch(app, f"{at}/by-hand/{one}").body for one in names] == [b"2.0"] * 4
    app.ask("PATCH", "/products/17", {"updates": "open"})
    assert fetch(app, "open/paint/appcast.xml").body == b"1.0", "nobody is known there"
    app.ask("PATCH", "/releases/2", {"is_critical": True})
    assert fetch(app, "open/paint/appcast.xml").body == b"2.0"


def test_a_signed_appcast_and_its_archive_verify_as_sparkle_does_it(app: App) -> None:
    """Sparkle resolves an enclosure's address against that of the feed, and verifies the archive's bytes with
    the attribute `sparkle:edSignature`; a signed feed ends with a comment that signs everything before it.
    """
    key, archive = Ed25519PrivateKey.generate(), b"an archive" * 50
    sparkle = "http://www.andymatuschak.org/xml-namespaces/sparkle"
    signature = base64.b64encode(key.sign(archive)).decode()
    text = (
        f'<?xml version="1.0"?>\n<rss version="2.0" xmlns:sparkle="{sparkle}">\n<channel><item>\n'
        f"  <sparkle:version>200</sparkle:version>\n"
        f'  <enclosure url="Paint%20200.zip" length="{len(archive)}" sparkle:edSignature="{signature}"/>\n'
        "</item></channel></rss>\r\n"
    ).encode()
    feed = text + b"<!-- sparkle-signatures:\nedSignature: " + base64.b64encode(key.sign(text)) + b"\n-->\n"
    ship(app, "2.0", {"appcast.xml": feed, "Paint 200.zip": archive})
    at = f"http://localhost/u/{a_token(app, a_license(app))}/paint/appcast.xml"
    got = app.ask("GET", "/" + at.removeprefix("http://localhost"), token=None).body
    assert got == feed
    enclosure = ElementTree.fromstring(got).find(".//enclosure")  # noqa: S314
    assert enclosure is not None
    address = urljoin(at, enclosure.attrib["url"]).removeprefix("http://localhost")
    content = app.ask("GET", f"/{address}", token=None).body
    key.public_key().verify(base64.b64decode(enclosure.attrib[f"{{{sparkle}}}edSignature"]), content)
    before, _, after = got.partition(b"<!-- sparkle-signatures:")
    key.public_key().verify(base64.b64decode(after.split()[1]), before)


def ship_for_tauri(app: App, version: str = "1.1.0", **members: Any) -> bytes:
    content = b"bundle " + version.encode()
    release = a_release(app, version, **members)
    for platform, arch in (("macos", "arm64"), ("windows", "x86_64")):
        name = f"Paint {platform}.tar.gz"
        file = add_file(app, release, name, platform=platform, arch=arch, signature=minisign(content))
        assert upload(app, file, content).status == 200
    unsigned = add_file(app, release, "paint.deb", platform="linux", arch="x86_64")
    assert upload(app, unsigned, content).status == 200
    assert publish(app, release).status == 200
    return content


def test_tauri_is_answered_in_its_own_words(app: App) -> None:
    """The rules of the client, tauri-plugin-updater 2: 204 means no update; 200 requires version, url and
    signature, which is the base64 of minisign's file; pub_date is RFC 3339.
    """
    license = a_license(app)
    app.ask("PATCH", "/products/17", {"public_keys": [MINISIGN_KEY]})
    content = ship_for_tauri(app, notes="Faster.", rollout={"percent": 0})
    at = f"{a_token(app, license)}/paint"
    assert reason(fetch(app, f"{at}/tauri/darwin/aarch64/1.0.0")) == (204, "held_back_by_rollout")
    app.ask("PATCH", "/releases/1", {"rollout": {"percent": 100}})
    found = fetch(app, f"{at}/tauri/darwin/aarch64/1.0.0%2Bbuild.7", Authorization="Bearer x")
    assert app.counters.releases == {(1, "offers"): 1}
    assert (found.status, found.headers["content-type"]) == (200, "application/json; charset=UTF-8")
    assert (found.headers["cache-control"], found.headers["referrer-policy"]) == ("no-store", "no-referrer")
    assert sorted(found.json) == ["notes", "pub_date", "signature", "url", "version"]
    assert (found.json["version"], found.json["notes"]) == ("1.1.0", "Faster.")
    released = app.ask("GET", "/releases/1").json["released_at"]
    assert found.json["pub_date"] == released
    assert base64.b64decode(found.json["signature"]).decode().strip() == minisign(content).strip()
    got = app.ask("GET", "/" + found.json["url"].removeprefix("http://localhost"), token=None)
    assert (got.status, got.body) == (200, content)
    nothing = {
        "tauri/windows/x86_64/1.1.0": (204, "up_to_date"),
        "beta/tauri/windows/x86_64/v2.0.0": (204, "up_to_date"),
        "tauri/linux/x86_64/1.0.0": (204, "no_file_for_platform"),
        "tauri/darwin/x86_64/1.0.0": (204, "no_file_for_platform"),
    }
    assert {words: reason(fetch(app, f"{at}/{words}")) for words in nothing} == nothing
    app.ask("PATCH", f"/licenses/{license['id']}", EXPIRED)
    assert reason(fetch(app, f"{at}/tauri/darwin/aarch64/1.0.0")) == (204, "newer_not_covered")
    assert reason(fetch(app, "upd_x/paint/tauri/darwin/aarch64/1.0.0")) == (403, "unknown_license")


def test_odd_addresses_and_headers_are_answered(
    app: App, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    ship(app, "1.0", {"latest.yml": b"1.0", "a.exe": b"1.0" * 1000})
    token = a_token(app, a_license(app))
    words = (
        "", "%2e%2e", "..%2f..%2fetc%2fpasswd", "%2Fetc%2Fpasswd", "a.exe%00", "%00", "%ff%fe", "%", "%zz",
        "a.exe%2f", "C%3A%5Ca.exe", "x" * 4000, "latest.yml%0d%0aX: y", "<script>", "{token}", "\u2028",
    )  # fmt: skip
    paths = [f"{token}/paint/{one}" for one in words]
    paths += [f"{one}/paint/latest.yml" for one in words] + [f"{token}/{one}/latest.yml" for one in words]
    paths += [f"{token}/paint/tauri/{one}/{one}/{one}" for one in words]
    paths += [token, f"{token}/paint", f"{token}/{'9' * 40}/a.exe", "/".join([token, "paint", *"abcdefgh"])]
    paths += [f"{token}/paint/beta/nightly/latest.yml", f"{token}/paint/by-hand/by-hand/beta/a.exe"]

    async def ask_all(client: httpx.AsyncClient) -> list[Any]:
        return [await client.get("/u/" + quote(one, safe="/%")) for one in paths]

    wrong = [
        (path, got.status_code)
        for path, got in zip(paths, app.run(ask_all), strict=True)
        if got.status_code not in (204, 403, 404, 414)
        or got.headers["cache-control"] != "no-store"
        or "X" in got.headers
    ]
    assert wrong == []
    odd = {"Accept": "a/b," * 2000, "Accept-Encoding": "gzip, br", "If-None-Match": "*", "Cookie": "a=b"}
    ranges = ("bytes=" + "0-1," * 3000, "bytes=9" + "9" * 5000 + "-", "bytes=-", "bytes=1-0", "lines=1-2", "")
    for one in ranges:
        got = fetch(app, f"{token}/paint/a.exe", **odd, Range=one)
        assert got.status in (200, 206, 400, 416), one[:20]
        assert len(got.body) <= 4000
        assert "content-encoding" not in got.headers
    assert fetch(app, f"{token}/%00/a.exe").status == 404, "PostgreSQL takes no such text"
    assert fetch(app, f"{token}/paint/a.exe", "POST").status == 405
    assert fetch(app, f"{token}/paint/a.exe", "OPTIONS").status == 200
    logged = "".join(capfd.readouterr())
    assert '"route":"update_feed"' in logged
    assert token not in logged


def test_feeds_are_never_read_here(app: App) -> None:
    entities = "".join(f'<!ENTITY a{one} "&a{one - 1};&a{one - 1};">' for one in range(1, 90))
    bombs = {
        "appcast.xml": f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a0 "x">{entities}]><a>&a89;</a>'.encode(),
        "latest.yml": b"a: &a [x]\n" + b"".join(b"b%d: &b%d [*a,*a]\n" % (one, one) for one in range(90)),
        "outside.xml": b'<!DOCTYPE a [<!ENTITY b SYSTEM "http://169.254.169.254/">]><a>&b;</a>',
        "appcast.xml.signature": b"\0" * 100,
    }
    ship(app, "1.0", bombs | {"a.exe": b"1"})
    at = f"{a_token(app, a_license(app))}/paint"
    assert {name: fetch(app, f"{at}/{name}").body for name in bombs} == bombs


def test_nginx_sends_the_bytes_where_it_is_told_to(tmp_path: Path) -> None:
    with open_app(tmp_path, files_dir=str(tmp_path / "files"), files_accel_path="/keywright-files") as app:
        app.ask("POST", "/products", {"id": 17, "name": "Paint", "code": "paint", "updates": "open"})
        ship(app, "1.0", {"a b.exe": b"1.0"})
        sent = fetch(app, "open/paint/a%20b.exe")
    digest = hashlib.sha256(b"1.0").hexdigest()
    assert (sent.status, sent.body) == (200, b"")
    names = ("x-accel-redirect", "etag", "cache-control", "referrer-policy", "content-disposition")
    assert [sent.headers[one] for one in names] == [
        f"/keywright-files/{digest[:2]}/{digest}",
        f'"{digest}"',
        "no-store",
        "no-referrer",
        "attachment; filename*=UTF-8''a%20b.exe",
    ]


def test_the_addresses_of_all_frameworks_are_known() -> None:
    known = dict(list_addresses("https://example.com", "paint", "open"))
    assert known == {
        "Tauri": "https://example.com/u/open/paint/tauri/{{target}}/{{arch}}/{{current_version}}",
        "electron-updater": "https://example.com/u/open/paint/",
        "Velopack": "https://example.com/u/open/paint/",
        "Sparkle, WinSparkle, NetSparkle": "https://example.com/u/open/paint/appcast.xml",
        "WordPress": "https://example.com/u/open/paint/wordpress.json",
    }
    reference = (Path(__file__).parents[2] / "docs" / "reference" / "v3.md").read_text(encoding="utf-8")
    _, table, _ = re.split("<!-- /?update-addresses -->", reference)
    for framework, address in list_addresses("", "{product}", "{token}"):
        assert f"| {framework} | `{address}` |" in table
    modules = Path(update_formats.__file__).parent.glob("*.py")
    lengths = {one.stem: len(one.read_text(encoding="utf-8").splitlines()) for one in modules}
    assert lengths.keys() - {"__init__"} == {"tauri", "verbatim", "wordpress"}
    assert max(lengths.values()) < 100, "a format is one short file"
