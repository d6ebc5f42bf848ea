"""Products over v3."""

from collections.abc import Iterator
from typing import Any

import pytest

from keywright.identity.model import Permissions
from keywright.licensing.licenses.model import Status
from tests.http.v3_app import App, open_app
from tests.makers import NOW, create

DATABASES = ("sqlite",)
FIRST = 1_000_000_000


@pytest.fixture
def app(tmp_path: Any) -> Iterator[App]:
    with open_app(tmp_path) as app:
        yield app


def a_product(app: App, **members: Any) -> Any:
    return app.ask("POST", "/products", {"name": "Paint"} | members).json


def test_a_product_is_made_shown_changed_and_deleted(app: App) -> None:
    made = app.ask(
        "POST",
        "/products",
        {
            "id": 17,
            "name": "  Paint Pro ",
            "url": "https://example.com/paint",
            "features": [{"code": "layers", "name": "Layers"}],
            "metadata": {"sku": "P-1", "tags": ["a"]},
        },
    )
    assert made.status == 201
    assert made.headers["location"] == "/v3/products/17"
    shown = app.ask("GET", "/products/17")
    assert shown.json == made.json
    assert shown.headers["etag"] == made.headers["etag"]
    assert made.json == {
        "id": 17,
        "code": "paint-pro",
        "name": "Paint Pro",
        "url": "https://example.com/paint",
        "features": [{"code": "layers", "name": "Layers", "description": None}],
        "external_id": None,
        "renew_url": None,
        "updates": "licensed",
        "channels": [],
        "public_keys": [],
        "version_scheme": "loose",
        "metadata": {"sku": "P-1", "tags": ["a"]},
        "created_at": made.json["created_at"],
        "updated_at": made.json["created_at"],
    }
    changes: dict[str, Any] = {"url": None, "metadata": {"sku": None, "more": {"x": 1}}, "features": []}
    changed = app.ask("PATCH", "/products/17", changes)
    assert changed.json == made.json | {
        "url": None,
        "metadata": {"tags": ["a"], "more": {"x": 1}},
        "features": [],
        "updated_at": changed.json["updated_at"],
    }
    address = "https://shop.example/renew?ref={license_ref}"
    assert app.ask("PATCH", "/products/17", {"renew_url": address}).json["renew_url"] == address
    app.ask("PATCH", "/products/17", {"renew_url": None})
    assert app.ask("DELETE", "/products/17").status == 204
    assert app.ask("GET", "/products/17").code == "not_found"
    assert app.events("product.") == [
        ("product.created", {"product_id": 17, "product": "Paint Pro"}),
        (
            "product.updated",
            {"product_id": 17, "product": "Paint Pro"}
            | {"url": ["https://example.com/paint", None], "features": "changed", "metadata": "changed"},
        ),
        *(
            ("product.updated", {"product_id": 17, "product": "Paint Pro", "renew_url": pair})
            for pair in ([None, address], [address, None])
        ),
        ("product.deleted", {"product_id": 17, "product": "Paint Pro"}),
    ]


def test_a_code_is_unique_and_is_made_from_the_name_where_it_is_free(app: App) -> None:
    assert a_product(app, name="Éclair & Co. 2")["code"] == "eclair-co-2"
    assert a_product(app, name="Eclair co 2")["code"] is None
    assert a_product(app, name="日本")["code"] is None
    assert a_product(app, name="2026")["code"] is None
    taken = app.ask("POST", "/products", {"name": "Other", "code": "eclair-co-2"})
    assert taken.status == 409
    assert taken.json == taken.json | {
        "code": "already_exists",
        "detail": "Another product already has this code.",
        "errors": [
            {"pointer": "/code", "code": "already_exists", "detail": "is already used by another product"}
        ],
    }


