"""Checks for updates, explanations and downloads."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keywright.http.middleware.call import Call as AnyCall
from keywright.identity.model import Permissions
from keywright.licensing.updates.tickets import LENGTH
from keywright.signing.jws import decode_base64url
from tests.http.test_v3_releases import a_release, add_file, publish, upload
from tests.http.test_v3_signed import claims_of
from tests.http.v3_app import App, Reply, open_app
from tests.unit.test_versions import CONTENT

DATABASES = ("sqlite",)
DEVICE = "device-7f3a9c0e12b4"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with open_app(tmp_path, files_dir=str(tmp_path / "files")) as app:
        body = {
            "id": 17,
            "name": "Paint",
            "code": "paint",
            "channels": ["beta"],
            "renew_url": "https://r/{license_ref}",
        }
        assert app.ask("POST", "/products", body).status == 201
        yield app


def a_license(app: App, **members: Any) -> dict[str, Any]:
    made = app.ask(
        "POST", "/licenses", {"key": "KEY-1", "terms": {}, "product_id": 17, "status": "active"} | members
    )
    assert made.status == 201, made.body
    license: dict[str, Any] = made.json
    return license


def a_published(app: App, version: str, *, how: dict[str, Any] | None = None, **members: Any) -> int:
    release = a_release(app, version, **members)
    assert upload(app, add_file(app, release, f"paint-{version}.msi", platform="windows")).status == 200
    assert publish(app, release, **how or {}).status == 200
    return release


def check(app: App, **members: Any) -> dict[str, Any]:
    answer = app.ask("POST", "/updates", {"license_key": "KEY-1", "app_version": "1.0"} | members, token=None)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json
    return found


def download(app: App, url: str, method: str = "GET", **headers: str) -> Reply:
    return app.ask(method, "/" + url.removeprefix("http://localhost"), token=None, headers=headers)


def test_a_program_is_offered_the_newest_release_and_downloads_it(app: App) -> None:
    license = a_license(app)
    oldest, _, newest = [
        a_published(app, version, notes=f"New in {version}.") for version in ("1.0", "1.1", "1.10")
    ]
    found = check(app, nonce="n-1", platform="Windows", app_version="1.0")
    assert app.counters.releases == {(oldest, "checks"): 1, (newest, "offers"): 1}
    assert (found["available"], found["codes"]) == (True, ["update_available"])
    assert found["release"]["version"] == "1.10"
    assert found["release"]["notes"] == "New in 1.10."
    assert (found["nonce"], found["not_covered"]) == ("n-1", None)
    assert check(app, app_version="1.10")["code"] == "up_to_date"
    assert check(app, app_version="9")["code"] == "up_to_date"
    assert check(app, app_version="unknown?")["release"]["version"] == "1.10"
    assert check(app, platform="linux")["code"] == "no_file_for_platform"
    assert check(app, license_key="KEY-9")["code"] == "unknown_license"
    assert check(app, product="other")["code"] == "product_mismatch"
    file = found["file"]
    assert file["url"].startswith("http://localhost/d/")
    got = download(app, file["url"])
    assert (got.status, got.body) == (200, CONTENT)
    assert app.counters.releases == {(newest, "downloads"): 1}
    assert got.headers["etag"] == f'"{file["sha256"]}"'
    assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''paint-1.10.msi"
    assert got.headers["content-length"] == str(len(CONTENT))
    part = download(app, file["url"], Range="bytes=4-8")
    assert (part.status, part.body) == (206, CONTENT[4:9])
    assert app.counters.releases == {}, "each download is counted once"
    several = download(app, file["url"], Range="bytes=0-1,4-5")
    assert several.headers["content-type"].startswith("multipart/byteranges")
    rest = {"Range": "bytes=4-", "If-Range": f'"{file["sha256"]}"'}
    assert download(app, file["url"], **rest).body == CONTENT[4:]
    assert download(app, file["url"], **rest | {"If-Range": '"other"'}).body == CONTENT
    assert download(app, file["url"], Range="bytes=9999-").status == 416
    head = download(app, file["url"], "HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(CONTENT)))
    assert download(app, file["url"].lower()).status == 200
    assert download(app, file["url"] + "x").status == 404
    app.ask("PATCH", f"/licenses/{license['id']}", {"status": "disabled"})
    refused = download(app, file["url"])
    assert (refused.status, b"disabled" in refused.body) == (403, True)
    assert check(app)["code"] == "disabled"


def test_forged_and_old_tickets_get_nothing(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    a_license(app)
    release = a_published(app, "1.1")
    url = check(app)["file"]["url"]
    *_, ticket, name = url.split("/")
    assert len(ticket) == LENGTH
    forged = [ticket[:i] + ("b" if ticket[i] == "a" else "a") + ticket[i + 1 :] for i in range(0, LENGTH, 3)]
    forged += [
        "a" * LENGTH,
        "a" * (LENGTH - 1),
        "",
        "1" * LENGTH,
        ticket + "a",
        "%00" * 10,
        "..%2f..%2fetc",
    ]
    assert [one for one in forged if download(app, f"/d/{one}/{name}").status != 404] == []
    now = datetime.now(UTC)
    for days, status in ((6.9, 200), (14.1, 404)):
        monkeypatch.setattr(AnyCall, "now", now + timedelta(days=days))
        assert download(app, url).status == status, days
        monkeypatch.undo()
    assert app.ask("POST", f"/releases/{release}/yank").status == 200
    assert download(app, url).status == 403


def test_a_file_at_the_vendors_place_is_redirected_to_without_credentials(app: App) -> None:
    a_license(app)
    release = a_release(app, "2.0")
    at = "https://example.com/paint.msi?x=1"
    add_file(app, release, url=at, size=1, sha256="0" * 64)
    assert publish(app, release).status == 200
    url = check(app)["file"]["url"]
    sent = download(app, url)
    assert (sent.status, sent.headers["location"]) == (302, at)
    assert sent.headers["referrer-policy"] == "no-referrer"
    assert download(app, url, Authorization="Bearer x").status == 400


def test_the_answer_can_be_signed(app: App) -> None:
    a_license(app)
    a_published(app, "1.1")
    body = {"license_key": "KEY-1", "app_version": "1.0", "nonce": "n-2"}
    answer = app.ask("POST", "/updates", body, token=None, headers={"Accept": "application/jwt"})
    assert answer.headers["content-type"] == "application/jwt"
    head = decode_base64url(answer.body.split(b".")[0])
    assert json.loads(head)["typ"] == "keywright-update+jwt"
    claims = claims_of(answer.body)
    assert (claims["release"]["version"], claims["nonce"]) == ("1.1", "n-2")
    assert claims["file"]["sha256"]
    assert claims["exp"] == claims["iat"] + 300
    assert claims["asked"]


def test_expired_licenses_are_told_what_they_do_not_cover(app: App) -> None:
    day = "2026-01-01T00:00:00Z"
    license = a_license(app, expires_at=day, terms={"after_expiry": "older_versions", "grace_days": 0})
    a_published(app, "1.1", how={"released_at": day})
    a_published(app, "1.2")
    found = check(app)
    assert (found["code"], found["codes"]) == ("update_available", ["update_available", "newer_not_covered"])
    assert found["release"]["version"] == "1.1"
    assert found["not_covered"]["version"] == "1.2"
    assert found["not_covered"]["renew_url"] == f"https://r/{license['license_ref']}"
    app.ask("PATCH", f"/licenses/{license['id']}", {"terms": {"after_expiry": "refuse"}})
    refused = check(app)
    assert (refused["codes"], refused["file"]) == (["newer_not_covered", "expired"], None)


def test_every_rule_is_explained(app: App) -> None:
    license = a_license(app)
    release = a_published(app, "2.0-beta", channel="beta", entitlements=["pro"], rollout={"percent": 0})
    found = app.ask("GET", f"/releases/{release}/explain?license_id={license['id']}&platform=linux").json
    assert (found["offered"], found["code"]) == (False, "channel_not_allowed")
    no = [one["code"] for one in found["rules"] if not one["passed"]]
    assert no == [
        "channel_not_allowed",
        "entitlement_missing",
        "no_file_for_platform",
        "held_back_by_rollout",
    ]
    app.ask("PATCH", f"/licenses/{license['id']}", {"terms": {"channels": ["beta"], "entitlements": ["pro"]}})
    path = f"/releases/{release}/explain?license_id={license['id']}&platform=windows&by_hand=true"
    assert app.ask("GET", path).json["offered"] is True
    assert check(app, channel="beta", platform="windows", by_hand=True)["release"]["version"] == "2.0-beta"
    assert check(app, platform="windows", by_hand=True)["code"] == "up_to_date"
    assert app.ask("GET", f"/releases/{release}/explain?license_id=99").code == "not_found"
    app.name_products(18)
    other = a_license(app, key="KEY-2", product_id=18)
    token = app.issue_token(Permissions.READ, product_id=17)
    foreign = app.ask("GET", f"/releases/{release}/explain?license_id={other['id']}", token=token)
    assert foreign.code == "not_found"


def test_open_products_need_no_license_and_closed_ones_offer_nothing(app: App) -> None:
    a_published(app, "1.1", rollout={"percent": 99})
    a_license(app)

    def ask(**body: Any) -> Any:
        return app.ask("POST", "/updates", {"app_version": "1.0"} | body, token=None)

    assert ask().code == "invalid"
    assert ask(product="paint").json["code"] == "unknown_license"
    assert ask(product="9" * 30).json["code"] == "unknown_license"
    app.ask("PATCH", "/products/17", {"updates": "open"})
    assert ask(product="paint").json["code"] == "held_back_by_rollout"
    assert ask(product=17, by_hand=True).json["release"]["version"] == "1.1"
    assert download(app, ask(product=17, by_hand=True).json["file"]["url"]).status == 200
    app.ask("PATCH", "/products/17", {"updates": "closed"})
    assert check(app)["code"] == "not_offered"


def test_validate_takes_built_at_from_the_release_of_the_version(app: App) -> None:
    a_license(app, expires_at="2026-06-01T00:00:00Z", terms={"after_expiry": "older_versions"})
    a_published(app, "1.1", how={"released_at": "2026-05-01T00:00:00Z"})
    a_published(app, "1.2")

    def validate(version: str) -> Any:
        body = {"license_key": "KEY-1", "app_version": version}
        return app.ask("POST", "/validate", body, token=None).json["code"]

    assert [validate(one) for one in ("1.1", "1.2", "1.3")] == ["version_covered", "expired", "expired"]


def test_a_device_that_must_hold_its_place_is_asked_for(app: App) -> None:
    a_license(app, terms={"device": "required", "max_activations": 1})
    a_published(app, "1.1")
    assert check(app)["code"] == "fingerprint_required"
    assert check(app, fingerprint=DEVICE)["code"] == "not_activated"
    app.ask("POST", "/activate", {"license_key": "KEY-1", "fingerprint": DEVICE}, token=None)
    url = check(app, fingerprint=DEVICE)["file"]["url"]
    assert download(app, url).status == 200
    app.ask("POST", "/deactivate", {"license_key": "KEY-1", "fingerprint": DEVICE}, token=None)
    assert download(app, url).status == 403


def test_update_tokens_ask_for_updates_and_nothing_else(app: App) -> None:
    license = a_license(app)
    a_published(app, "1.1")
    body = {"license_key": "KEY-1", "fingerprint": DEVICE, "update_token": True}

    def activate() -> Any:
        return app.ask("POST", "/activate", body, token=None).json

    def ask(token: str) -> Any:
        return check(app, license_key=None, update_token=token)["code"]

    tokens = [activate()["update_token"] for _ in range(7)]
    assert [ask(one) for one in tokens] == ["unknown_license"] * 2 + ["update_available"] * 5
    assert ask(tokens[-1].upper()) == "update_available", "clients fold addresses"
    assert ask(tokens[-1][:-1] + "0") == "unknown_license"
    path = f"/licenses/{license['id']}/update-tokens"
    listed = app.ask("GET", path).json["items"]
    assert [one["token"] for one in listed] == [None] * 5
    assert [one["ends_at"] is None for one in listed] == [False] * 4 + [True]
    assert app.ask("DELETE", f"{path}/{listed[-1]['id']}").status == 204
    assert ask(tokens[-1]) == "unknown_license"
    made = app.ask("POST", path, {})
    assert (made.status, made.json["prefix"]) == (201, made.json["token"][:8])
    assert ask(made.json["token"]) == "update_available"
    assert len(app.ask("GET", path).json["items"]) == 5
    for _ in range(20):
        app.ask("POST", path, {})
    assert len(app.ask("GET", path).json["items"]) == 20
    tokens = [activate()["update_token"]]
    app.ask("POST", "/deactivate", {"license_key": "KEY-1", "fingerprint": DEVICE}, token=None)
    assert ask(tokens[0]) == "not_activated", "the device holds no place"
    activation = app.ask("GET", f"/licenses/{license['id']}/activations").json["items"][0]["id"]
    assert app.ask("POST", path, {"activation_id": activation}).code == "not_activated"
    assert app.ask("POST", path, {"activation_id": 999}).code == "not_found"
    app.ask("PATCH", f"/licenses/{license['id']}", {"status": "disabled"})
    assert app.ask("POST", path, {}).code == "disabled"
    assert app.ask("GET", path).json["items"] == [], "a disabled license has none"
    app.ask("PATCH", f"/licenses/{license['id']}", {"status": "active"})
    text = app.ask("POST", path, {}).json["token"]
    ticket = check(app)["file"]["url"]
    assert download(app, ticket).status == 200
    app.ask("POST", f"/licenses/{license['id']}/rotate-key")
    assert ask(text) == "unknown_license", "a new key ends them"
    assert download(app, ticket).status == 403, "and tickets"
