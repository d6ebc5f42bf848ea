"""API keys with an expiry, and for one product, over both interfaces."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from keywright.identity.model import Permissions
from tests.http.v3_app import App, open_app
from tests.makers import create, create_policy

DATABASES = ("sqlite",)
V2 = "//wp-json/lmfwc/v2"


@pytest.fixture
def app(tmp_path: Any) -> Iterator[App]:
    with open_app(tmp_path) as app:
        app.do(create("KEY-17", product_id=17), create("KEY-18", product_id=18), create("KEY-0"))
        app.do(*(create_policy(name=f"of {one}", product_id=one) for one in (17, 18, None)))
        yield app


def test_an_expired_api_key_has_invalid_credentials_over_both_interfaces(app: App) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    token = app.issue_token(Permissions.READ_WRITE, expires_at=past)
    assert app.ask("GET", "/me", token=token).code == "credentials_invalid"
    over_v2 = app.ask("GET", f"{V2}/licenses", token=None, auth=app.consumer)
    assert (over_v2.status, over_v2.json["message"]) == (401, "Consumer key or secret is invalid.")


def test_an_api_key_that_is_remembered_expires_as_well(app: App) -> None:
    expires_at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
    token = app.issue_token(Permissions.READ_WRITE, expires_at=expires_at)

    async def scenario(client: httpx.AsyncClient) -> list[int]:
        statuses = [200]
        while statuses[-1] == 200:
            reply = await client.get("/v3/me", headers={"Authorization": f"Bearer {token}"})
            statuses.append(reply.status_code)
        return statuses

    statuses = app.run(scenario)
    assert (statuses[1], statuses[-1]) == (200, 401)
    assert datetime.now(UTC) >= expires_at


@pytest.fixture
def bound(app: App) -> Any:
    """Calls v2 with an API key for product 17."""
    app.issue_token(Permissions.READ_WRITE, product_id=17)

    def ask(method: str, path: str, **body: Any) -> Any:
        return app.ask(method, f"{V2}/{path}", body or None, token=None, auth=app.consumer)

    return ask


def test_over_v2_a_key_for_one_product_sees_the_licenses_of_that_product(bound: Any) -> None:
    for query in ("", "?page=1", "?product_id=17"):
        assert [one["licenseKey"] for one in bound("GET", f"licenses{query}").json["data"]] == ["KEY-17"]
    for query in ("?product_id=18", "?page=1&product_id=18"):
        assert bound("GET", f"licenses{query}").status == 404
    assert bound("GET", "licenses/KEY-17").status == 200
    for key in ("KEY-18", "KEY-0"):
        assert bound("GET", f"licenses/{key}").status == 404
        assert bound("PUT", f"licenses/{key}", status="disabled").status == 404
        assert bound("DELETE", f"licenses/{key}").status == 404


def test_over_v2_a_key_for_one_product_makes_licenses_of_that_product_alone(bound: Any) -> None:
    assert bound("POST", "licenses", license_key="NEW-1").json["data"]["productId"] == 17
    for product_id in (18, None):
        refused = bound("POST", "licenses", license_key="NEW-2", product_id=product_id)
        assert "must be 17" in json.dumps(refused.json)
        moved = bound("PUT", "licenses/NEW-1", product_id=product_id)
        assert "must be 17" in json.dumps(moved.json)
    assert bound("PUT", "licenses/NEW-1", product_id=17, status="inactive").status == 200


def test_over_v2_a_key_for_one_product_has_the_generators_of_that_product(bound: Any) -> None:
    assert [one["name"] for one in bound("GET", "generators").json["data"]] == ["of 17"]
    for number in (2, 3):
        assert bound("GET", f"generators/{number}").status == 404
        assert bound("PUT", f"generators/{number}", name="x").status == 404
        assert bound("DELETE", f"generators/{number}").status == 404
        assert bound("POST", f"generators/{number}/generate", amount=1).status == 404
    made = bound("POST", "generators", name="own", charset="ABCDEFGH", chunks=5, chunk_length=5)
    assert bound("PUT", f"generators/{made.json['data']['id']}", name="mine").status == 200
    licenses = bound("POST", "generators/1/generate", amount=2).json["data"]
    assert [one["productId"] for one in licenses] == [17, 17]
    assert "must be 17" in json.dumps(bound("POST", "generators/1/generate", amount=1, product_id=18).json)
