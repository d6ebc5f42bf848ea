"""The search of licenses over the management API."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from keywright.identity.model import Permissions
from keywright.registry import open_executor
from tests.http.v3_app import App, open_app
from tests.storage.projected import follow_all
from tests.tables import each_row

DATABASES = ("sqlite",)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    with open_app(tmp_path_factory.mktemp("search")) as app:
        app.name_products(5)
        ada = {"email": "ada@example.com", "name": "Ada"}
        app.ask("POST", "/licenses", {"key": "ABCD-EFGH-1234", "customer": ada, "product_id": 5})
        app.ask("POST", "/licenses", {"key": "WXYZ-9999-1234", "customer": ada, "order": {"id": 77}})
        device = {"license_key": "ABCD-EFGH-1234", "fingerprint": "f" * 20, "name": "Anna's laptop"}
        app.ask("POST", "/activate", device, token=None)
        with closing(open_executor(app.storage.clone())) as executor:
            follow_all(executor)
        yield app


def search(app: App, body: Any, caller: str = "") -> list[int]:
    reply = app.ask("POST", "/licenses/search", body, token=caller)
    assert reply.status == 200, reply.body
    return [one["id"] for one in reply.json["items"]]


@each_row(
    ("body", "ids"),
    [
        ({"key": "ABCD-EFGH-1234"}, [1]),
        ({"key": " abcd efgh1234 "}, [1]),
        ({"key": "NOT-A-KEY"}, []),
        ({"key_end": "1234"}, [2, 1]),
        ({"key_end": "gh-1234"}, [1]),
        ({"token": "0" * 40}, []),
        ({"fingerprint": "f" * 20}, [1]),
        ({"email": "Ada@Example.com"}, [2, 1]),
        ({"email": "bob@example.com"}, []),
        ({"text": "77"}, [2]),
        ({"text": "anna"}, [1]),
        ({"text": "Ada"}, [2, 1]),
    ],
)
def test_a_license_is_found(app: App, body: Any, ids: list[int]) -> None:
    assert search(app, body) == ids


def test_a_found_license_is_shown_whole(app: App) -> None:
    page = app.ask("POST", "/licenses/search", {"key": "ABCD-EFGH-1234"}).json
    assert page == {"items": [app.ask("GET", "/licenses/1").json], "next_cursor": None}
    token = app.ask("GET", "/licenses/1/activations").json["items"][0]["token"]
    assert app.ask("POST", "/licenses/search", {"token": token}).json == page


def test_what_is_found_is_paged(app: App) -> None:
    body = {"email": "ada@example.com", "limit": 1}
    first = app.ask("POST", "/licenses/search", body)
    assert "link" not in first.headers
    second = app.ask("POST", "/licenses/search", body | {"cursor": first.json["next_cursor"]}).json
    assert [one["id"] for one in first.json["items"] + second["items"]] == [2, 1]
    assert second["next_cursor"] is None
    other = {"key_end": "1234", "cursor": first.json["next_cursor"]}
    assert app.ask("POST", "/licenses/search", other).places == [("/cursor", "invalid")]


@pytest.mark.parametrize("body", [{}, {"key": "A", "text": "B"}, {"key_end": "123"}, {"token": "x"}])
def test_one_way_is_named(app: App, body: Any) -> None:
    assert app.ask("POST", "/licenses/search", body).code == "invalid"


def test_a_key_for_one_product_finds_its_licenses_only(app: App) -> None:
    own = app.issue_token(Permissions.READ, product_id=5)
    for body in ({"key_end": "1234"}, {"email": "ada@example.com"}, {"text": "Ada"}):
        assert search(app, body, own) == [1]
    assert search(app, {"key": "WXYZ-9999-1234"}, own) == []
