"""The management API of activations: complete responses."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http.v3_app import App, Reply, open_app

DATABASES = ("sqlite",)
ALL = "/licenses/1/activations"


@pytest.fixture
def app(tmp_path: Any) -> Iterator[App]:
    with open_app(tmp_path) as app:
        app.ask("POST", "/licenses", {"key": "KEY-0001"})
        yield app


def activate(app: App, letter: str, **members: Any) -> Reply:
    body = {"license_key": "KEY-0001", "fingerprint": letter * 20, "app_version": "4.2"}
    return app.ask("POST", "/activate", body | members, token=None, headers={"User-Agent": "Editor/4"})


def test_an_activation_is_shown_whole(app: App) -> None:
    said = {"name": "Anna's laptop", "platform": "macOS", "metadata": {"room": "7"}}
    place = activate(app, "a", **said).json["activation"]
    shown = app.ask("GET", f"{ALL}/1")
    assert shown.json == {
        "id": 1,
        "token": place["token"],
        "fingerprint": "a" * 20,
        **said,
        "app_version": "4.2",
        "ip_address": "127.0.0.1",
        "user_agent": "Editor/4",
        "is_active": True,
        "is_counted": True,
        "created_at": place["created_at"],
        "last_seen_at": place["created_at"],
        "offline_until": None,
        "deactivated_at": None,
    }
    assert app.ask("GET", ALL).json == {"items": [shown.json], "next_cursor": None}


def test_activations_of_v2_have_no_fingerprint(app: App) -> None:
    app.ask("GET", "//wp-json/lmfwc/v2/licenses/activate/KEY-0001", token=None, auth=app.consumer)
    (one,) = app.ask("GET", ALL).json["items"]
    assert (one["fingerprint"], one["is_active"]) == (None, True)


def test_a_place_is_given_up_and_the_record_stays(app: App) -> None:
    activate(app, "a")
    activate(app, "b")
    etag = app.ask("GET", f"{ALL}/1").headers["etag"]
    assert app.ask("DELETE", f"{ALL}/1", headers={"If-Match": '"x"'}).code == "changed_meanwhile"
    assert app.ask("DELETE", f"{ALL}/1", headers={"If-Match": etag}).status == 204
    assert app.ask("DELETE", f"{ALL}/1").status == 204
    one = app.ask("GET", f"{ALL}/1").json
    assert (one["is_active"], one["deactivated_at"] is None) == (False, False)
    assert app.ask("GET", "/licenses/1").json["activations"] == 1
    assert app.ask("DELETE", f"{ALL}/9").code == "not_found"
    report = app.ask("POST", "/validate", {"license_key": "KEY-0001", "fingerprint": "a" * 20}, token=None)
    assert report.json["code"] == "not_activated"


def test_all_places_are_given_up(app: App) -> None:
    activate(app, "a")
    activate(app, "b")
    assert app.ask("POST", f"{ALL}/release-all").json == {"released": 2}
    assert app.ask("POST", f"{ALL}/release-all").json == {"released": 0}
    assert app.ask("GET", "/licenses/1").json["activations"] == 0


def test_activations_are_paged_and_filtered(app: App) -> None:
    for letter in "abc":
        activate(app, letter)
    app.ask("DELETE", f"{ALL}/2")
    page = app.ask("GET", f"{ALL}?limit=2&count=true").json
    assert ([one["id"] for one in page["items"]], page["total"]) == ([3, 2], 3)
    following = app.ask("GET", f"{ALL}?limit=2&cursor={page['next_cursor']}").json
    assert [one["id"] for one in following["items"]] == [1]
    assert [one["id"] for one in app.ask("GET", f"{ALL}?is_active=false").json["items"]] == [2]
    assert [one["id"] for one in app.ask("GET", f"{ALL}?sort=created_at").json["items"]] == [1, 2, 3]
