"""References in calls of v3: to existing products, customers and policies, and members that
beginners guess.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

from keywright.core import errors as e
from keywright.core.errors import ValueCode
from keywright.http.v3.answers import write_problem
from keywright.identity.model import Permissions
from tests.http.v3_app import App, open_app
from tests.makers import create
from tests.tables import each_row

DATABASES = ("sqlite",)
GENERIC = {"shop": "generic", "name": "Shop"}
HOOK = {"url": "https://crm.example.com/hooks", "events": ["license.*"]}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """Products 5 and 6 exist; v2 referred to product 7 and customer 70. Ada is a customer of product 5, Bob
    of 6.
    """
    with open_app(tmp_path) as app:
        app.name_products(5, 6)
        app.do(create("KEY-V2", product_id=7, customer_id=70))
        for key, number, name in (("KEY-A", 5, "ada"), ("KEY-B", 6, "bob")):
            customer = {"email": f"{name}@example.com"}
            made = app.ask("POST", "/licenses", {"key": key, "product_id": number, "customer": customer})
            assert made.status == 201, made.body
        yield app


@each_row(
    ("method", "path", "body", "pointer"),
    [
        ("POST", "/licenses", {"key": "K", "product_id": 8}, "/product_id"),
        ("POST", "/licenses", {"policy_id": 8}, "/policy_id"),
        ("PATCH", "/licenses/2", {"product_id": 8}, "/product_id"),
        ("PATCH", "/licenses/2", {"customer_id": 8, "status": "disabled"}, "/customer_id"),
        ("POST", "/policies", {"name": "x", "product_id": 8}, "/product_id"),
        ("POST", "/webhooks", HOOK | {"product_id": 8}, "/product_id"),
        ("POST", "/connections", GENERIC | {"mapping": [{"product": "a", "policy_id": 8}]}, None),
    ],
)
def test_what_does_not_exist_is_not_named(
    app: App, method: str, path: str, body: dict[str, Any], pointer: str | None
) -> None:
    before = app.ask("GET", "/licenses/2").json
    refused = app.ask(method, path, body)
    assert (refused.status, refused.places) == (422, [(pointer or "/mapping/0/policy_id", "unknown")])
    assert app.ask("GET", "/licenses/2").json == before


def test_what_v2_has_named_may_be_named_without_a_resource(app: App) -> None:
    changes = {"product_id": 7, "customer_id": 70}
    assert app.ask("PATCH", "/licenses/2", changes).status == 200
    assert app.ask("POST", "/licenses", {"key": "KEY-C", "product_id": 7}).status == 201
    assert app.ask("POST", "/licenses", {"key": "KEY-D", "customer": {"id": 71}}).json["customer_id"] == 71


def test_a_key_of_one_product_reaches_no_customer_of_others(app: App) -> None:
    """Neither by ID, which is easy to guess, nor by address; it may refer to its own and new customers."""
    own = app.issue_token(Permissions.READ_WRITE, product_id=5)
    ada, bob = (app.ask("GET", f"/licenses/{number}").json["customer_id"] for number in (2, 3))
    for customer, pointer in (
        *(({"id": one}, "/customer/id") for one in (bob, 70, 4711)),
        ({"id": 4711, "email": "new@example.com"}, "/customer/id"),
        ({"email": "BOB@example.com"}, "/customer/email"),
    ):
        refused = app.ask("POST", "/licenses", {"key": "KEY-X", "customer": customer}, token=own)
        assert (refused.status, refused.places) == (422, [(pointer, "unknown")]), customer
    moved = [app.ask("PATCH", "/licenses/2", {"customer_id": one}, token=own) for one in (bob, 4711)]
    # The same response for another's customer and a missing one.
    assert moved[0].body == moved[1].body
    assert moved[0].places == [("/customer_id", "unknown")]
    assert app.ask("PATCH", "/licenses/2", {"customer_id": ada}, token=own).status == 200
    for customer in ({"id": ada}, {"email": "ada@example.com"}, {"email": "new@example.com"}):
        body = {"key": f"KEY-{next(iter(customer.values()))}", "customer": customer}
        assert app.ask("POST", "/licenses", body, token=own).status == 201, customer


@each_row(
    ("method", "path", "body", "told"),
    [
        ("GET", "/licenses/KEY-A", None, "…/licenses/search"),
        ("GET", "/licenses/KEY-A/activations", None, "…/licenses/search"),
        ("GET", "/customers/ada@example.com", None, "…/customers/search"),
        ("GET", "/licenses?key=KEY-A", None, "…/licenses/search"),
        ("GET", "/licenses?email=ada@example.com", None, "…/licenses/search"),
        ("GET", "/licenses?state=valid", None, "use status, expires_before and expires_after"),
        ("PATCH", "/licenses/2", {"max_activations": 3}, '{"terms": {"max_activations": …}}'),
        ("POST", "/licenses", {"key": "K", "grace_days": 3}, '{"terms": {"grace_days": …}}'),
        ("POST", "/licenses/2/renew", {"months": 12}, "send days, or until"),
        ("POST", "/licenses/validate", {"license_key": "K"}, "POST …/validate"),
        ("GET", "/nonsense/KEY-A", None, "Nothing has this address."),
    ],
)
def test_what_a_beginner_guesses_is_told_the_right_call(
    app: App, method: str, path: str, body: Any, told: str
) -> None:
    refused = app.ask(method, path, body)
    assert refused.status in (400, 404, 422)
    assert told in refused.json["detail"]
    assert "KEY-A" not in refused.json["detail"]


def test_a_foreign_or_replaced_key_is_told_nothing_else(app: App) -> None:
    """Whatever else is wrong with the license, and for all callers."""
    device = {"license_key": "KEY-A", "fingerprint": "f" * 20}
    assert app.ask("POST", "/activate", device, token=None).status == 201
    for key in ("KEY-OLD", "KEY-A"):
        app.ask("PATCH", "/licenses/2", {"key": key})
    terms = {"entitlements": ["export"], "max_leases": 1}
    changes = {"status": "disabled", "expires_at": "2020-01-01T00:00:00Z", "terms": terms}
    assert app.ask("PATCH", "/licenses/2", changes).status == 200
    rows: list[tuple[dict[str, Any], str]] = [
        ({"license_key": "NO-KEY"}, "unknown_license"),
        ({"license_key": "NO-KEY", "product": 6}, "unknown_license"),
        ({"product": "editor"}, "product_mismatch"),
        ({"product": 6}, "product_mismatch"),
        ({"license_key": "KEY-OLD"}, "key_rotated"),
        ({"license_key": "KEY-OLD", "product": 6}, "product_mismatch"),
    ]
    for (asked, code), token in product(rows, (None, "")):
        found = app.ask("POST", "/validate", device | {"entitlements": ["other"]} | asked, token=token).json
        assert (found["valid"], found["code"], found["codes"]) == (False, code, [code])
        assert (found["license"], found["activation"], found["entitlements"]) == (None, None, [])
    for (asked, code), call in product(rows, ("activate", "deactivate", "license-file")):
        refused = app.ask("POST", f"/{call}", device | asked, token=None)
        status = 404 if code == "unknown_license" else 409
        assert (refused.code, refused.status) == (code, status), call
        assert not refused.json.keys() & {"license", "devices", "limit", "activations"}


def test_the_codes_of_wrong_values_are_a_closed_list() -> None:
    """The codes in error classes; all others are typed. The reference lists all of them."""
    codes = set(get_args(ValueCode))
    told = [
        one["code"] for kind in e.CATALOG for one in kind(*kind.example).problem_members().get("errors", ())
    ]
    assert set(told) <= codes
    assert {"already_exists", "too_old", "too_small", "unknown", "invalid"} <= set(told)
    assert write_problem(e.UnknownReference("policy 17", "/policy_id")).status == 422
    reference = Path(__file__).parents[2] / "docs" / "reference" / "v3.md"
    listed = reference.read_text().partition("<!-- value codes -->")[2].partition("<!-- end -->")[0]
    assert {line.split("`")[1] for line in listed.splitlines() if line.startswith("| `")} == codes
