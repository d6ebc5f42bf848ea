"""Customers over v3."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from keywright.core.command import Context
from keywright.db.schema import trials
from keywright.identity.model import Permissions
from keywright.maintenance import personal_data
from keywright.provisioning.portal.model import RequestErasure
from tests.http.v3_app import App, open_app
from tests.makers import activate, an_origin, create, update

DATABASES = ("sqlite",)
FIRST = 1_000_000_000


@pytest.fixture
def app(tmp_path: Any) -> Iterator[App]:
    with open_app(tmp_path) as app:
        yield app


def a_customer(app: App, **members: Any) -> Any:
    return app.ask("POST", "/customers", members).json


def test_a_customer_is_made_shown_changed_and_deleted(app: App) -> None:
    made = app.ask("POST", "/customers", {"email": " Ada@Example.com ", "name": "Ada", "metadata": {"a": 1}})
    assert made.status == 201
    assert made.headers["location"] == f"/v3/customers/{FIRST}"
    assert made.json == {
        "id": FIRST,
        "email": "Ada@Example.com",
        "email_verified_at": None,
        "name": "Ada",
        "language": None,
        "external_id": None,
        "metadata": {"a": 1},
        "erasure_requested_at": None,
        "created_at": made.json["created_at"],
        "updated_at": made.json["created_at"],
    }
    shown = app.ask("GET", f"/customers/{FIRST}")
    assert (shown.json, shown.headers["etag"]) == (made.json, made.headers["etag"])
    changed = app.ask("PATCH", f"/customers/{FIRST}", {"email": None, "metadata": {"b": 2}})
    assert changed.json == made.json | {
        "email": None,
        "metadata": {"a": 1, "b": 2},
        "updated_at": changed.json["updated_at"],
    }
    headers = {"If-Match": made.headers["etag"]}
    assert app.ask("DELETE", f"/customers/{FIRST}", headers=headers).code == "changed_meanwhile"
    assert app.ask("DELETE", f"/customers/{FIRST}").status == 204
    assert app.ask("GET", f"/customers/{FIRST}").code == "not_found"


def test_events_about_customers_tell_no_personal_data(app: App) -> None:
    a_customer(app, id=8, email="ada@example.com", name="Ada")
    changes = {"email": "ada@example.org", "external_id": "crm-8", "metadata": {"vip": "CANARY"}}
    app.ask("PATCH", "/customers/8", changes)
    assert app.events("customer.") == [
        ("customer.created", {"number": 8}),
        ("customer.updated", {"number": 8} | dict.fromkeys(changes, "changed")),
    ]


def test_what_another_customer_has_is_named(app: App) -> None:
    a_customer(app, id=8, email="ada@example.com")
    refused = app.ask("POST", "/customers", {"email": "ADA@example.com"})
    assert (refused.status, refused.code) == (409, "already_exists")
    assert refused.places == [("/email", "already_exists")]
    assert app.ask("POST", "/customers", {"id": 8}).places == [("/id", "already_exists")]
    assert app.ask("PATCH", "/customers/8", {"email": "ADA@example.com"}).json["email"] == "ADA@example.com"


def test_a_language_is_written_as_catalogs_are_named_and_taken_back(app: App) -> None:
    a_customer(app, id=8, language="PT_br")
    assert app.ask("GET", "/customers/8").json["language"] == "pt-BR"
    for language, kept in (("DE", "de"), ("zh-hant-tw", "zh-Hant-TW"), (None, None)):
        assert app.ask("PATCH", "/customers/8", {"language": language}).json["language"] == kept


def test_it_is_seen_that_a_customer_asks_to_be_erased(app: App) -> None:
    a_customer(app, id=8)
    context = Context(datetime(2026, 11, 23, 9, tzinfo=UTC), an_origin())
    app.do(RequestErasure(context=context, customer_id=8))
    assert app.ask("GET", "/customers/8").json["erasure_requested_at"] == "2026-11-23T09:00:00Z"


def test_customers_are_listed_and_searched(app: App) -> None:
    for number, name in ((1, "Ada"), (2, "Bob"), (3, "Ada")):
        a_customer(app, id=number, name=name, email=f"{name}{number}@example.com")
    assert [one["id"] for one in app.ask("GET", "/customers").json["items"]] == [3, 2, 1]
    assert [one["id"] for one in app.ask("GET", "/customers?sort=created_at").json["items"]] == [1, 2, 3]
    first = app.ask("POST", "/customers/search?limit=1&count=true", {"name": "Ada"}).json
    assert ([one["id"] for one in first["items"]], first["total"]) == ([3], 2)
    path = f"/customers/search?limit=1&cursor={first['next_cursor']}"
    assert [one["id"] for one in app.ask("POST", path, {"name": "Ada"}).json["items"]] == [1]
    found = app.ask("POST", "/customers/search", {"email": "BOB2@example.com"}).json
    assert [one["id"] for one in found["items"]] == [2]


def with_a_license(app: App) -> None:
    personal = {"email": "CANARY@example.com", "name": "Ada CANARY", "external_id": "crm CANARY"}
    a_customer(app, id=8, metadata={"of": "CANARY"}, **personal)
    app.do(create("KEY-1", customer_id=8))
    app.do(
        activate("KEY-1", label="CANARY", origin=an_origin(ip_address="203.0.113.7", user_agent="CANARY/1"))
    )
    app.do(update("KEY-1", metadata='{"phone":"CANARY"}'))
    with app.storage.write() as tx:
        row = {"product_id": 17, "fingerprint_hmac": b"1" * 32, "sealed_fingerprint": b"", "license_id": 1}
        tx.insert(trials, row | {"email": "CANARY@example.org", "created_at": 1})


def test_a_customer_with_a_license_is_not_deleted(app: App) -> None:
    with_a_license(app)
    assert app.ask("DELETE", "/customers/8").code == "still_in_use"


def test_everything_stored_about_a_customer_is_exported(app: App) -> None:
    with_a_license(app)
    found = app.ask("GET", "/customers/8/export").json
    assert found["customer"] == app.ask("GET", "/customers/8").json
    assert [one["name"] for one in found["events"]] == ["customer.created"]
    (license,) = found["licenses"]
    assert (license["license"]["key"], license["license"]["metadata"]) == ("KEY-1", {"phone": "CANARY"})
    assert [one["label"] for one in license["activations"]] == ["CANARY"]
    assert [one["name"] for one in license["events"]][:2] == ["license.created", "license.activated"]
    assert [one["email"] for one in license["trials"]] == ["CANARY@example.org"]
    assert app.ask("GET", "/customers/9/export").code == "not_found"


def test_more_than_one_answer_holds_is_left_to_the_command_line(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_a_license(app)
    monkeypatch.setattr(personal_data, "MAX_ROWS", 2)
    refused = app.ask("GET", "/customers/8/export")
    assert (refused.status, refused.code) == (422, "invalid")
    assert "Run keywright customer export." in refused.json["detail"]
    assert refused.places == [("customer_id", "invalid")]
    # Erasing does not read the customer's data.
    assert app.ask("POST", "/customers/8/erase").status == 200
    assert app.ask("POST", "/customers/9/erase").code == "not_found"


def test_an_erased_customer_is_a_number_with_licenses(app: App) -> None:
    with_a_license(app)
    erased = app.ask("POST", "/customers/8/erase", headers={"Idempotency-Key": "once"})
    assert (erased.status, erased.json) == (
        200,
        {"activations": 1, "events": 3, "licenses": 1, "leases": 0, "trials": 1},
    )
    left = app.ask("GET", "/customers/8/export")
    assert b"CANARY" not in left.body
    assert b"203.0.113.7" not in left.body
    assert left.json["licenses"][0]["license"]["times_activated"] == 1
    shown = app.ask("GET", "/customers/8").json
    assert [shown[one] for one in ("email", "name", "external_id", "metadata")] == [None, None, None, {}]
    again = app.ask("POST", "/customers/8/erase", headers={"Idempotency-Key": "once"})
    assert (again.json, again.headers["idempotency-replayed"]) == (erased.json, "true")
    assert [name for name, _ in app.events("customer.")] == ["customer.created", "customer.erased"]
    assert app.ask("POST", "/customers/9/erase").code == "not_found"


def test_for_a_key_of_one_product_there_are_no_customers(app: App) -> None:
    with_a_license(app)
    token = app.issue_token(Permissions.READ_WRITE, product_id=17)
    for method, path in (
        ("GET", ""),
        ("POST", ""),
        ("POST", "/search"),
        ("GET", "/8"),
        ("PATCH", "/8"),
        ("DELETE", "/8"),
        ("GET", "/8/export"),
        ("POST", "/8/erase"),
    ):
        body: Any = {} if method in ("POST", "PATCH") and "erase" not in path else None
        assert app.ask(method, f"/customers{path}", body, token=token).code == "not_found", (method, path)
