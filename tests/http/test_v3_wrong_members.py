"""Errors in a body of v3 are reported with their locations, and nothing is changed."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http.v3_app import App, open_app
from tests.makers import KEY, create, set_terms
from tests.tables import each_row

DATABASES = ("sqlite",)
#: A valid body for each call.
GOOD: dict[str, dict[str, Any]] = {
    "/connections": {"shop": "generic", "name": "x"},
    "/customers": {},
    "/leases": {"license_key": KEY, "holder": "a"},
    "/leases/release": {"license_key": KEY, "lease_id": "0" * 32},
    "/leases/renew": {"license_key": KEY, "lease_id": "0" * 32},
    "/licenses": {"key": "KEY-0001"},
    "/notices": {"product_id": 17, "title": "A crafted file", "affected": "< 3.2.1", "severity": "high"},
    "/policies": {"name": "x"},
    "/products": {"name": "x"},
    "/trials": {"product": 17, "fingerprint": "device-7f3a9c0e12b4"},
    "/usage": {"license_key": KEY, "meter": "exports"},
    "/webhooks": {"url": "https://crm.example/hooks", "events": ["*"]},
}
ROWS: list[tuple[str, dict[str, Any], str, str]] = [
    ("/connections", {"shop": "ebay"}, "/shop", "invalid"),
    ("/connections", {"secret": "whsec_not base64"}, "/secret", "invalid"),
    ("/connections", {"url": "nowhere"}, "/url", "invalid"),
    ("/connections", {"mapping": [{"product": "a"}, {"product": "a"}]}, "/mapping", "invalid"),
    ("/connections", {"mail_template": "none"}, "/mail_template", "invalid"),
    ("/customers", {"email": "ada"}, "/email", "invalid"),
    ("/customers", {"email": "a b@example.com"}, "/email", "invalid"),
    ("/customers", {"email": ""}, "/email", "too_short"),
    ("/customers", {"email": "İ" * 200 + "@example.com"}, "/email", "invalid"),
    ("/customers", {"language": "deutsch"}, "/language", "invalid"),
    ("/customers", {"language": "d"}, "/language", "too_short"),
    ("/customers", {"erasure_requested_at": None}, "/erasure_requested_at", "unknown"),
    ("/customers", {"id": 0}, "/id", "too_small"),
    ("/leases", {"holder": ""}, "/holder", "too_short"),
    ("/leases", {"holder": "a\0"}, "/holder", "invalid"),
    ("/leases", {"seconds": 9}, "/seconds", "too_small"),
    ("/leases/release", {"lease_id": 7}, "/lease_id", "wrong_type"),
    ("/leases/renew", {"lease_id": "x" * 32}, "/lease_id", "invalid"),
    ("/licenses", {"key": None}, "/policy_id", "missing"),
    ("/licenses", {"quantity": 2}, "/quantity", "too_large"),
    ("/licenses", {"terms": {"max_activations": 0}}, "/terms/max_activations", "too_small"),
    ("/licenses", {"order": {"lien": 1}}, "/order/lien", "unknown"),
    ("/licenses", {"customer": {}}, "/customer/id", "missing"),
    ("/notices", {"affected": "<"}, "/affected", "invalid"),
    ("/notices", {"fixed_in": "3.0"}, "/fixed_in", "invalid"),
    ("/notices", {"severity": "bad"}, "/severity", "invalid"),
    ("/notices", {"product_id": 99}, "/product_id", "unknown"),
    ("/policies", {"product_id": 0}, "/product_id", "too_small"),
    ("/policies", {"terms": {"grace_day": 1}}, "/terms/grace_day", "unknown"),
    ("/policies", {"key": {"chunks": 0}}, "/key/chunks", "too_small"),
    ("/policies", {"key": {"charset": "A B"}}, "/key/charset", "invalid"),
    ("/policies", {"key": {"suffix": "-x "}}, "/key/charset", "invalid"),
    ("/policies", {"key": {"chunks": 99, "chunk_length": 9}}, "/key/chunk_length", "invalid"),
    ("/policies", {"key": {"chunks": 1}}, "/key", "invalid"),
    ("/products", {"name": ""}, "/name", "too_short"),
    ("/products", {"id": 2**53}, "/id", "too_large"),
    ("/products", {"code": "17"}, "/code", "invalid"),
    ("/products", {"code": "A b"}, "/code", "invalid"),
    ("/products", {"url": "javascript:alert(1)"}, "/url", "invalid"),
    ("/products", {"features": [{"code": "a"}, {"code": "a"}]}, "/features", "invalid"),
    ("/products", {"features": [{"name": "a"}]}, "/features/0/code", "missing"),
    ("/products", {"metadata": {str(i): i for i in range(65)}}, "/metadata", "too_long"),
    ("/products", {"metadata": {"a": {"b": {"c": {"d": {}}}}}}, "/metadata", "invalid"),
    ("/products", {"metadata": {"a": "x" * 16_400}}, "/metadata", "invalid"),
    ("/products", {"metadata": {"a": [1.5, {"b": 2**53 + 1}]}}, "/metadata", "invalid"),
    ("/products", {"metadata": {"a": -(2**60)}}, "/metadata", "invalid"),
    ("/trials", {"fingerprint": "short"}, "/fingerprint", "too_short"),
    ("/trials", {"fingerprint": "a device\0"}, "/fingerprint", "invalid"),
    ("/trials", {"email": "nobody"}, "/email", "invalid"),
    ("/trials", {"policy": 0}, "/policy", "too_small"),
    ("/usage", {"meter": "seats"}, "/meter", "invalid"),
    ("/usage", {"amount": 0}, "/amount", "too_small"),
    ("/usage", {"amount": 1_000_001}, "/amount", "too_large"),
    ("/usage", {"amount": "1"}, "/amount", "wrong_type"),
    ("/webhooks", {"url": "http://example.com/"}, "/url", "invalid"),
    ("/webhooks", {"url": "https://user:pw@example.com/"}, "/url", "invalid"),
    ("/webhooks", {"events": []}, "/events", "too_short"),
    ("/webhooks", {"events": ["everything"]}, "/events/0", "invalid"),
    ("/webhooks", {"payload": "huge"}, "/payload", "invalid"),
    ("/webhooks", {"secret": "whsec_short"}, "/secret", "invalid"),
]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    with open_app(tmp_path_factory.mktemp("wrong")) as app:
        app.name_products(17)
        app.do(create(), set_terms({"meters": {"exports": {"limit": 10, "per": "license"}}}))
        yield app


@each_row(("path", "wrong", "pointer", "code"), ROWS)
def test_a_wrong_member_is_named(app: App, path: str, wrong: dict[str, Any], pointer: str, code: str) -> None:
    before = app.events("")
    refused = app.ask("POST", path, GOOD[path] | wrong)
    assert (refused.status, refused.code, refused.places) == (422, "invalid", [(pointer, code)])
    assert app.events("") == before


@each_row(
    ("path", "names"),
    [
        ("/leases", ("license_key", "holder")),
        ("/leases/renew", ("license_key", "lease_id")),
        ("/policies", ("name",)),
        ("/products", ("name",)),
    ],
)
def test_every_missing_member_is_named(app: App, path: str, names: tuple[str, ...]) -> None:
    assert app.ask("POST", path, {}).places == [(f"/{name}", "missing") for name in names]
