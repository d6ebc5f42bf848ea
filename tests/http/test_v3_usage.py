"""Usage of meters over v3; every answer whole."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from keywright.licensing.licenses.model import Status
from tests.http.v3_app import App, Reply, open_app
from tests.makers import KEY, create, set_terms, update

METERS = {
    "exports": {"limit": 10, "per": "license"},
    "pages": {"limit": 10, "per": "month", "overage": "allow"},
}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """License 1 of product 17 has two meters."""
    with open_app(tmp_path) as app:
        app.do(create(product_id=17), set_terms({"meters": METERS}))
        yield app


def count(app: App, meter: str = "exports", **body: Any) -> Reply:
    headers = body.pop("headers", {})
    return app.ask("POST", "/usage", {"license_key": KEY, "meter": meter} | body, token=None, headers=headers)


def test_an_amount_is_counted(app: App) -> None:
    assert count(app).json == {"meter": "exports", "used": 1, "limit": 10, "resets_at": None}
    reply = count(app, amount=9)
    assert (reply.status, reply.json["used"]) == (200, 10)


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
    count(app, amount=8)
    reply = count(app, amount=3)
    assert reply.status == 409
    assert reply.json == {
        "type": "/problems/usage_exceeded",
        "title": "The meter is at its limit",
        "status": 409,
        "detail": "Of the meter exports, 8 of 10 are used; this would exceed it. Nothing was counted.",
        "code": "usage_exceeded",
        "meter": "exports",
        "limit": 10,
        "used": 8,
    }
    assert count(app, amount=2).json["used"] == 10


def test_a_repeated_call_is_counted_once(app: App) -> None:
    first = count(app, amount=4, headers={"Idempotency-Key": "one"})
    again = count(app, amount=4, headers={"Idempotency-Key": '"one"'})
    assert again.body == first.body
    assert again.headers["idempotency-replayed"] == "true"
    assert count(app, amount=5, headers={"Idempotency-Key": "one"}).code == "idempotency_key_reused"
    assert count(app).json["used"] == 5


@pytest.mark.parametrize(
    ("body", "places"),
    [
        ({"meter": "seats"}, [("/meter", "invalid")]),
        ({"amount": 0}, [("/amount", "too_small")]),
        ({"amount": 1_000_001}, [("/amount", "too_large")]),
        ({"amount": "1"}, [("/amount", "wrong_type")]),
    ],
)
def test_wrong_members_are_named(app: App, body: dict[str, Any], places: list[tuple[str, str]]) -> None:
    reply = count(app, **body)
    assert (reply.status, reply.code, reply.places) == (422, "invalid", places)


def test_each_refusal_has_its_code(app: App) -> None:
    assert (count(app, license_key="KEY-2").status, count(app, license_key="KEY-2").code) == (
        404,
        "unknown_license",
    )
    assert count(app, product=18).code == "product_mismatch"
    for changes, code in (
        ({"expires_at": datetime(2026, 1, 1, tzinfo=UTC)}, "expired"),
        ({"status": Status.INACTIVE}, "inactive"),
        ({"status": Status.DISABLED}, "disabled"),
    ):
        app.do(update(**changes))
        assert (count(app).status, count(app).code) == (409, code)
