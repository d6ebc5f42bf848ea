"""Webhooks over the management API: complete responses, secrets shown once, deliveries."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from keywright.background.loops import read_clock
from keywright.registry import open_executor
from tests.http.v3_app import App, open_app
from tests.storage.webhooks import deliver

DATABASES = ("sqlite",)
URL = "https://crm.example/hooks"


@pytest.fixture
def app(tmp_path: Any) -> Iterator[App]:
    with open_app(tmp_path) as app:
        app.name_products(5)
        yield app


def create(app: App, **fields: Any) -> Any:
    answer = app.ask("POST", "/webhooks", {"url": URL, "events": ["license.*"]} | fields)
    assert answer.status == 201, answer.json
    return answer.json


def test_a_new_webhook_is_shown_whole_with_its_secret_this_once(app: App) -> None:
    made = create(app, description="CRM", product_id=5, payload="thin")
    secret = made["secret"]
    assert secret.startswith("whsec_")
    assert made == {
        "id": 1,
        "url": URL,
        "description": "CRM",
        "events": ["license.*"],
        "product_id": 5,
        "payload": "thin",
        "is_enabled": True,
        "disabled_reason": None,
        "failing_since": None,
        "secret": secret,
        "created_at": made["created_at"],
        "updated_at": made["created_at"],
    }
    assert app.ask("GET", "/webhooks/1").json == made | {"secret": None}
    assert app.ask("GET", "/webhooks").json["items"] == [made | {"secret": None}]


def test_a_webhook_is_changed_and_deleted(app: App) -> None:
    create(app, description="CRM")
    changed = app.ask("PATCH", "/webhooks/1", {"events": ["job.*", "job.*"], "is_enabled": False})
    assert changed.json["events"] == ["job.*"]
    assert (changed.json["is_enabled"], changed.json["disabled_reason"]) == (False, "by_hand")
    assert app.ask("PATCH", "/webhooks/1", {"is_enabled": True, "description": None}).json["is_enabled"]
    assert app.ask("DELETE", "/webhooks/1").status == 204
    assert app.ask("GET", "/webhooks/1").code == "not_found"
    assert app.ask("PATCH", "/webhooks/1", {}).code == "not_found"


def test_a_rotated_secret_is_shown_once(app: App) -> None:
    made = create(app)
    rotated = app.ask("POST", "/webhooks/1/rotate-secret", {}).json
    assert rotated["secret"].startswith("whsec_")
    assert rotated["secret"] != made["secret"]
    own = app.ask("POST", "/webhooks/1/rotate-secret", {"secret": made["secret"]}).json
    assert own["secret"] == made["secret"]
    assert made["secret"] not in repr(app.events("webhook."))


def attempt_all(app: App, status: int = 200) -> None:
    """Attempt all deliveries, as a server process does, but without a network."""
    with closing(open_executor(app.storage.clone())) as executor:
        deliver(executor, now=read_clock(), receive=lambda _: status)


def test_deliveries_are_listed_and_shown_with_what_is_sent(app: App) -> None:
    create(app)
    app.ask("POST", "/licenses", {"key": "KEY-0001-LONG-ENOUGH"})
    app.ask("POST", "/activate", {"license_key": "KEY-0001-LONG-ENOUGH", "fingerprint": "f" * 20}, token=None)
    attempt_all(app)
    activated, made = app.ask("GET", "/webhooks/1/deliveries").json["items"]
    assert made == {
        "id": made["id"],
        "message_id": f"msg_1_{made['event_id']}",
        "event_id": made["event_id"],
        "type": "license.created",
        "license_id": 1,
        "state": "delivered",
        "attempts": 1,
        "next_attempt_at": None,
        "last_attempt_at": made["last_attempt_at"],
        "status": 200,
        "answer": "ok",
        "duration_ms": 5,
        "created_at": made["created_at"],
    }
    assert activated["type"] == "license.activated"
    shown = app.ask("GET", f"/webhooks/1/deliveries/{made['id']}").json
    assert shown["request"]["data"]["license"]["key"] == "…OUGH"
    assert app.ask("GET", "/webhooks/1/deliveries?state=waiting").json["items"] == []
    assert len(app.ask("GET", "/webhooks/1/deliveries?license_id=1&limit=1").json["items"]) == 1
    assert app.ask("GET", "/webhooks/2/deliveries").code == "not_found"
    assert app.ask("GET", "/webhooks/1/deliveries/99").code == "not_found"


def test_deliveries_are_sent_again_and_tests_are_sent(app: App) -> None:
    create(app)
    app.ask("POST", "/licenses", {"key": "KEY-0001"})
    attempt_all(app)
    assert app.ask("POST", "/webhooks/1/deliveries/1/resend").status == 204
    assert app.ask("GET", "/webhooks/1/deliveries/1").json["state"] == "waiting"
    attempt_all(app)
    assert app.ask("POST", "/webhooks/1/resend", {"since": "2020-01-01T00:00:00Z"}).status == 204
    assert app.ask("POST", "/webhooks/1/test").status == 204
    attempt_all(app, 500)
    items = app.ask("GET", "/webhooks/1/deliveries?state=waiting").json["items"]
    assert sorted(one["type"] for one in items) == ["license.created", "webhook.tested"]
    assert app.ask("GET", "/webhooks/1").json["failing_since"]
