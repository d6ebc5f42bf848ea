"""Policies over v3."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest
from sqlalchemy import update

from keywright.db.schema import licenses
from keywright.identity.model import Permissions
from keywright.licensing.licenses.keys import UNAMBIGUOUS
from keywright.licensing.terms.model import Terms
from keywright.registry import open_executor
from tests.http.v3_app import App, open_app
from tests.jobs import Work
from tests.makers import activate, generate, revoke_api_key

DATABASES = ("sqlite",)
KEY = {
    "charset": UNAMBIGUOUS,
    "chunks": 6,
    "chunk_length": 5,
    "separator": "-",
    "prefix": None,
    "suffix": None,
}
#: The reference lists their names and defaults: tests/docs/test_v3_reference.py.
TERMS: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(Terms()))


@pytest.fixture
def app(tmp_path: Any) -> Iterator[App]:
    with open_app(tmp_path) as app:
        app.name_products(17, 18)
        yield app


def a_policy(app: App, **members: Any) -> Any:
    return app.ask("POST", "/policies", {"name": "Yearly"} | members).json


def test_a_policy_needs_a_name_only_and_shows_every_term(app: App) -> None:
    made = app.ask("POST", "/policies", {"name": "Yearly"})
    assert made.status == 201
    assert made.headers["location"] == "/v3/policies/1"
    assert made.json == {
        "id": 1,
        "name": "Yearly",
        "product_id": None,
        "key": KEY,
        "terms": TERMS,
        "archived_at": None,
        "created_at": made.json["created_at"],
        "updated_at": made.json["created_at"],
    }
    shown = app.ask("GET", "/policies/1")
    assert (shown.json, shown.headers["etag"]) == (made.json, made.headers["etag"])


def test_a_change_merges_the_key_format_and_the_terms(app: App) -> None:
    terms = {"max_activations": 3, "meters": {"pages": {"limit": 5, "per": "day"}}}
    made = a_policy(app, product_id=17, key={"prefix": "YEAR-"}, terms=terms)
    changes = {
        "name": "Two years",
        "key": {"prefix": None, "chunks": 5},
        "terms": {"max_activations": None, "grace_days": 7, "meters": {"pages": None}},
    }
    changed = app.ask("PATCH", "/policies/1", changes)
    assert changed.json == made | {
        "name": "Two years",
        "key": KEY | {"chunks": 5},
        "terms": TERMS | {"grace_days": 7},
        "updated_at": changed.json["updated_at"],
    }
    assert app.events("policy.updated") == [
        (
            "policy.updated",
            {
                "policy_id": 1,
                "policy": "Two years",
                "product_id": 17,
                "name": ["Yearly", "Two years"],
                "prefix": ["YEAR-", None],
                "chunks": [6, 5],
                "max_activations": [3, None],
                "grace_days": [0, 7],
                "meters": [{"pages": {"limit": 5, "per": "day", "overage": "refuse"}}, {}],
            },
        )
    ]


def test_a_policy_is_archived_and_taken_back(app: App) -> None:
    a_policy(app)
    a_policy(app)
    archived = app.ask("PATCH", "/policies/1", {"is_archived": True}).json
    assert archived["archived_at"] == archived["updated_at"]
    again = app.ask("PATCH", "/policies/1", {"is_archived": True, "name": "Old"}).json
    assert again["archived_at"] == archived["archived_at"]
    assert [one["id"] for one in app.ask("GET", "/policies?is_archived=true").json["items"]] == [1]
    assert [one["id"] for one in app.ask("GET", "/policies?is_archived=false").json["items"]] == [2]
    assert app.ask("PATCH", "/policies/1", {"is_archived": False}).json["archived_at"] is None


def test_only_a_policy_without_licenses_is_deleted(app: App) -> None:
    a_policy(app)
    a_policy(app)
    app.do(generate(1, 1))
    refused = app.ask("DELETE", "/policies/1")
    assert (refused.code, refused.json["detail"]) == (
        "still_in_use",
        "The policy 1 is still in use by licenses.",
    )
    assert app.ask("DELETE", "/policies/2").status == 204
    assert app.ask("GET", "/policies/2").json["detail"] == "There is no policy 2."


def test_a_key_for_one_product_sees_and_changes_the_policies_of_that_product(app: App) -> None:
    for product_id in (17, 18, None):
        a_policy(app, product_id=product_id)
    token = app.issue_token(Permissions.READ_WRITE, product_id=17)
    own = app.ask("POST", "/policies", {"name": "Own"}, token=token)
    assert (own.status, own.json["product_id"]) == (201, 17)
    assert [one["id"] for one in app.ask("GET", "/policies", token=token).json["items"]] == [4, 1]
    assert app.ask("GET", "/policies?product_id=18", token=token).json["items"] == []
    assert app.ask("PATCH", "/policies/1", {"name": "x"}, token=token).status == 200
    for product_id in (18, None):
        moved = app.ask("PATCH", "/policies/1", {"product_id": product_id}, token=token)
        assert moved.places == [("/product_id", "unknown")]
    other = app.ask("POST", "/policies", {"name": "x", "product_id": 18}, token=token)
    assert other.places == [("/product_id", "unknown")]
    for number in (2, 3):
        assert app.ask("GET", f"/policies/{number}", token=token).code == "not_found"
        assert app.ask("PATCH", f"/policies/{number}", {"name": "x"}, token=token).code == "not_found"
        assert app.ask("DELETE", f"/policies/{number}", token=token).code == "not_found"
    assert app.ask("DELETE", "/policies/1", token=token).status == 204


def licenses_of(app: App) -> dict[str, Any]:
    return {one["key"]: one for one in app.ask("GET", "/licenses").json["items"]}


def with_licenses(app: App) -> None:
    """Create policy 1 with two licenses, one with two places taken; and a license of policy 2."""
    for name in ("Yearly", "Other"):
        a_policy(app, name=name, terms={"max_activations": 3, "meters": {"a": {"limit": 1, "per": "day"}}})
    for number, key in ((1, "KEY-1"), (1, "KEY-2"), (2, "KEY-3")):
        assert app.ask("POST", "/licenses", {"policy_id": number, "key": key}).status == 201
    app.do(activate("KEY-2"), activate("KEY-2"))
    terms = {"max_activations": 1, "valid_for_days": 10, "meters": {"a": None}, "grace_days": 9}
    app.ask("PATCH", "/policies/1", {"terms": terms})


APPLY = {"terms": ["max_activations", "valid_for_days", "meters"]}


def work(app: App) -> None:
    """Run the waiting job."""
    with closing(open_executor(app.storage.clone())) as executor:
        list(Work(executor, app.storage).steps())


def test_a_dry_run_tells_what_applying_terms_would_change(app: App) -> None:
    with_licenses(app)
    preview = app.ask("POST", "/policies/1/apply", APPLY | {"dry_run": True})
    meter = {"limit": 1, "per": "day", "overage": "refuse"}
    assert (preview.status, preview.json) == (
        200,
        {
            "licenses": 2,
            "changed": 2,
            "lowered": 2,
            "over_limit": 1,
            "examples": [
                {
                    "license_id": 1,
                    "before": {"max_activations": 3, "valid_for_days": None, "meters": {"a": meter}},
                    "after": {"max_activations": 1, "valid_for_days": 10, "meters": {}},
                }
            ],
        },
    )
    assert app.ask("GET", "/jobs/1").code == "not_found"


def test_applying_multiplies_by_the_quantity_and_leaves_what_was_set_by_hand(app: App) -> None:
    with_licenses(app)
    with app.storage.write() as tx:
        tx.connection.execute(update(licenses).where(licenses.c.id == 1).values(quantity=5))
    app.ask("PATCH", "/licenses/2", {"terms": {"max_activations": 7}})
    body = {"terms": ["max_activations"]}
    counts = {}
    for overwrite in (False, True):
        found = app.ask("POST", "/policies/1/apply", body | {"dry_run": True, "overwrite": overwrite}).json
        counts[overwrite] = [found[name] for name in ("licenses", "changed", "lowered", "over_limit")]
    # 3 becomes 5 x 1; 7, of which two are taken, is kept, or becomes 1.
    assert counts == {False: [2, 1, 0, 0], True: [2, 2, 1, 1]}
    app.ask("POST", "/policies/1/apply", body)
    work(app)
    limits = {one: found["terms"]["max_activations"] for one, found in licenses_of(app).items()}
    assert limits == {"KEY-1": 5, "KEY-2": 7, "KEY-3": 3}
    assert app.ask("GET", "/licenses/2").json["kept_terms"] == ["max_activations"]
    app.ask("POST", "/policies/1/apply", body | {"overwrite": True})
    work(app)
    shown = app.ask("GET", "/licenses/2").json
    assert (shown["terms"]["max_activations"], shown["kept_terms"]) == (1, [])


def test_a_license_moves_to_another_policy_for_its_quantity(app: App) -> None:
    app.name_products(3, 4)
    for name, product, terms in (
        ("Pro", 3, {"max_activations": 2, "entitlements": ["pro"], "grace_days": 3}),
        ("Max", 3, {"max_activations": 10, "entitlements": ["max"], "valid_for_days": 5}),
        ("App", 4, {}),
    ):
        a_policy(app, name=name, product_id=product, terms=terms)
    made = app.ask("POST", "/licenses", {"policy_id": 1, "key": "KEY-1", "product_id": 3}).json
    with app.storage.write() as tx:
        tx.connection.execute(update(licenses).values(quantity=3))
    app.ask("PATCH", "/licenses/1", {"terms": {"grace_days": 30}})
    moved = app.ask("PATCH", "/licenses/1", {"policy_id": 2, "metadata": {"plan": "max"}}).json
    terms = moved["terms"]
    assert (moved["policy_id"], moved["key"], moved["quantity"]) == (2, made["key"], 3)
    assert (terms["max_activations"], terms["entitlements"], terms["grace_days"]) == (30, ["max"], 30)
    assert (moved["kept_terms"], moved["metadata"]) == (["grace_days"], {"plan": "max"})
    assert moved["expires_at"] is not None
    (changed,) = app.events("license.changed")
    assert (changed[1]["policy_id"], changed[1]["quantity"]) == ([1, 2], [3, 3])
    whole = app.ask("PATCH", "/licenses/1", {"policy_id": 2, "overwrite": True}).json
    assert (whole["terms"]["grace_days"], whole["kept_terms"]) == (0, [])
    for number in (3, 9):
        assert app.ask("PATCH", "/licenses/1", {"policy_id": number}).places == [("/policy_id", "unknown")]
    app.ask("PATCH", "/policies/1", {"is_archived": True})
    assert app.ask("PATCH", "/licenses/1", {"policy_id": 1}).code == "policy_archived"


def test_terms_are_applied_to_the_licenses_of_the_policy_by_a_job(app: App) -> None:
    with_licenses(app)
    until = "2031-01-01T00:00:00Z"
    app.ask("PATCH", "/licenses/2", {"expires_at": until})
    before = licenses_of(app)
    started = app.ask("POST", "/policies/1/apply", APPLY)
    assert (started.status, started.headers["location"]) == (202, "/v3/jobs/1")
    assert started.json == {
        "job": {
            "id": 1,
            "kind": "apply",
            "state": "waiting",
            "done": 0,
            "total": 2,
            "result": None,
            "created_at": started.json["job"]["created_at"],
            "finished_at": None,
        }
    }
    # Later changes of the policy do not affect this job.
    app.ask("PATCH", "/policies/1", {"terms": {"max_activations": 50}})
    work(app)
    job = app.ask("GET", "/jobs/1").json
    assert (job["state"], job["done"]) == ("done", 2)
    assert job["result"] == {"changed": 2, "skipped": 0, "messages": []}
    after = licenses_of(app)
    for key in ("KEY-1", "KEY-2"):
        changes = {"max_activations": 1, "valid_for_days": 10, "meters": {}}
        assert after[key]["terms"] == before[key]["terms"] | changes
    assert after["KEY-2"]["expires_at"] == until
    assert after["KEY-1"]["expires_at"] is not None
    assert after["KEY-3"] == before["KEY-3"]
    assert len(app.events("license.updated")) == 3
    app.ask("POST", "/policies/1/apply", {"terms": ["valid_for_days"]})
    work(app)
    assert app.ask("GET", "/jobs/2").json["result"]["changed"] == 0


def test_a_key_for_one_product_applies_terms_to_licenses_of_that_product(app: App) -> None:
    a_policy(app, product_id=17)
    for key, product_id in (("KEY-1", 17), ("KEY-2", 18)):
        app.ask("POST", "/licenses", {"policy_id": 1, "key": key, "product_id": product_id})
    app.ask("PATCH", "/policies/1", {"terms": {"grace_days": 9}})
    own, other = (app.issue_token(Permissions.READ_WRITE, product_id=one) for one in (17, 18))
    body = {"terms": ["grace_days"]}
    assert app.ask("POST", "/policies/1/apply", body, token=other).code == "not_found"
    preview = app.ask("POST", "/policies/1/apply", body | {"dry_run": True}, token=own).json
    assert (preview["licenses"], preview["changed"]) == (1, 1)
    assert app.ask("POST", "/policies/1/apply", body, token=own).status == 202
    work(app)
    assert app.ask("GET", "/jobs/1", token=own).json["done"] == 1
    assert app.ask("GET", "/jobs/1", token=other).code == "not_found"
    graces = {key: one["terms"]["grace_days"] for key, one in licenses_of(app).items()}
    assert graces == {"KEY-1": 9, "KEY-2": 0}


def test_a_job_stops_when_the_api_key_that_ordered_it_is_revoked(app: App) -> None:
    with_licenses(app)
    before = licenses_of(app)
    token = app.issue_token(Permissions.READ_WRITE)
    number = app.ask("GET", "/me", token=token).json["id"]
    app.ask("POST", "/policies/1/apply", APPLY, token=token)
    revoke_api_key(app.storage, number)
    work(app)
    job = app.ask("GET", "/jobs/1").json
    assert (job["state"], job["done"]) == ("stopped", 0)
    assert job["result"]["messages"] == ["The API key that started the job was revoked."]
    assert licenses_of(app) == before


def test_only_known_terms_are_applied(app: App) -> None:
    a_policy(app)
    refused = app.ask("POST", "/policies/1/apply", {"terms": ["grace_day"]})
    assert refused.places == [("/terms/0", "invalid")]
    assert "grace_days" in refused.json["detail"]
    assert app.ask("POST", "/policies/1/apply", {"terms": []}).places == [("/terms", "too_short")]
    assert app.ask("POST", "/policies/2/apply", APPLY).code == "not_found"
