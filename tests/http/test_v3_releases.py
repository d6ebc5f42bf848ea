"""Releases over v3: drafts, files, publishing, yanking."""

import asyncio
import base64
import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from keywright.core.command import Context, Origin
from keywright.http.openapi.v3_document import problems_of
from keywright.http.v3.releases import ROUTES, download_release_file
from keywright.identity.model import Permissions
from keywright.maintenance import doctor
from keywright.provisioning.releases import files
from keywright.search.statistics import SaveCounters
from tests.http.v3_app import App, Reply, open_app
from tests.unit.test_versions import CONTENT, MINISIGN_KEY, minisign

DATABASES = ("sqlite",)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with open_app(tmp_path, files_dir=str(tmp_path / "files"), max_file_bytes=5000) as app:
        product = app.ask("POST", "/products", {"id": 17, "name": "Paint", "channels": ["beta", "nightly"]})
        assert product.status == 201
        yield app


def a_release(app: App, version: str = "1.0", **members: Any) -> int:
    made = app.ask("POST", "/releases", {"product_id": 17, "version": version} | members)
    assert made.status == 201, made.body
    return int(made.json["id"])


def add_file(app: App, release: int, name: str = "paint.msi", **members: Any) -> int:
    made = app.ask("POST", f"/releases/{release}/files", {"name": name} | members)
    assert made.status == 201, made.body
    return int(made.json["id"])


def upload(app: App, file: int, content: bytes = CONTENT) -> Reply:
    return app.ask("PUT", f"/files/{file}/content", content)


def publish(app: App, release: int, **how: Any) -> Reply:
    return app.ask("POST", f"/releases/{release}/publish", how)


def stored(app: App) -> list[str]:
    """What is in the folder of files, without folders."""
    folder = app.settings.files_folder
    return sorted(one.name for one in folder.rglob("*") if one.is_file())


def test_a_release_is_filled_published_and_yanked(app: App) -> None:
    release = a_release(app, channel="beta", notes="New.", rollout={"percent": 10}, requires={"os": "12"})
    file = add_file(app, release, platform="Windows", arch="x86_64", content_type="application/x-msi")
    assert publish(app, release).json["detail"].startswith("The release is not ready: paint.msi")
    done = upload(app, file)
    assert done.status == 200
    assert {name: done.json[name] for name in ("size", "sha256", "sha1", "md5", "platform", "storage")} == {
        "size": len(CONTENT),
        "sha256": SHA256,
        "sha1": hashlib.sha1(CONTENT).hexdigest(),  # noqa: S324
        "md5": hashlib.md5(CONTENT).hexdigest(),  # noqa: S324
        "platform": "windows",
        "storage": "local",
    }
    assert done.json["sha512"] == base64.b64encode(hashlib.sha512(CONTENT).digest()).decode()
    assert upload(app, file).json == done.json, "the same bytes again change nothing"
    published = publish(app, release)
    assert (published.status, published.json["state"], published.json["rank"]) == (200, "published", 1)
    assert published.json["released_at"] == published.json["updated_at"]
    assert publish(app, release).json == published.json, "published twice, it stays as it is"
    assert app.ask("GET", f"/releases/{release}").json == published.json
    assert app.ask("GET", f"/releases/{release}/files").json["items"] == [done.json]
    assert app.ask("DELETE", f"/releases/{release}").code == "still_in_use"
    assert app.ask("DELETE", "/products/17").code == "still_in_use"
    assert app.ask("DELETE", f"/files/{file}").code == "release_not_ready"
    assert app.ask("PATCH", f"/releases/{release}", {"rollout": {"percent": 5}}).places == [
        ("/rollout/percent", "too_small")
    ]
    assert app.ask("PATCH", f"/releases/{release}", {"version": "2"}).places == [("/version", "invalid")]
    grown = app.ask("PATCH", f"/releases/{release}", {"rollout": {"percent": 50}, "is_critical": True})
    assert (grown.json["rollout"], grown.json["is_critical"]) == ({"percent": 50}, True)
    yanked = app.ask("POST", f"/releases/{release}/yank")
    assert yanked.json["state"] == "yanked"
    assert publish(app, release).code == "release_not_ready"
    assert app.ask("DELETE", f"/releases/{release}").status == 204
    names = [name for name, _ in app.events("release.")]
    assert [names[0], *names[-4:]] == [
        *("release.created", "release.published", "release.updated", "release.yanked", "release.deleted")
    ]


