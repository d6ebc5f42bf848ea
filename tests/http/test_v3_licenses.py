"""The management API of licenses: complete responses, and the same licenses over v2."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from keywright.identity.model import Permissions
from keywright.licensing.terms.model import Terms
from tests.http.v3_app import App, Reply, open_app

DATABASES = ("sqlite",)
V2 = "//wp-json/lmfwc/v2/licenses"
#: The reference lists their names and defaults: tests/docs/test_v3_reference.py.
TERMS: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(Terms()))


@pytest.fixture
def app(tmp_path: Any) -> Iterator[App]:
    with open_app(tmp_path) as app:
        app.name_products(1, 2, 3, 5, 6)
        yield app


def make(app: App, **members: Any) -> Reply:
    return app.ask("POST", "/licenses", {"key": "KEY-0001"} | members)


def list_ids(app: App, query: str = "", **given: Any) -> list[int]:
    return [one["id"] for one in app.ask("GET", f"/licenses{query}", **given).json["items"]]


def ask_v2(app: App, key: str) -> dict[str, Any]:
    consumer, secret = app.consumer
    reply = app.ask("GET", f"{V2}/{key}", token=None, auth=(consumer, secret))
    data: dict[str, Any] = reply.json["data"]
    return data


# --- making -----------------------------------------------------------------------------------------


def test_a_license_is_made_and_shown_whole(app: App) -> None:
    order = {"source": "woocommerce", "id": 1042, "line": "7"}
    made = make(app, product_id=3, order=order, metadata={"note": "gift"}, terms={"grace_days": 7})
    assert (made.status, made.headers["location"]) == (201, "/v3/licenses/1")
    now = made.json["created_at"]
    assert made.json == {
        "id": 1,
        "key": "KEY-0001",
        "product_id": 3,
        "policy_id": None,
        "customer_id": None,
        "trial_email": None,
        "license_ref": made.json["license_ref"],
        "external_id": None,
        "order": {"source": "woocommerce", "id": "1042", "line": "7", "index": 0},
        "status": "active",
        "state": "valid",
        "expires_at": None,
        "grace_until": None,
        "activations": 0,
        "leases": 0,
        "usage": {},
        "quantity": 1,
        "terms": TERMS | {"grace_days": 7},
        "kept_terms": [],
        "metadata": {"note": "gift"},
        "last_validated_at": None,
        "created_at": now,
        "updated_at": now,
    }
    assert re.fullmatch(r"kwr_[A-Za-z0-9_-]{32}", made.json["license_ref"])
    shown = app.ask("GET", "/licenses/1")
    assert shown.json == made.json
    assert shown.headers["etag"] == made.headers["etag"]


def test_a_policy_makes_several_licenses_for_an_order_once(app: App) -> None:
    policy = app.ask("POST", "/policies", {"name": "Yearly", "terms": {"valid_for_days": 365}}).json
    sold = {"policy_id": policy["id"], "quantity": 2, "order": {"source": "shop", "id": "9", "line": 1}}
    made = app.ask("POST", "/licenses", sold)
    assert made.status == 201
    assert [one["order"]["index"] for one in made.json["items"]] == [0, 1]
    assert {one["policy_id"] for one in made.json["items"]} == {policy["id"]}
    assert all(one["expires_at"] for one in made.json["items"])
    again = app.ask("POST", "/licenses", sold)
    assert (again.status, again.json) == (200, made.json)
    app.ask("PATCH", f"/policies/{policy['id']}", {"is_archived": True})
    assert app.ask("POST", "/licenses", {"policy_id": policy["id"]}).code == "policy_archived"


def test_the_customer_is_found_by_the_address_or_made(app: App) -> None:
    first = make(app, customer={"email": "ada@example.com", "name": "Ada", "language": "de"}).json
    second = make(app, key="KEY-0002", customer={"email": "ADA@example.com"}).json
    assert first["customer_id"] == second["customer_id"] >= 1_000_000_000
    assert app.ask("GET", f"/customers/{first['customer_id']}").json["language"] == "de"
    other = make(app, key="KEY-0003", customer={"id": 5, "email": "ada@example.com"})
    assert (other.code, other.places) == ("already_exists", [("/customer/email", "already_exists")])


# --- lists ------------------------------------------------------------------------------------------


def test_licenses_are_listed_filtered_and_counted(app: App) -> None:
    for number in range(1, 6):
        expiry = f"2030-01-0{number}T00:00:00Z" if number < 4 else None
        order = {"id": "A-1" if number == 5 else number}
        make(app, key=f"KEY-{number}", product_id=number % 2 + 1, expires_at=expiry, order=order)
    app.ask("POST", "/customers", {"id": 8})
    app.ask("PATCH", "/licenses/2", {"status": "disabled", "customer_id": 8})
    assert list_ids(app) == [5, 4, 3, 2, 1]
    assert list_ids(app, "?sort=id") == [1, 2, 3, 4, 5]
    assert list_ids(app, "?sort=expires_at") == [1, 2, 3, 4, 5]
    assert list_ids(app, "?sort=-expires_at") == [5, 4, 3, 2, 1]
    assert list_ids(app, "?status=disabled") == [2]
    assert list_ids(app, "?customer_id=8&product_id=1") == [2]
    assert list_ids(app, "?product_id=1&status=active") == [4]
    assert list_ids(app, "?order_id=A-1") == [5]
    assert list_ids(app, "?order_id=3") == [3]
    assert list_ids(app, "?expires_after=2030-01-01T00:00:00Z&expires_before=2030-01-03T00:00:00Z") == [2]
    assert list_ids(app, "?created_before=2020-01-01T00:00:00Z") == []
    assert list_ids(app, "?created_after=2020-01-01T00:00:00Z&policy_id=3") == []
    page = app.ask("GET", "/licenses?limit=2&count=true&product_id=2")
    assert page.json["total"] == 3
    following = app.ask("GET", f"/licenses?limit=2&product_id=2&cursor={page.json['next_cursor']}")
    assert [one["id"] for one in page.json["items"] + following.json["items"]] == [5, 3, 1]
    assert following.json["next_cursor"] is None
    assert app.ask("GET", "/licenses?statsu=active").code == "unknown_parameter"
    wrong = app.ask("GET", "/licenses?status=sould")
    assert wrong.code == "invalid_parameter"
    assert wrong.json["errors"][0]["detail"].endswith("inactive, sold")


# --- changes ----------------------------------------------------------------------------------------


def test_a_change_is_merged_and_obeys_if_match(app: App) -> None:
    made = make(app, metadata={"a": 1}, order={"id": 7, "source": "shop"}, terms={"grace_days": 3})
    change = {"status": "disabled", "metadata": {"b": 2}, "terms": {"max_activations": 2}, "order": {"id": 8}}
    etag = made.headers["etag"]
    changed = app.ask("PATCH", "/licenses/1", change, headers={"If-Match": etag})
    assert changed.status == 200
    assert changed.json == made.json | {
        "status": "disabled",
        "state": "disabled",
        "metadata": {"a": 1, "b": 2},
        "terms": TERMS | {"grace_days": 3, "max_activations": 2},
        "kept_terms": ["max_activations"],
        "order": {"source": "shop", "id": "8", "line": None, "index": 0},
        "updated_at": changed.json["updated_at"],
    }
    for method in ("PATCH", "DELETE"):
        body = {"status": "active"} if method == "PATCH" else None
        assert app.ask(method, "/licenses/1", body, headers={"If-Match": etag}).code == "changed_meanwhile"
    now = changed.headers["etag"]
    assert app.ask("DELETE", "/licenses/1", headers={"If-Match": now}).status == 204
    assert app.ask("GET", "/licenses/1").code == "not_found"


def test_an_activation_leaves_the_etag_as_it_is(app: App) -> None:
    etag = make(app).headers["etag"]
    app.ask("POST", "/activate", {"license_key": "KEY-0001", "fingerprint": "f" * 20}, token=None)
    shown = app.ask("GET", "/licenses/1")
    assert (shown.json["activations"], shown.headers["etag"]) == (1, etag)


def test_a_license_is_renewed(app: App) -> None:
    make(app, expires_at="2090-01-01T00:00:00Z")
    until = {"until": "2091-01-01T00:00:00Z"}
    for body, end in (({"days": 10}, "2090-01-11T00:00:00Z"), (until, until["until"])):
        assert app.ask("POST", "/licenses/1/renew", body).json["expires_at"] == end
    for wrong, places in (
        ({"days": 1, "from": "now"}, [("/days", "too_small")]),
        (until, [("/until", "too_small")]),
        ({}, [("/days", "missing")]),
        (until | {"days": 1}, [("/days", "invalid")]),
    ):
        refused = app.ask("POST", "/licenses/1/renew", wrong)
        assert (refused.status, refused.code, refused.places) == (422, "invalid", places)
    make(app, key="ENDLESS-1")
    assert app.ask("POST", "/licenses/2/renew", {"days": 1}).code == "never_expires"


def test_a_rotated_key_is_refused_as_such_and_unknown_to_v2(app: App) -> None:
    make(app)
    rotated = app.ask("POST", "/licenses/1/rotate-key").json
    patched = app.ask("PATCH", "/licenses/1", {"key": "KEY-0002"}).json
    assert len({"KEY-0001", rotated["key"], patched["key"]}) == 3
    for key in ("KEY-0001", rotated["key"]):
        report = app.ask("POST", "/validate", {"license_key": key}, token=None).json
        assert (report["code"], report["license"]) == ("key_rotated", None)
        assert app.ask("GET", f"{V2}/{key}", token=None, auth=app.consumer).status == 404
    assert app.ask("POST", "/validate", {"license_key": "KEY-0002"}, token=None).json["valid"]


def test_a_key_for_one_product_knows_no_other_license(app: App) -> None:
    make(app, product_id=5)
    make(app, key="KEY-0002", product_id=6)
    own = app.issue_token(Permissions.READ_WRITE, product_id=5)
    assert list_ids(app, token=own) == [1]
    assert list_ids(app, "?product_id=6", token=own) == []
    for method, path, body in (
        ("GET", "/licenses/2", None),
        ("PATCH", "/licenses/2", {"status": "disabled"}),
        ("DELETE", "/licenses/2", None),
        ("POST", "/licenses/2/renew", {"days": 1}),
        ("POST", "/licenses/2/rotate-key", None),
        ("GET", "/licenses/2/activations", None),
        ("GET", "/licenses/2/activations/1", None),
        ("DELETE", "/licenses/2/activations/1", None),
        ("POST", "/licenses/2/activations/release-all", None),
    ):
        assert app.ask(method, path, body, token=own).code == "not_found"
    other = app.ask("POST", "/licenses", {"key": "K", "product_id": 6}, token=own)
    assert other.places == [("/product_id", "unknown")]
    for product in (6, None):
        moved = app.ask("PATCH", "/licenses/1", {"product_id": product}, token=own)
        assert moved.places == [("/product_id", "unknown")]
    assert app.ask("POST", "/licenses", {"key": "KEY-0003"}, token=own).json["product_id"] == 5
    reader = app.issue_token(Permissions.READ)
    assert app.ask("PATCH", "/licenses/1", {"status": "disabled"}, token=reader).code == "not_permitted"


# --- v2 and v3 see one license ----------------------------------------------------------------------


def test_v2_shows_what_v3_made(app: App) -> None:
    make(app, product_id=3, order={"id": 1042, "line": 7, "source": "shop"}, terms={"max_activations": 4})
    seen = ask_v2(app, "KEY-0001")
    assert (seen["orderId"], seen["productId"], seen["timesActivatedMax"]) == (1042, 3, 4)
    make(app, key="KEY-0002", order={"id": "A-7"})
    assert ask_v2(app, "KEY-0002")["orderId"] is None


def test_v3_shows_what_v2_made(app: App) -> None:
    body = {"license_key": "OLD-1", "status": "delivered", "order_id": 12, "times_activated_max": 3}
    app.ask("POST", V2, body | {"valid_for": 10}, token=None, auth=app.consumer)
    seen = app.ask("GET", "/licenses/1").json
    assert (seen["status"], seen["state"], seen["order"]["id"]) == ("delivered", "valid", "12")
    assert seen["terms"]["max_activations"] == 3
    assert (seen["terms"]["valid_for_days"], seen["terms"]["starts"]) == (10, "first_activation")
    assert seen["expires_at"] is None


def test_grace_is_told_by_both(app: App) -> None:
    make(app, expires_at="2026-01-01T00:00:00Z", terms={"grace_days": 36_500})
    seen = app.ask("GET", "/licenses/1").json
    assert (seen["state"], seen["grace_until"]) == ("grace", "2125-12-08T00:00:00Z")
    assert app.ask("GET", f"{V2}/activate/KEY-0001", token=None, auth=app.consumer).status == 200
    app.ask("PATCH", "/licenses/1", {"terms": {"grace_days": 0}})
    assert app.ask("GET", "/licenses/1").json["state"] == "expired"
    assert app.ask("GET", f"{V2}/activate/KEY-0001", token=None, auth=app.consumer).status == 404
