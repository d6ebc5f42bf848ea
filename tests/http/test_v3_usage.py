"""Usage of meters over v3; complete responses."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from keywright.signing.jws import read_signed
from keywright.signing.model import TokenType
from tests.http.test_v3_signed import keys_of
from tests.http.v3_app import App, Reply, open_app
from tests.makers import KEY, NOW, create, set_terms

METERS = {
    "exports": {"limit": 10, "per": "license"},
    "pages": {"limit": 10, "per": "month", "overage": "allow"},
}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """An app with license 1 of product 17, which has two meters."""
    with open_app(tmp_path) as app:
        app.do(create(product_id=17), set_terms({"meters": METERS}))
        yield app


def count(app: App, meter: str = "exports", **body: Any) -> Reply:
    headers = body.pop("headers", {})
    return app.ask("POST", "/usage", {"license_key": KEY, "meter": meter} | body, token=None, headers=headers)


def test_a_meter_starts_again_with_the_next_month(app: App) -> None:
    reply = count(app, "pages", amount=1_000_000)
    today = datetime.now(UTC)
    following = datetime(today.year + today.month // 12, today.month % 12 + 1, 1, tzinfo=UTC)
    assert reply.json == {
        "meter": "pages",
        "used": 1_000_000,
        "limit": 10,
        "resets_at": f"{following:%Y-%m-%dT%H:%M:%SZ}",
    }


def test_what_does_not_fit_is_not_counted(app: App) -> None:
    assert count(app, amount=8).json == {"meter": "exports", "used": 8, "limit": 10, "resets_at": None}
    reply = count(app, amount=3)
    assert reply.status == 409
    assert reply.json == {
        "type": "/problems/usage_exceeded",
        "title": "The meter is at its limit",
        "status": 409,
        "detail": "The meter exports would exceed its limit: 8 of 10 are used. Nothing was counted.",
        "code": "usage_exceeded",
        "meter": "exports",
        "limit": 10,
        "used": 8,
    }
    assert count(app, amount=2).json["used"] == 10


def close(app: App, meter: str) -> None:
    """Close the current period of a meter, by removing the meter."""
    app.do(set_terms({"meters": {name: one for name, one in METERS.items() if name != meter}}))


def test_periods_are_listed_of_one_license_and_of_all(app: App) -> None:
    count(app, "pages", amount=13)
    count(app)
    close(app, "pages")
    month, made = datetime.now(UTC).replace(day=1), NOW
    [pages] = app.ask("GET", "/licenses/1/usage?meter=pages").json["items"]
    exports = {
        "license_id": 1,
        "meter": "exports",
        "period_start": f"{made:%Y-%m-%dT%H:%M:%SZ}",
        "period_end": None,
        "used": 1,
        "limit": 10,
        "overage": 0,
        "is_closed": False,
    }
    assert pages == exports | {
        "meter": "pages",
        "period_start": f"{month:%Y-%m-%dT00:00:00Z}",
        "period_end": pages["period_end"],
        "used": 13,
        "overage": 3,
        "is_closed": True,
    }
    first = app.ask("GET", "/licenses/1/usage?limit=1&count=true").json
    assert (first["items"], first["total"]) == ([exports], 2)
    following = app.ask("GET", f"/licenses/1/usage?limit=1&count=true&cursor={first['next_cursor']}").json
    assert (following["items"], following["next_cursor"]) == ([pages], None)
    rows: list[tuple[str, list[Any]]] = [
        ("/usage", [exports, pages]),
        ("/usage?is_closed=true&product_id=17", [pages]),
        ("/usage?is_closed=false&meter=exports", [exports]),
        ("/usage?product_id=18", []),
        (f"/usage?period_from={month:%Y-%m}-01T00:00:00Z&period_to=2999-01-01T00:00:00Z", [pages]),
        ("/licenses/1/usage?to=2026-01-01T00:00:00Z", []),
    ]
    assert [(path, app.ask("GET", path).json["items"]) for path, _ in rows] == rows
    assert app.ask("GET", "/licenses/2/usage").code == "not_found"
    assert app.ask("GET", "/usage?from=2026-01-01T00:00:00Z").code == "unknown_parameter"
    assert app.ask("GET", "/licenses/1/usage?from=yesterday").code == "invalid_parameter"


def test_the_usage_of_a_license_is_signed_and_is_no_license(app: App) -> None:
    count(app, "pages", amount=13)
    path, wanted = "/licenses/1/usage?meter=pages&limit=5", {"Accept": "application/jwt"}
    reply = app.ask("GET", path, headers=wanted)
    assert reply.headers["content-type"] == "application/jwt"
    key = keys_of(app).newest.public_key
    claims = json.loads(read_signed(reply.body, key, TokenType.USAGE))
    issued = {name: claims.pop(name) for name in ("iss", "jti", "iat", "exp")}
    assert issued["exp"] - issued["iat"] == 800 * 86_400
    question = {"sub": "license:1", "from": None, "to": None, "meter": "pages"}
    assert claims == question | app.ask("GET", path).json
    with pytest.raises(ValueError, match="not a token of this type"):
        read_signed(reply.body, key)
    assert app.ask("GET", "/licenses/9/usage", headers=wanted).code == "not_found"
    assert app.ask("GET", "/usage", headers=wanted).code == "not_acceptable"