def test_the_order_is_fixed_at_publishing(app: App) -> None:
    ranks = {}
    for version, how in [("1.9", {}), ("1.10", {}), ("1.9.5", {"allow_older": True}), ("2.0-beta1", {})]:
        release = a_release(app, version, channel="beta" if "beta" in version else "stable")
        assert publish(app, release, **how).status == 200, version
        ranks[version] = release
    found = [(app.ask("GET", f"/releases/{ranks[one]}").json["rank"], one) for one in ranks]
    assert [one for _, one in sorted(found)] == ["1.9", "1.9.5", "1.10", "2.0-beta1"]
    older = publish(app, a_release(app, "1.8"))
    assert "version 1.9 of the channel stable is newer" in older.json["detail"]
    assert publish(app, a_release(app, "1.8-x", channel="beta")).code == "release_not_ready"
    equal = publish(app, a_release(app, "v1.10.0"), allow_older=True)
    assert "version 1.10 ranks equally" in equal.json["detail"]
    assert app.ask("POST", "/releases", {"product_id": 17, "version": "1.9"}).code == "already_exists"
    assert publish(app, a_release(app, "3"), released_at="2999-01-01T00:00:00Z").places == [
        ("/released_at", "too_large")
    ]
    dated = publish(app, a_release(app, "3.1"), released_at="2026-01-01T00:00:00Z")
    assert dated.json["released_at"] == "2026-01-01T00:00:00Z"
    assert app.ask("PATCH", "/products/17", {"version_scheme": "semver"}).code == "still_in_use"


def test_wrong_values_are_refused(app: App) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"product_id": 18}, "/product_id"),
        ({"version": "new"}, "/version"),
        ({"min_from_version": "x"}, "/min_from_version"),
        ({"channel": "wild"}, "/channel"),
        ({"rollout": {"percent": 101}}, "/rollout/percent"),
        ({"requires": {"os": "new"}}, "/requires"),
        ({"requires": {"O S": "1"}}, "/requires"),
        ({"entitlements": ["Ü"]}, "/entitlements/0"),
    ]
    found = [
        (body, app.ask("POST", "/releases", {"product_id": 17, "version": "1"} | body).places)
        for body, _ in wrong
    ]
    assert [body for (body, places), (_, at) in zip(found, wrong, strict=True) if places[0][0] != at] == []
    release = a_release(app)
    names = ["../x", "a/b", "a\\b", "", ".hidden", "x" * 201, "a\0b", "ü", "x.", "C:x", "a\r\nb"]
    bodies: list[dict[str, Any]] = [{"name": one} for one in names]
    bodies += [{"name": "a", "url": one, "size": 1, "sha256": SHA256} for one in (
        "http://example.com/a", "file:///etc/passwd", "https://user:x@example.com/a", "javascript:alert(1)",
        "https://example.com/a#b", "https://example.com\\@evil/a", "//example.com/a", "https://e/a b",
        "https://example.com/ü", "https://example.com/a\r\nX: y",
    )]  # fmt: skip
    bodies += [
        {"name": "a", "sha256": "x"},
        {"name": "a", "url": "https://example.com/a"},
        {"name": "a", "kind": "x"},
    ]
    accepted = [one for one in bodies if app.ask("POST", f"/releases/{release}/files", one).code != "invalid"]
    assert accepted == []
    add_file(app, release)
    assert app.ask("POST", f"/releases/{release}/files", {"name": "paint.msi"}).code == "already_exists"


