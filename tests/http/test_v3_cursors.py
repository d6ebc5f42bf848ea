"""Manipulated cursors: each list refuses them or returns some page, and never fails."""

import base64
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.http.v3_app import App, open_app
from tests.tables import each_row

DATABASES = ("sqlite",)
#: All lists that may be long, with two items each.
LISTS = (
    "/customers",
    "/events",
    "/licenses",
    "/licenses?sort=-expires_at",
    "/licenses/1/activations",
    "/licenses/1/leases",
    "/policies",
    "/products",
    "/products?sort=name",
    "/webhooks",
)
#: Values beyond the ranges of times and of the database.
EXTREMES = (2**63, -(2**63) - 1, 2**63 - 1, -(2**63), 2**200, -1, 0, 1.5, None, "", "x\0", "y" * 3000)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    with open_app(tmp_path_factory.mktemp("v3")) as app:
        license = {"terms": {"max_leases": 2}, "expires_at": "2030-01-01T00:00:00Z"}
        for name in ("one", "two"):
            app.ask("POST", "/products", {"name": name})
            app.ask("POST", "/policies", {"name": name})
            app.ask("POST", "/customers", {"name": name})
            app.ask("POST", "/webhooks", {"url": f"https://{name}.example", "events": ["license.*"]})
            app.ask("POST", "/licenses", license | {"key": f"KEY-{name}"})
            device = {"license_key": "KEY-one", "fingerprint": f"fingerprint-{name}"}
            app.ask("POST", "/activate", device, token=None)
            app.ask("POST", "/leases", device | {"holder": name}, token=None)
        yield app


def alter(cursor: str, place: int, value: Any) -> str:
    """Replace the value at this index of the cursor's position."""
    parts = msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    parts[place] = value
    return base64.urlsafe_b64encode(msgspec.json.encode(parts)).rstrip(b"=").decode()


@each_row("path", LISTS)
def test_an_altered_cursor_is_refused_or_names_some_place(app: App, path: str) -> None:
    page = f"{path}{'&' if '?' in path else '?'}limit=1"
    cursor = app.ask("GET", page).json["next_cursor"]
    for place in (1, 2):
        for value in EXTREMES:
            reply = app.ask("GET", f"{page}&cursor={alter(cursor, place, value)}")
            assert reply.status == 200 or reply.code == "invalid_parameter", (place, value)
    assert app.ask("GET", f"{page}&cursor={cursor}").status == 200


def test_an_altered_cursor_of_a_search_is_refused(app: App) -> None:
    app.ask("POST", "/licenses", {"key": "KEY-three", "customer": {"email": "ada@example.com"}})
    app.ask("POST", "/licenses", {"key": "KEY-four", "customer": {"email": "ada@example.com"}})
    search = {"email": "ada@example.com", "limit": 1}
    cursor = app.ask("POST", "/licenses/search", search).json["next_cursor"]
    refused = app.ask("POST", "/licenses/search", search | {"cursor": alter(cursor, 1, 2**63)})
    assert (refused.status, refused.places) == (422, [("/cursor", "invalid")])


def test_a_cursor_belongs_to_what_was_searched(app: App) -> None:
    for name in ("Ada", "Bob"):
        for _ in range(2):
            app.ask("POST", "/customers", {"name": name})
    found = app.ask("POST", "/customers/search?limit=1", {"name": "Ada"}).json
    following = f"/customers/search?limit=1&cursor={found['next_cursor']}"
    assert app.ask("POST", following, {"name": "Ada"}).json["items"][0]["name"] == "Ada"
    refused = app.ask("POST", following, {"name": "Bob"})
    assert (refused.status, refused.places) == (400, [("cursor", "invalid")])
