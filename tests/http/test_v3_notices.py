"""Notices over v3: created, published, in answers, withdrawn; and the job that notifies customers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keywright.identity.model import Permissions
from keywright.licensing import views_store
from tests.http.test_v3_signed import claims_of
from tests.http.test_v3_updates import DEVICE, a_license
from tests.http.v3_app import App, open_app

DATABASES = ("sqlite",)
NOTICE = {"product_id": 17, "title": "A crafted file runs code", "affected": "< 3.2.1", "severity": "high"}


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    # Disable the cache of products.
    monkeypatch.setattr(views_store, "KNOWN_FOR", -1.0)
    with open_app(tmp_path) as app:
        assert app.ask("POST", "/products", {"id": 17, "name": "Paint"}).status == 201
        yield app


def a_notice(app: App, **members: Any) -> int:
    made = app.ask("POST", "/notices", NOTICE | members)
    assert made.status == 201, made.body
    return int(made.json["id"])


def test_a_notice_is_made_published_answered_and_withdrawn(app: App) -> None:
    a_license(app)
    body = {"license_key": "KEY-1", "app_version": "3.1"}

    def ask(path: str, *, is_signed: bool = False) -> Any:
        headers = {"Accept": "application/jwt"} if is_signed else {}
        answer = app.ask("POST", path, body, token=None, headers=headers)
        assert answer.status == 200, answer.body
        return (claims_of(answer.body) if is_signed else answer.json)["notices"]

    notice = a_notice(app, url="https://example.com/5")
    assert ask("/validate") == ask("/updates") == ask("/validate", is_signed=True) == []
    changed = app.ask("PATCH", f"/notices/{notice}", {"fixed_in": "3.2.1"})
    assert (changed.status, changed.json["state"], changed.json["fixed_in"]) == (200, "draft", "3.2.1")
    assert app.ask("POST", f"/notices/{notice}/publish").json["state"] == "published"
    shown = {
        "id": notice,
        "severity": "high",
        "title": "A crafted file runs code",
        "url": "https://example.com/5",
        "fixed_in": "3.2.1",
    }
    for path in ("/validate", "/updates"):
        assert ask(path) == ask(path, is_signed=True) == [shown]
    body["app_version"] = "3.2.1"
    assert ask("/validate") == ask("/updates") == []
    assert app.ask("DELETE", f"/notices/{notice}").json["code"] == "still_in_use"
    assert app.ask("POST", f"/notices/{notice}/withdraw").json["state"] == "withdrawn"
    listed = app.ask("GET", "/notices?product_id=17&state=withdrawn&severity=high").json["items"]
    assert [one["id"] for one in listed] == [notice]
    assert app.ask("DELETE", f"/notices/{notice}").status == 204
    names = ("created", "updated", "published", "withdrawn", "deleted")
    assert [name for name, _ in app.events("notice.")] == [f"notice.{name}" for name in names]


def test_nobody_is_notified_of_a_draft(app: App) -> None:
    refused = app.ask("POST", f"/notices/{a_notice(app)}/notify")
    assert (refused.status, refused.json["code"]) == (422, "invalid")


def test_customers_are_notified_by_a_job(app: App) -> None:
    assert app.ask("POST", "/customers", {"id": 7, "email": "dora@example.com"}).status == 201
    assert app.ask("POST", "/customers", {"id": 8, "name": "Erin"}).status == 201
    a_license(app, customer={"id": 7})
    a_license(app, key="KEY-2", customer={"id": 8})
    a_license(app, key="KEY-3")
    for key in ("KEY-1", "KEY-2", "KEY-3"):
        device = {"license_key": key, "fingerprint": DEVICE, "app_version": "3.1"}
        assert app.ask("POST", "/activate", device, token=None).status == 201
    notice = a_notice(app)
    assert app.ask("POST", f"/notices/{notice}/publish").status == 200
    assert app.ask("GET", f"/notices/{notice}/preview").json == {
        "devices": 3,
        "customers": 2,
        "to_notify": 1,
        "notified": 0,
        "unreachable": 1,
        "licenses_without_customer": 1,
        "customer_ids": [7],
    }
    job = app.ask("POST", f"/notices/{notice}/notify")
    assert (job.status, job.json["kind"]) == (202, "notify")
    assert app.ask("GET", f"/jobs/{job.json['id']}").json["state"] == "waiting"
    recipients = app.ask("GET", f"/notices/{notice}/recipients")
    assert recipients.json == {"items": [], "next_cursor": None}


def test_an_api_key_of_a_product_has_to_do_with_its_notices_only(app: App) -> None:
    assert app.ask("POST", "/products", {"id": 18, "name": "Draw"}).status == 201
    own, other = a_notice(app), a_notice(app, product_id=18)
    token = app.issue_token(Permissions.READ_WRITE, product_id=17)
    paths = ("", "/preview", "/recipients")
    seen = {
        one: [app.ask("GET", f"/notices/{one}{path}", token=token).status for path in paths]
        for one in (own, other)
    }
    assert seen == {own: [200, 200, 404], other: [404, 404, 404]}
    for what in ("publish", "withdraw", "notify"):
        assert app.ask("POST", f"/notices/{other}/{what}", token=token).status == 404
    assert app.ask("POST", f"/notices/{own}/publish", token=token).status == 200
    assert app.ask("POST", f"/notices/{own}/notify", token=token).status == 202
    assert app.ask("POST", "/notices", NOTICE | {"product_id": 18}, token=token).status == 404
