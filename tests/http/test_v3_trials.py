"""Trials over v3: one per device and product, ever; complete responses."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from keywright.db.schema import trials
from keywright.identity.model import Permissions
from tests.http.test_v3_client import ACTIVATION, LICENSE
from tests.http.v3_app import App, Reply, open_app
from tests.makers import NOW, create, create_policy, delete, update

DEVICE = "device-7f3a9c0e12b4"
TERMS = {"trial": True, "valid_for_days": 30, "max_activations": 1, "entitlements": ["export"]}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """An app with product 17, code editor, whose policy 1 grants trials of 30 days."""
    with open_app(tmp_path) as app:
        assert app.ask("POST", "/products", {"id": 17, "code": "editor", "name": "Editor"}).status == 201
        app.do(create_policy(name="Trial", product_id=17, terms=TERMS))
        yield app


def start(app: App, **body: Any) -> Reply:
    given = {"token": None} | {name: body.pop(name) for name in ("token", "headers") if name in body}
    return app.ask("POST", "/trials", {"product": "editor", "fingerprint": DEVICE} | body, **given)


def emails(app: App) -> list[str | None]:
    with app.storage.read() as tx:
        return list(tx.connection.execute(select(trials.c.email)).scalars())


def test_a_trial_is_a_license_with_the_devices_activation(app: App) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    reply = start(app, email=" ada@example.com", name="Anna's laptop", nonce="n")
    license, activation = reply.json["license"], reply.json["activation"]
    expires_at = datetime.fromisoformat(license["expires_at"])
    assert before <= expires_at - timedelta(days=30) <= datetime.now(UTC)
    assert reply.status == 201
    assert reply.json == {
        "license": LICENSE
        | {
            "id": 1,
            "product": {"id": 17, "code": "editor", "name": "Editor"},
            "policy": {"id": 1, "name": "Trial"},
            "expires_at": license["expires_at"],
            "grace_until": license["expires_at"],
            "max_activations": 1,
            "activations": 1,
            "key": license["key"],
        },
        "activation": ACTIVATION
        | {"token": activation["token"], "fingerprint": DEVICE, "name": "Anna's laptop"}
        | dict.fromkeys(("created_at", "last_seen_at"), activation["created_at"]),
        "entitlements": ["export"],
        "is_new": True,
        "nonce": "n",
    }
    validated = app.ask("POST", "/validate", {"license_key": license["key"], "fingerprint": DEVICE})
    assert validated.json["code"] == "valid"
    assert [name for name, _ in app.events("license.")] == ["license.created", "license.activated"]
    assert emails(app) == ["ada@example.com"]


def test_the_same_device_gets_its_first_trial_again_expired_or_not(app: App) -> None:
    first = start(app)
    again = start(app, product=17)
    assert again.status == 200
    assert again.json == first.json | {"is_new": False} | {
        "activation": first.json["activation"] | {"last_seen_at": again.json["activation"]["last_seen_at"]}
    }
    app.do(update(1, expires_at=NOW))
    assert app.ask("PATCH", "/policies/1", {"is_archived": True}).status == 200
    expired = start(app, product="17")
    assert (expired.status, expired.json["license"]["state"]) == (200, "expired")
    other = start(app, fingerprint="another device")
    assert (other.status, other.code) == (409, "policy_archived")


def test_the_address_of_a_trial_is_shown_to_the_vendor_and_found(app: App) -> None:
    """Next to the licenses of a customer with this address, who has not proved to own the trial."""
    start(app, email="Ada@Example.com")
    customer = {"customer": {"email": "ada@example.com"}}
    for number in range(2):
        assert app.ask("POST", "/licenses", {"key": f"BOUGHT-{number}"} | customer).status == 201
    start(app, fingerprint="another device", email="ada@example.COM")
    found, cursor = list[Any](), None
    while not found or cursor:
        query = {"email": "ADA@example.com", "limit": 1} | ({"cursor": cursor} if cursor else {})
        page = app.ask("POST", "/licenses/search", query).json
        found, cursor = found + page["items"], page["next_cursor"]
    assert [(one["id"], one["trial_email"] is None, one["customer_id"] is None) for one in found] == [
        (4, False, True),
        (3, True, False),
        (2, True, False),
        (1, False, True),
    ]
    assert found == app.ask("POST", "/licenses/search", {"email": "ada@example.com"}).json["items"]
    assert app.ask("GET", "/licenses/1").json["trial_email"] == "ada@example.com"
    other = app.issue_token(Permissions.READ, product_id=18)
    assert app.ask("POST", "/licenses/search", {"email": "ada@example.com"}, token=other).json["items"] == []
    assert app.ask("DELETE", "/licenses/1").status == 204
    left = app.ask("POST", "/licenses/search", {"email": "ada@example.com"}).json["items"]
    assert [one["id"] for one in left] == [4, 3, 2]


def test_a_trial_is_not_given_twice_when_its_license_was_deleted(app: App) -> None:
    start(app, email="ada@example.com")
    app.do(delete(1))
    reply = start(app)
    assert reply.status == 409
    assert reply.json == {
        "type": "/problems/trial_used",
        "title": "The device has already had its trial",
        "status": 409,
        "detail": "The device has already had its trial of this product.",
        "code": "trial_used",
    }
    assert emails(app) == [None]
    assert start(app, fingerprint="another device").status == 201


def test_another_product_has_trials_of_its_own(app: App) -> None:
    app.name_products(18)
    app.do(create_policy(product_id=18, terms={"trial": True}))
    assert start(app).json["license"]["product"]["id"] == 17
    other = start(app, product=18)
    assert (other.status, other.json["license"]["product"]["id"]) == (201, 18)


def test_the_policy_is_one_of_the_product_for_trials(app: App) -> None:
    app.name_products(18, 19)
    app.do(
        create_policy(product_id=17),
        create_policy(product_id=18),
        create_policy(product_id=19, terms={"trial": True}),
        create_policy(terms={"trial": True}),
    )
    bodies: list[dict[str, Any]] = [{"product": "viewer"}, {"product": 18}]
    bodies += [{"policy": number} for number in (2, 3, 4)]
    assert {start(app, **one).code for one in bodies} == {"trial_not_offered"}
    for number, body in enumerate(({"policy": 5}, {"policy": 1}, {"product": 19, "policy": 5})):
        assert start(app, **{"fingerprint": f"a device {number}"} | body).status == 201, body


def test_numbers_of_products_that_do_not_exist_give_no_trials(app: App) -> None:
    """With a policy for all products, each product ID would allow another trial."""
    app.do(create_policy(name="Any", product_id=None, terms=TERMS))
    app.do(create(product_id=4))
    assert [start(app, policy=2, product=one).status for one in (17, "17", 4)] == [201, 200, 201]
    refused = [start(app, policy=2, product=one) for one in (18, "18", 999_999)]
    assert {one.json["code"] for one in refused} == {"trial_not_offered"}
    assert len(emails(app)) == 2


def test_one_of_several_policies_has_to_be_named(app: App) -> None:
    app.do(create_policy(product_id=17, terms={"trial": True}))
    reply = start(app)
    assert (reply.status, reply.places) == (422, [("/policy", "invalid")])
    assert start(app, policy=2).json["license"]["policy"]["id"] == 2
    assert start(app).json["license"]["policy"]["id"] == 2


def test_a_place_that_moved_to_another_device_is_not_shown_to_the_first(app: App) -> None:
    key = start(app).json["license"]["key"]
    moved = {"license_key": key, "fingerprint": "another device", "replaces": DEVICE}
    assert app.ask("POST", "/activate", moved, token=None).status == 200
    assert start(app).json["activation"] is None


def test_an_api_key_of_another_product_starts_no_trial(app: App) -> None:
    for product, status in ((18, 409), (17, 201)):
        token = app.issue_token(Permissions.CLIENT, product_id=product)
        assert start(app, token=token).status == status


def test_a_repeated_call_has_the_first_answer(app: App) -> None:
    headers = {"Idempotency-Key": "one"}
    first, again = start(app, headers=headers), start(app, headers=headers)
    assert (again.status, again.body) == (201, first.body)
    assert start(app, headers=headers, fingerprint="another device").json["is_new"]


def test_an_address_starts_few_trials_but_gets_those_it_has_had(tmp_path: Path) -> None:
    with open_app(tmp_path, trial_limit=2) as app:
        app.name_products(17)
        app.do(create_policy(product_id=17, terms={"trial": True}))

        async def scenario(client: Any) -> list[Any]:
            return [
                await client.post(
                    "/v3/trials", json={"product": 17, "fingerprint": f"a device {device}"}, headers=headers
                )
                for device, headers in [*((one, {}) for one in (1, 1, 1, 2, 3, 1)), (4, vendor)]
            ]

        vendor = {"Authorization": f"Bearer {app.token}"}
        replies = app.run(scenario)
        assert [one.status_code for one in replies] == [201, 200, 200, 201, 429, 200, 201]
        assert replies[4].json()["detail"].startswith("Too many trials were started from this")
        assert 1790 <= int(replies[4].headers["retry-after"]) <= 1800


def test_beyond_the_limit_devices_are_looked_for_as_seldom_as_unknown_keys(tmp_path: Path) -> None:
    with open_app(tmp_path, trial_limit=1, unknown_key_limit=1) as app:
        app.name_products(17)
        app.do(create_policy(product_id=17, terms={"trial": True}))

        async def scenario(client: Any) -> list[str]:
            replies = [
                await client.post("/v3/trials", json={"product": 17, "fingerprint": f"a device {device}"})
                for device in (1, 1, 2, 3)
            ]
            return [one.json().get("detail", "")[:15] for one in replies]

        assert app.run(scenario) == ["", "", "Too many trials", "Too many failed"]
