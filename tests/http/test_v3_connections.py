"""Connections to shops over v3, and the results of shop events."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from keywright.db.schema import shop_events
from keywright.registry import open_executor
from tests.connections import a_sale, an_event, store, work
from tests.http.v3_app import App, open_app
from tests.makers import create_policy


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with open_app(tmp_path) as app:
        app.do(create_policy())
        yield app


def add(app: App, **body: Any) -> Any:
    given = {"shop": "generic", "name": "Our shop", "mapping": [{"product": "pro", "policy_id": 1}]}
    reply = app.ask("POST", "/connections", given | body)
    assert reply.status == 201, reply.json
    return reply.json


def test_what_a_removed_connection_has_sold_is_taken_over(app: App) -> None:
    add(app)
    with closing(open_executor(app.storage.clone())) as executor:
        number = store(executor, an_event(a_sale(quantity=2)))
        assert number is not None
        work(executor, number)
    app.ask("DELETE", "/connections/1")
    add(app)
    assert app.ask("POST", "/connections/2/take-over", {"connection_id": 7}).status == 404
    assert app.ask("POST", "/connections/2/take-over", {"connection_id": 1}).json == {"licenses": 2}


def test_a_connection_is_added_shown_changed_and_removed(app: App) -> None:
    added = add(app, api_key="key")
    assert added.pop("secret").startswith("whsec_")
    assert added == {
        "id": 1,
        "shop": "generic",
        "name": "Our shop",
        "path": "/in/generic/1",
        "mode": "live",
        "has_api_key": True,
        "mapping": [
            {"product": "pro", "policy_id": 1, "policy_ids": [1], "does": "make", "quantity": "keys"}
        ],
        "url": None,
        "paid_states": [],
        "sends_mail": True,
        "mail_template": None,
        "on_cancel": "paid_until",
        "missing_topics": None,
        "external_id_name": None,
        "metadata_names": [],
        "last_event_at": None,
        "failures": 0,
        "created_at": added["created_at"],
        "updated_at": added["updated_at"],
    }
    assert app.ask("GET", "/connections/1").json == added
    assert app.ask("GET", "/connections").json == {"items": [added]}
    changes: dict[str, Any] = {
        "name": "EU",
        "api_key": None,
        "mode": "test",
        "mapping": [],
        "sends_mail": False,
        "external_id_name": "client_reference_id",
        "metadata_names": ["campaign"],
    }
    changed = app.ask("PATCH", "/connections/1", changes).json
    assert (changed["name"], changed["has_api_key"], changed["mapping"]) == ("EU", False, [])
    assert (changed["mode"], changed["sends_mail"]) == ("test", False)
    assert (changed["external_id_name"], changed["metadata_names"]) == ("client_reference_id", ["campaign"])
    assert app.ask("DELETE", "/connections/1").status == 204
    assert app.ask("GET", "/connections/1").json["code"] == "not_found"


def test_a_product_renews_or_upgrades_by_one_policy(app: App) -> None:
    app.ask("POST", "/policies", {"name": "Second"})
    mapping = [
        {"product": "year", "policy_id": 1, "does": "renew"},
        {"product": "up", "policy_id": 2, "does": "upgrade"},
    ]
    added = add(app, mapping=mapping)
    assert [one["does"] for one in added["mapping"]] == ["renew", "upgrade"]
    assert added["mapping"][1]["policy_ids"] == [2]
    path = f"/connections/{added['id']}"
    for policy_ids in ([], [1, 2]):
        wrong = {"mapping": [{"product": "up", "policy_ids": policy_ids, "does": "upgrade"}]}
        assert app.ask("PATCH", path, wrong).places == [("/mapping", "invalid")]


def test_a_bundle_names_its_policies(app: App) -> None:
    for name in ("Second", "Third"):
        app.ask("POST", "/policies", {"name": name})
    added = add(app, mapping=[{"product": "suite", "policy_ids": [2, 3]}])
    (suite,) = added["mapping"]
    assert (suite["policy_id"], suite["policy_ids"]) == (2, [2, 3])
    path = f"/connections/{added['id']}"
    assert app.ask("PATCH", path, {"mapping": added["mapping"]}).json["mapping"] == [suite]
    for wrong in ([2, 2], [*range(1, 22)]):
        assert app.ask("PATCH", path, {"mapping": [{"product": "a", "policy_ids": wrong}]}).status == 422
    both = {"product": "a", "policy_id": 3, "policy_ids": [2, 3]}
    assert app.ask("PATCH", path, {"mapping": [both]}).places == [("/mapping", "invalid")]
    unknown = {"mapping": [{"product": "a", "policy_ids": [2, 9]}]}
    assert app.ask("PATCH", path, unknown).places == [("/mapping/0/policy_id", "unknown")]


def test_events_are_listed_and_tried_again(app: App) -> None:
    add(app)
    with closing(open_executor(app.storage.clone())) as executor:
        for product in ("pro", "team", "suite"):
            row_id = store(executor, an_event(a_sale(product, product=product)))
            assert row_id is not None
            work(executor, row_id)
    assert app.ask("GET", "/connections/1").json["failures"] == 2
    first = app.ask("GET", "/connections/1/events?state=unmatched&limit=1").json
    assert [one["order"] for one in first["items"]] == ["suite"]
    path = f"/connections/1/events?state=unmatched&limit=1&cursor={first['next_cursor']}"
    (event,) = app.ask("GET", path).json["items"]
    assert (event["order"], event["reason"], event["detail"]) == ("team", "unknown_product", "team")
    retried = app.ask("POST", f"/connections/1/events/{event['id']}/retry").json
    assert (retried["id"], retried["state"], retried["reason"]) == (event["id"], "waiting", None)
    overwrite = {"overwrite": True}
    assert app.ask("POST", f"/connections/1/events/{event['id']}/retry", overwrite).status == 200
    with app.storage.read() as tx:
        assert tx.connection.execute(
            select(shop_events.c.is_forced).order_by(shop_events.c.id.desc()).limit(2)
        ).scalars().all() == [0, 1]
    assert app.ask("POST", "/connections/1/events/99/retry").status == 404
    assert app.ask("GET", "/connections/9/events").status == 404
