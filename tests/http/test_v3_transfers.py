"""The management API of claims and transfers: complete responses, and refusals."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from keywright.identity.model import Permissions
from tests.http.v3_app import App, open_app

DATABASES = ("sqlite",)
FREE = {"claimable": True, "transferable": "always", "transfer_after_days": 0}


@pytest.fixture
def app(tmp_path: Any) -> Iterator[App]:
    with open_app(tmp_path) as app:
        app.name_products(3, 5)
        for number, name in ((7, "ada"), (8, "bob")):
            assert app.ask("POST", "/customers", {"id": number, "email": f"{name}@example.com"}).status == 201
        yield app


def make(app: App, key: str = "KEY-0001", **members: Any) -> Any:
    return app.ask("POST", "/licenses", {"key": key, "terms": FREE} | members).json


def test_a_license_is_claimed_counted_and_then_settled_for_a_while(app: App) -> None:
    order: dict[str, Any] = {"order": {"id": "box-7"}}
    number = make(app, **order)["id"]
    make(app, "KEY-0002", customer={"id": 8}, **order)
    claim = {"license_key": "KEY-0001", "customer_id": 7}
    reply = app.ask("POST", "/licenses/claim", claim)
    assert (reply.status, reply.json) == (200, {"license_id": number, "customer_id": 7})
    assert app.ask("GET", "/licenses/claims?order_id=box-7").json == {
        "licenses": 2,
        "claimed": 1,
        "activated": 0,
    }
    others: tuple[dict[str, Any], ...] = (
        {"customer_id": 8},
        {"license_key": "KEY-0002"},
        {"license_key": "UNKNOWN"},
    )
    refused = [app.ask("POST", "/licenses/claim", claim | one) for one in others]
    assert {(one.status, one.code, one.body) for one in refused} == {(409, "not_claimable", refused[0].body)}
    unknown = app.ask("POST", "/licenses/claim", claim | {"customer_id": 99})
    assert (unknown.status, unknown.json["errors"][0]["pointer"]) == (422, "/customer_id")
    settling = app.ask("POST", f"/licenses/{number}/rotate-key")
    assert (settling.status, settling.json["code"]) == (409, "not_transferable")
    assert "(UTC), it cannot get a new key" in settling.json["detail"]
    assert app.ask("PATCH", f"/licenses/{number}", {"customer_id": None}).status == 200
    assert app.ask("POST", f"/licenses/{number}/rotate-key").status == 200
    assert app.events("license.claimed") == [("license.claimed", {"customer_id": 7})]


def test_a_license_is_offered_canceled_accepted_and_given_back(app: App) -> None:
    number = make(app, customer={"id": 7})["id"]
    path = f"/licenses/{number}/transfers"
    reply = app.ask("POST", path, {"email": "bob@example.com"})
    first = {
        "id": 1,
        "license_id": number,
        "state": "offered",
        "from_customer_id": 7,
        "to_customer_id": 8,
        "offered_at": reply.json["offered_at"],
        "expires_at": reply.json["expires_at"],
        "accepted_at": None,
        "ended_at": None,
        "undone_at": None,
    }
    assert (reply.status, reply.json) == (201, first)
    begin, end = (datetime.fromisoformat(first[name]) for name in ("offered_at", "expires_at"))
    assert end - begin == timedelta(days=7)
    assert app.ask("GET", path).json == {"items": [first], "next_cursor": None}
    again = app.ask("POST", path, {"email": "eve@example.com"})
    assert (again.status, again.json["code"]) == (409, "transfer_pending")
    assert app.ask("DELETE", f"{path}/1").status == 204
    assert app.ask("DELETE", f"{path}/1").status == 404
    assert app.ask("POST", path, {"email": "bob@example.com"}).status == 201
    accepted = app.ask("POST", f"{path}/2/accept")
    assert (accepted.status, accepted.json["state"]) == (200, "accepted")
    taken = app.ask("GET", f"/licenses/{number}").json
    assert (taken["customer_id"], taken["key"] != "KEY-0001") == (8, True)
    back = app.ask("POST", f"{path}/2/undo")
    assert (back.status, back.json["state"]) == (200, "undone")
    assert app.ask("POST", f"{path}/2/undo").status == 404
    third = app.ask("GET", f"/licenses/{number}").json
    assert (third["customer_id"], len({"KEY-0001", taken["key"], third["key"]})) == (7, 3)
    assert [one["state"] for one in app.ask("GET", path).json["items"]] == ["undone", "ended"]
    changes = {"terms": {"transferable": "no"}}
    assert app.ask("PATCH", f"/licenses/{number}", changes).status == 200
    refused = app.ask("POST", path, {"email": "bob@example.com"})
    assert (refused.status, refused.json["code"]) == (409, "not_transferable")


def test_a_key_of_one_product_hands_on_to_nobody_of_another(app: App) -> None:
    number = make(app, customer={"id": 7}, product_id=3)["id"]
    make(app, "KEY-0002", customer={"id": 8}, product_id=5)
    token = app.issue_token(Permissions.READ_WRITE, product_id=3)
    path = f"/licenses/{number}/transfers"
    refused = app.ask("POST", path, {"email": "bob@example.com"}, token=token)
    assert (refused.status, refused.json["errors"][0]["pointer"]) == (422, "/email")
    assert app.ask("POST", path, {"email": "new@example.com"}, token=token).status == 201
    assert app.ask("GET", "/licenses/2/transfers", token=token).status == 404
    assert app.ask("GET", "/licenses/claims", token=token).json["licenses"] == 1