def test_nothing_is_left_of_an_upload_that_is_refused(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    release = a_release(app)
    file = add_file(app, release, sha256=SHA256, size=len(CONTENT))
    assert upload(app, file, CONTENT[:-1]).code == "content_mismatch"
    assert upload(app, file, b"!" * len(CONTENT)).code == "content_mismatch"
    assert upload(app, file, b"").code == "content_mismatch"
    assert upload(app, file, b"x" * 5001).code == "body_too_large"
    monkeypatch.setattr(files, "rename_durably", _fail)
    assert upload(app, file).status == 503
    monkeypatch.undo()
    assert stored(app) == []
    assert upload(app, file).status == 200
    other = add_file(app, release, "other.msi")
    assert upload(app, other, b"other").status == 200
    assert upload(app, other).code == "content_mismatch", "bytes are written once"
    at_vendor = add_file(app, release, "v.msi", url="https://example.com/v", size=1, sha256=SHA256)
    assert upload(app, at_vendor).code == "release_not_ready"
    assert len(stored(app)) == 2


def _fail(*_: Any, **__: Any) -> None:
    raise OSError(28, "No space left on device")


def test_publishing_finds_what_is_altered_missing_or_wrongly_signed(app: App) -> None:
    assert app.ask("PATCH", "/products/17", {"public_keys": [MINISIGN_KEY]}).status == 200
    release = a_release(app)
    file = add_file(app, release, signature=minisign(CONTENT + b"!"))
    upload(app, file)
    assert "the signature of paint.msi matches no public key" in publish(app, release).json["detail"]
    app.ask("DELETE", f"/files/{file}")
    upload(app, add_file(app, release, signature=minisign(CONTENT)))
    place = files.path_of(app.settings.files_folder, SHA256)
    place.write_bytes(CONTENT[:-1] + b"!")
    assert "altered on the disk" in publish(app, release).json["detail"]
    os.unlink(place)
    assert "missing on the disk" in publish(app, release).json["detail"]
    place.write_bytes(CONTENT)
    assert publish(app, release).status == 200


def test_a_key_of_one_product_manages_its_releases_alone(app: App) -> None:
    from keywright.identity.model import Permissions

    app.name_products(18)
    mine, other = a_release(app), a_release(app, product_id=18)
    token = app.issue_token(Permissions.READ_WRITE, product_id=17)
    file = add_file(app, other)
    calls = [
        ("GET", f"/releases/{other}", None),
        ("PATCH", f"/releases/{other}", {"notes": "x"}),
        ("DELETE", f"/releases/{other}", None),
        ("POST", f"/releases/{other}/publish", {}),
        ("POST", f"/releases/{other}/yank", None),
        ("POST", f"/releases/{other}/files", {"name": "x"}),
        ("GET", f"/releases/{other}/files", None),
        ("GET", f"/files/{file}", None),
        ("PUT", f"/files/{file}/content", CONTENT),
        ("DELETE", f"/files/{file}", None),
        ("POST", "/releases", {"product_id": 18, "version": "9"}),
    ]
    seen = [
        (method, path)
        for method, path, body in calls
        if app.ask(method, path, body, token=token).status != 404
    ]
    assert seen == []
    assert [one["id"] for one in app.ask("GET", "/releases", token=token).json["items"]] == [mine]
    assert app.ask("POST", "/releases", {"product_id": 17, "version": "9"}, token=token).status == 201
    assert app.ask("POST", f"/releases/{mine}/publish", token=token).status == 200


def test_the_doctor_finds_bytes_that_are_missing_altered_or_of_no_release(app: App) -> None:
    release, folder = a_release(app), app.settings.files_folder
    places = []
    for name in ("a.msi", "b.msi", "c.msi"):
        upload(app, add_file(app, release, name), name.encode())
        places.append(files.path_of(folder, hashlib.sha256(name.encode()).hexdigest()))
    assert list(doctor.examine_files(app.storage, folder)) == []
    places[0].unlink()
    places[1].write_bytes(b"!.msi")
    files.path_of(folder, "0" * 64).parent.mkdir()
    files.path_of(folder, "0" * 64).write_bytes(b"stray")
    found = {one.code: one.what for one in doctor.examine_files(app.storage, folder)}
    assert found.keys() == {"release_file.missing", "release_file.altered", "release_file.stray"}
    assert "a.msi" in found["release_file.missing"]
    assert "b.msi" in found["release_file.altered"]


def test_the_vendors_key_downloads_a_file_of_a_product_that_is_closed(app: App) -> None:
    release = a_release(app)
    file, elsewhere = add_file(app, release), {"url": "https://example.com/a", "size": 7, "sha256": SHA256}
    path = f"/files/{file}/content"
    assert app.ask("GET", path).status == 404, "its bytes are not there"
    upload(app, file)
    app.ask("PATCH", "/products/17", {"updates": "closed"})
    got = app.ask("GET", path, headers={"Range": "bytes=4-8"})
    assert (got.status, got.body, got.headers["etag"]) == (206, CONTENT[4:9], f'"{SHA256}"')
    assert app.ask("GET", path, token=app.issue_token(Permissions.READ, product_id=17)).body == CONTENT
    other = app.issue_token(Permissions.READ, product_id=18)
    client = app.issue_token(Permissions.CLIENT)
    tokens = (other, client, None)
    assert [app.ask("GET", path, token=one).status for one in tokens] == [404, 403, 401]
    away = add_file(app, release, "away.msi", **elsewhere)
    refused = app.ask("GET", f"/files/{away}/content")
    assert refused.status == 400, "a client would repeat its key there"
    [route] = [one for one in ROUTES if one.handler is download_release_file]
    assert refused.code in problems_of(route)


def test_what_was_counted_of_a_release_is_listed_by_day(app: App) -> None:
    release, other = a_release(app), a_release(app, "2.0")
    today = datetime.now(UTC).replace(hour=12)
    for days, amounts in (
        (40, {(release, "checks"): 1}),
        (2, {(release, "checks"): 3, (release, "downloads"): 2, (other, "offers"): 5}),
        (2, {(release, "checks"): 4}),
        (0, {(release, "offers"): 7}),
    ):
        context = Context(today - timedelta(days=days), Origin("task:test", "", ""))
        app.do(SaveCounters(context=context, releases=amounts))
    found = app.ask("GET", f"/releases/{release}/uses").json
    days_of = [f"{today - timedelta(days=days):%Y-%m-%d}" for days in (2, 0)]
    assert found == {
        "items": [
            {"day": days_of[0], "checks": 7, "offers": 0, "downloads": 2},
            {"day": days_of[1], "checks": 0, "offers": 7, "downloads": 0},
        ],
        "next_cursor": None,
    }
    assert len(app.ask("GET", f"/releases/{release}/uses?days=2").json["items"]) == 1
    assert len(app.ask("GET", f"/releases/{release}/uses?days=41").json["items"]) == 3
    stranger = app.issue_token(Permissions.READ, product_id=18)
    assert app.ask("GET", f"/releases/{release}/uses", token=stranger).status == 404


def test_the_slower_of_two_uploads_leaves_nothing(app: App) -> None:
    file = add_file(app, a_release(app))

    async def both(client: httpx.AsyncClient) -> list[httpx.Response]:
        half, first_is_done = asyncio.Event(), asyncio.Event()
        path, headers = f"/v3/files/{file}/content", {"Authorization": f"Bearer {app.token}"}

        async def pieces() -> AsyncIterator[bytes]:
            yield b"other "
            half.set()
            await first_is_done.wait()
            yield b"bytes"

        slower = asyncio.create_task(client.put(path, content=pieces(), headers=headers))
        await half.wait()
        first = await client.put(path, content=CONTENT, headers=headers)
        first_is_done.set()
        return [first, await slower]

    first, slower = app.run(both)
    assert (first.status_code, slower.status_code) == (200, 409)
    assert slower.json()["code"] == "content_mismatch"
    assert stored(app) == [SHA256]