def test_a_code_is_fixed_once_the_product_has_a_license(app: App) -> None:
    product = a_product(app, id=17, code="paint")
    assert app.ask("PATCH", "/products/17", {"code": "draw"}).json["code"] == "draw"
    app.do(create("K-1", product_id=17, status=Status.ACTIVE))
    refused = app.ask("PATCH", "/products/17", {"code": "paint"})
    assert (refused.status, refused.code) == (409, "still_in_use")
    assert refused.json["detail"] == "The code of product 17 is still in use by licenses."
    assert app.ask("PATCH", "/products/17", {"code": "draw", "name": "Draw"}).json["name"] == "Draw"
    # A product without a code can get one later.
    late = a_product(app, id=18, name="日本")
    app.do(create("K-2", product_id=18, status=Status.ACTIVE))
    assert app.ask("PATCH", "/products/18", {"code": "japan"}).json["code"] == "japan"
    assert (product["code"], late["code"]) == ("paint", None)


def test_metadata_stays_within_its_bounds_when_it_is_merged(app: App) -> None:
    a_product(app, id=17, metadata={"a": "x" * 16_000})
    refused = app.ask("PATCH", "/products/17", {"metadata": {"b": "x" * 1_000}})
    assert (refused.code, refused.places) == ("invalid", [("/metadata", "invalid")])
    assert app.ask("PATCH", "/products/17", {"metadata": None}).json["metadata"] == {}


def test_a_change_of_an_older_version_is_refused(app: App) -> None:
    made = app.ask("POST", "/products", {"name": "Paint", "id": 17})
    headers = {"If-Match": made.headers["etag"]}
    changed = app.ask("PATCH", "/products/17", {"name": "Draw"}, headers=headers)
    assert changed.status == 200
    assert changed.headers["etag"] != made.headers["etag"]
    assert app.ask("PATCH", "/products/17", {"name": "Plan"}, headers=headers).code == "changed_meanwhile"
    assert app.ask("DELETE", "/products/17", headers=headers).code == "changed_meanwhile"
    assert app.ask("DELETE", "/products/17", headers={"If-Match": changed.headers["etag"]}).status == 204


def test_a_list_is_paged_sorted_filtered_and_counted(app: App) -> None:
    for number, name in enumerate(["beta", "alpha", "gamma"], 1):
        a_product(app, id=number, name=name)
    first = app.ask("GET", "/products?limit=2&count=true")
    assert [one["id"] for one in first.json["items"]] == [3, 2]
    assert first.json["total"] == 3
    rest = app.ask("GET", f"/products?limit=2&cursor={first.json['next_cursor']}")
    assert [one["id"] for one in rest.json["items"]] == [1]
    assert rest.json["next_cursor"] is None
    by_name = app.ask("GET", "/products?sort=name&limit=1")
    cursor = by_name.json["next_cursor"]
    others = app.ask("GET", f"/products?sort=name&limit=1&cursor={cursor}")
    assert [one.json["items"][0]["name"] for one in (by_name, others)] == ["alpha", "beta"]
    assert [one["id"] for one in app.ask("GET", "/products?code=beta").json["items"]] == [1]
    assert app.ask("GET", f"/products?created_before={NOW.isoformat()[:19]}Z").json["items"] == []
    assert len(app.ask("GET", f"/products?created_after={NOW.isoformat()[:19]}Z").json["items"]) == 3


def test_a_key_for_one_product_reads_that_product_and_no_other(app: App) -> None:
    for number in (17, 18):
        a_product(app, id=number)
    token = app.issue_token(Permissions.READ_WRITE, product_id=17)
    assert app.ask("GET", "/products/17", token=token).status == 200
    assert app.ask("GET", "/products/18", token=token).code == "not_found"
    assert [one["id"] for one in app.ask("GET", "/products", token=token).json["items"]] == [17]
    for method, path in (("POST", ""), ("PATCH", "/17"), ("DELETE", "/17")):
        body = None if method == "DELETE" else {"name": "x"}
        assert app.ask(method, f"/products{path}", body, token=token).code == "not_found"
