"""External IDs of licenses, customers and products; and lists of what changed since a time."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from keywright.licensing.undo.rules import UndoChanges
from tests.http.v3_app import App, open_app
from tests.makers import LATER, NOW, activate, create, update
from tests.storage.projected import follow

DATABASES = ("sqlite",)
NEW: dict[str, dict[str, Any]] = {
    "licenses": {"key": "KEY-0001"},
    "customers": {"name": "Ada"},
    "products": {"name": "Paint"},
}


@pytest.fixture
def app(tmp_path: Any) -> Iterator[App]:
    with open_app(tmp_path) as app:
        yield app


def list_ids(app: App, path: str) -> list[int]:
    reply = app.ask("GET", path)
    assert reply.status == 200, reply.json
    return [one["id"] for one in reply.json["items"]]


@pytest.mark.parametrize("noun", NEW)
def test_an_external_id_is_set_changed_emptied_and_found(app: App, noun: str) -> None:
    made = app.ask("POST", f"/{noun}", NEW[noun] | {"external_id": " crm/ä 1 "})
    number = made.json["id"]
    assert (made.status, made.json["external_id"]) == (201, "crm/ä 1")
    assert list_ids(app, f"/{noun}?external_id=crm/%C3%A4%201") == [number]
    assert list_ids(app, f"/{noun}?external_id=CRM/%C3%A4%201") == []
    for value, places in (("x" * 256, "too_long"), ("", "too_short"), (" ", "invalid"), ("a\nb", "invalid")):
        refused = app.ask("PATCH", f"/{noun}/{number}", {"external_id": value})
        assert (refused.code, refused.places) == ("invalid", [("/external_id", places)]), value
    changed = app.ask("PATCH", f"/{noun}/{number}", {"external_id": "x" * 255})
    assert (changed.json["external_id"], changed.headers["etag"] != made.headers["etag"]) == ("x" * 255, True)
    assert app.ask("PATCH", f"/{noun}/{number}", {"external_id": None}).json["external_id"] is None


def test_customers_and_products_have_their_own_ids_and_licenses_may_share_one(app: App) -> None:
    for noun, members in NEW.items():
        first, second = (
            app.ask("POST", f"/{noun}", members | other).json["id"]
            for other in ({"external_id": "crm-1"}, {"key": "KEY-0002"} if noun == "licenses" else {})
        )
        again = members | {"external_id": "crm-1"} | ({"key": "KEY-0003"} if noun == "licenses" else {})
        replies = [app.ask("POST", f"/{noun}", again)]
        replies.append(app.ask("PATCH", f"/{noun}/{second}", {"external_id": "crm-1"}))
        if noun == "licenses":
            assert [one.status for one in replies] == [201, 200]
            assert list_ids(app, "/licenses?external_id=crm-1&sort=id") == [1, 2, 3]
            continue
        assert [one.places for one in replies] == 2 * [[("/external_id", "already_exists")]]
        assert app.ask("PATCH", f"/{noun}/{first}", {"external_id": "crm-1"}).status == 200


def test_the_history_has_it_and_undo_takes_it_back(app: App) -> None:
    app.do(create("KEY-1"), update("KEY-1", external_id="crm-1", now=LATER))
    assert app.events("license.updated") == [("license.updated", {"external_id": [None, "crm-1"]})]
    undo = update("KEY-1", now=LATER)
    app.do(UndoChanges(context=undo.context, license=1, changed_at=LATER))
    assert app.ask("GET", "/licenses/1").json["external_id"] is None


def test_licenses_are_found_by_when_they_were_changed(app: App) -> None:
    at = [NOW + timedelta(hours=hour) for hour in range(5)]
    app.do(*(create(f"KEY-{number}", now=at[0]) for number in range(1, 5)))
    app.do(activate("KEY-3", now=at[1]), update("KEY-1", status=5, now=at[2]))
    for _ in range(4):
        app.do(follow())
    assert list_ids(app, "/licenses?sort=-updated_at") == [1, 3, 4, 2]
    assert list_ids(app, "/licenses?sort=updated_at") == [2, 4, 3, 1]
    since = f"updated_after={at[0]:%Y-%m-%dT%H:%M:%SZ}"
    assert list_ids(app, f"/licenses?{since}&sort=updated_at") == [3, 1]
    assert list_ids(app, f"/licenses?{since}&status=disabled") == [1]
    page = app.ask("GET", "/licenses?sort=updated_at&limit=3&count=true")
    assert page.json["total"] == 4
    rest = app.ask("GET", f"/licenses?sort=updated_at&limit=3&cursor={page.json['next_cursor']}&count=true")
    assert [one["id"] for one in rest.json["items"]] == [1]


def test_customers_are_found_by_when_they_were_changed(app: App) -> None:
    for number in (8, 9, 10):
        app.ask("POST", "/customers", {"id": number})
    app.ask("PATCH", "/customers/8", {"name": "Ada"})
    first = app.ask("GET", "/customers/8").json["updated_at"]
    assert {*list_ids(app, "/customers?sort=-updated_at")} == {8, 9, 10}
    assert list_ids(app, f"/customers?updated_after={first}&sort=updated_at") == []
    assert len(list_ids(app, "/customers?updated_after=2020-01-01T00:00:00Z&sort=updated_at&limit=2")) == 2
