"""Validating, activating and deactivating over v3: all codes, all refusals, and complete bodies."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from sqlalchemy import insert, update

from keywright.db.schema import licenses, policies, products
from keywright.identity.model import Permissions
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.licenses.store import save_new_licenses
from keywright.licensing.terms.model import Period
from keywright.licensing.usage.rules import begin
from keywright.licensing.usage.store import save_new_usage
from tests.http.v3_app import App, Reply, open_app
from tests.makers import a_license_with, rename

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
KEY, LAPTOP, DESKTOP = "KEY-1", "laptop-1", "desktop-1"
V2 = "//wp-json/lmfwc/v2"
_TIME = re.compile(r'"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"')


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with open_app(tmp_path) as one:
        yield one


def put_license(app: App, terms: dict[str, Any] | None = None, **fields: Any) -> License:
    """Create a license with this key and these terms."""
    license = a_license_with(terms or {}, **{"id": 7, "key": KEY} | fields)
    with app.storage.write() as tx:
        save_new_licenses(tx, [license])
    return license


def ask(app: App, call: str, **body: Any) -> Reply:
    """Make a client call about the license, without an API key."""
    given = {name: body.pop(name) for name in ("token_of_key", "headers") if name in body}
    token = given.pop("token_of_key", None)
    return app.ask("POST", f"/{call}", {"license_key": KEY} | body, token=token, **given)


def activate(app: App, fingerprint: str = LAPTOP, **body: Any) -> Reply:
    return ask(app, "activate", fingerprint=fingerprint, **body)


def without_times(reply: Reply) -> Any:
    """The body, with current times replaced by "now", and tokens by "token"."""
    body = reply.json

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: "token" if name == "token" else clean(one) for name, one in value.items()}
        if isinstance(value, list):
            return list(map(clean, value))
        if isinstance(value, str) and _TIME.fullmatch(f'"{value}"'):
            is_now = abs(datetime.fromisoformat(value) - datetime.now(UTC)) < timedelta(minutes=1)
            return "now" if is_now else value
        return value

    return clean(body)


def read_events(app: App) -> list[str]:
    return [name for name, _ in app.events("license.")]


LICENSE: dict[str, Any] = {
    "id": 7,
    "product": None,
    "policy": None,
    "state": "valid",
    "expires_at": None,
    "grace_until": None,
    "max_activations": None,
    "activations": 0,
    "max_leases": None,
    "usage": {},
    "metadata": {},
}
ACTIVATION = {
    "id": 1,
    "token": "token",
    "fingerprint": LAPTOP,
    "name": None,
    "platform": None,
    "app_version": None,
    "metadata": {},
    "created_at": "now",
    "last_seen_at": "now",
    "deactivated_at": None,
}


# --- validate -------------------------------------------------------------------------------------


def test_a_valid_license_is_shown_without_customer_and_order(app: App) -> None:
    put_license(app, customer_id=5, order_id=6)
    reply = ask(app, "validate", nonce="n-1")
    assert reply.status == 200
    body = without_times(reply)
    next_check = datetime.fromisoformat(body.pop("next_check_at")) - datetime.now(UTC)
    assert DAY * 0.89 < next_check < DAY * 1.11
    assert body == {
        "valid": True,
        "code": "valid",
        "codes": ["valid"],
        "detail": "The license is valid.",
        "license": LICENSE,
        "activation": None,
        "entitlements": [],
        "checked_at": "now",
        "nonce": "n-1",
        "notices": [],
    }


def test_the_view_has_product_policy_usage_and_public_metadata(app: App) -> None:
    terms = {
        "max_activations": 3,
        "max_leases": 2,
        "grace_days": 1,
        "entitlements": ["export"],
        "meters": {"exports": {"limit": 10, "per": "license"}, "imports": {"limit": 1, "per": "year"}},
    }
    expires_at = NOW + DAY
    metadata = '{"public": {"plan": "pro"}, "secret": 1}'
    license = put_license(app, terms, product_id=17, policy_id=3, expires_at=expires_at, metadata=metadata)
    at = {"created_at": 0, "updated_at": 0}
    with app.storage.write() as tx:
        tx.connection.execute(insert(products).values(id=17, code="editor", name="Editor", **at))
        recipe = {"charset": "AB", "chunks": 4, "chunk_length": 4}
        tx.connection.execute(insert(policies).values(id=3, name="Yearly", **recipe, **at))
        save_new_usage(tx, [replace(begin(license, "exports", Period.LICENSE, NOW), used=4)])
    lease_id = ask(app, "leases", holder="anna").json["lease"]["id"]
    body = ask(app, "validate", product="editor", entitlements=["export"], lease_id=lease_id).json
    assert body["code"] == "valid"
    assert body["entitlements"] == ["export"]
    assert body["license"] == LICENSE | {
        "product": {"id": 17, "code": "editor", "name": "Editor"},
        "policy": {"id": 3, "name": "Yearly"},
        "expires_at": expires_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "grace_until": (expires_at + DAY).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "max_activations": 3,
        "max_leases": 2,
        "usage": {"exports": 4, "imports": 0},
        "metadata": {"plan": "pro"},
    }


def test_numbers_that_no_resource_has_are_shown_without_a_name(app: App) -> None:
    put_license(app, product_id=17, policy_id=3)
    for product in (17, "17"):
        license = ask(app, "validate", product=product).json["license"]
        assert license["product"] == {"id": 17, "code": None, "name": None}
        assert license["policy"] == {"id": 3, "name": None}


PAST, LONG_AGO = NOW - DAY, NOW - 30 * DAY
BEFORE, AFTER = (LONG_AGO - DAY).isoformat(), (LONG_AGO + DAY).isoformat()
METER = {"meters": {"exports": {"limit": 0, "per": "month"}}}


def test_all_findings_are_told_in_the_order_of_their_rank(app: App) -> None:
    terms = {"device": "required", "max_activations": 1} | METER
    fields = {"status": Status.DISABLED, "expires_at": PAST, "times_activated": 2}
    with app.storage.write() as tx:
        save_new_licenses(tx, [a_license_with(terms, id=7, key=KEY, **fields)], imported=[7])
    codes = "disabled expired fingerprint_required entitlement_missing over_limit usage_exceeded".split()
    found = ask(app, "validate", entitlements=["b"])
    assert (found.status, found.json["valid"], found.json["code"]) == (200, False, "disabled")
    assert (found.json["codes"], found.json["license"]["id"]) == (codes, 7)


def test_the_build_and_the_token_that_a_program_names_are_looked_at(app: App) -> None:
    put_license(app, {"after_expiry": "older_versions"}, expires_at=LONG_AGO)
    assert ask(app, "validate", built_at=BEFORE).json["codes"] == ["version_covered"]
    assert ask(app, "validate", built_at=AFTER).json["codes"] == ["expired", "version_not_covered"]
    lost = ask(app, "validate", built_at=BEFORE, token="f" * 40).json
    assert (lost["valid"], lost["codes"]) == (False, ["not_activated", "version_covered"])
    assert activate(app, built_at=AFTER).code == "expired"
    assert read_events(app) == []
    assert activate(app, built_at=BEFORE).status == 201


def test_a_floating_license_is_valid_for_those_who_hold_a_lease(app: App) -> None:
    """By the given lease, or the device's; v2 and activations need none."""
    put_license(app, {"max_leases": 2, "max_activations": 2})
    activate(app)
    unheld = ask(app, "validate", fingerprint=LAPTOP)
    assert (unheld.json["valid"], unheld.json["codes"]) == (False, ["lease_required"])
    assert unheld.json["license"]["id"] == 7
    taken = ask(app, "leases", holder="alice", fingerprint=LAPTOP).json["lease"]["id"]
    rows: list[tuple[dict[str, Any], list[str]]] = [
        ({"fingerprint": LAPTOP}, ["valid"]),
        ({"lease_id": taken}, ["valid"]),
        ({}, ["lease_required"]),
        ({"lease_id": "b" * 32}, ["lease_required"]),
        ({"fingerprint": "another-device"}, ["not_activated", "lease_required"]),
        ({"fingerprint": LAPTOP, "lease_id": "b" * 32}, ["lease_required"]),
    ]
    assert [(one, ask(app, "validate", **one).json["codes"]) for one, _ in rows] == rows
    ask(app, "leases/release", lease_id=taken)
    assert ask(app, "validate", fingerprint=LAPTOP).json["codes"] == ["lease_required"]


def test_an_api_key_of_another_product_is_refused_and_no_verdict_on_the_license(app: App) -> None:
    put_license(app, {"max_leases": 1, "max_activations": 1}, product_id=17)
    app.do(rename(KEY, "OLD"), rename("OLD", KEY))
    own, other = (app.issue_token(Permissions.CLIENT, product_id=number) for number in (17, 18))
    reader = app.issue_token(Permissions.READ, product_id=18)
    assert ask(app, "validate", token_of_key=own).json["codes"] != ["unknown_license"]
    body = {"fingerprint": LAPTOP, "holder": "anna", "meter": "pages", "lease_id": "a" * 32}
    calls = "validate activate deactivate leases leases/renew leases/release usage license-file".split()
    refused = {
        (call, token, key, str(headers)): (reply.status, reply.code, reply.headers["content-type"])
        for call in calls
        for token in (other, reader)
        for key in (KEY, "OLD")
        for headers in ({}, {"Accept": "application/jwt, */*;q=0.1"})
        for reply in [ask(app, call, license_key=key, token_of_key=token, headers=headers, **body)]
    }
    assert set(refused.values()) == {(403, "not_permitted", "application/problem+json")}
    # The answer for an unknown key is the same for all callers.
    assert ask(app, "validate", license_key="NO-KEY", token_of_key=other).json["code"] == "unknown_license"
    assert activate(app, license_key="NO-KEY", token_of_key=other).code == "unknown_license"


def test_unknown_keys_are_counted_by_the_limiter_also_where_the_answer_is_200(tmp_path: Path) -> None:
    with open_app(tmp_path, unknown_key_limit=2) as app:
        put_license(app)

        async def scenario(client: httpx.AsyncClient) -> list[int]:
            keys = (KEY, KEY, KEY, "NO-1", "NO-2", "NO-3")
            return [
                (await client.post("/v3/validate", json={"license_key": one})).status_code for one in keys
            ]

        assert app.run(scenario) == [200, 200, 200, 200, 200, 429]


def test_values_out_of_bounds_are_refused_with_their_pointers(app: App) -> None:
    wrong = {
        "license_key": "",
        "fingerprint": "short",
        "product": 0,
        "built_at": "yesterday",
        "entitlements": ["a"] * 101,
        "lease_id": "a" * 33,
    }
    reply = app.ask("POST", "/validate", wrong, token=None)
    assert reply.code == "invalid"
    assert {place for place, _ in reply.places} == {f"/{name}" for name in wrong}
    deep: dict[str, Any] = {"a": {"b": {"c": {"d": {}}}}}
    assert activate(app, metadata=deep).places == [("/metadata", "invalid")]


# --- activate -------------------------------------------------------------------------------------


def test_a_device_takes_one_place_keeps_it_and_takes_it_back(app: App) -> None:
    put_license(app, {"max_activations": 1})
    said: dict[str, Any] = {"name": "Anna", "platform": "macOS", "app_version": "1", "metadata": {"a": [1]}}
    first = activate(app, **said, nonce="n")
    shown = {
        "activation": ACTIVATION | said,
        "license": LICENSE | {"activations": 1, "max_activations": 1},
        "entitlements": [],
        "is_new": True,
        "removed": None,
        "update_token": None,
        "nonce": "n",
    }
    assert (first.status, without_times(first)) == (201, shown)
    kept = shown | {"is_new": False, "nonce": None}
    again = activate(app)
    assert (again.status, without_times(again)) == (200, kept)
    assert ask(app, "deactivate", fingerprint=LAPTOP).status == 200
    back = activate(app, app_version="2")
    assert back.status == 200
    assert without_times(back) == kept | {"activation": ACTIVATION | said | {"app_version": "2"}}
    assert read_events(app) == ["license.activated", "license.deactivated", "license.reactivated"]
    found = ask(app, "validate", fingerprint=LAPTOP)
    assert without_times(found)["activation"] == ACTIVATION | said | {"app_version": "2"}


def test_a_token_names_a_place_and_a_device_may_give_it_its_fingerprint(app: App) -> None:
    put_license(app)
    activated = app.ask("GET", f"{V2}/licenses/activate/{KEY}", token=None)
    token = activated.json["data"]["activationData"]["token"]
    assert ask(app, "validate", token=token).json["activation"]["fingerprint"] is None
    assert ask(app, "activate", token=token).status == 200
    known = activate(app, token=token)
    assert (known.status, known.json["activation"]["token"]) == (200, token)
    assert activate(app).json["activation"]["token"] == token
    # The token of another device is not accepted.
    assert ask(app, "validate", fingerprint=DESKTOP, token=token).json["code"] == "not_activated"
    assert activate(app, DESKTOP, token=token).status == 201
    assert ask(app, "activate", token="f" * 40).code == "unknown_device"


def test_the_place_of_a_replaced_device_moves(app: App) -> None:
    put_license(app, {"max_activations": 1})
    first = activate(app, name="Anna")
    moved = activate(app, DESKTOP, replaces=LAPTOP)
    assert (moved.status, moved.json["is_new"]) == (200, False)
    assert moved.json["activation"]["token"] == first.json["activation"]["token"]
    assert moved.json["activation"]["name"] == "Anna"
    assert ask(app, "validate", fingerprint=LAPTOP).json["code"] == "not_activated"
    assert activate(app).code == "limit_reached"
    assert read_events(app) == ["license.activated", "license.device_replaced"]


def test_a_refusal_at_the_limit_names_the_devices_to_those_who_may_read(app: App) -> None:
    put_license(app, {"max_activations": 1})
    activate(app, name="Anna")
    problem = {
        "type": "/problems/limit_reached",
        "title": "Every place of the license is taken",
        "status": 409,
        "detail": "Every place of the license is taken: 1 of 1.",
        "code": "limit_reached",
        "limit": 1,
        "activations": 1,
    }
    client, reader, writer = map(
        app.issue_token, (Permissions.CLIENT, Permissions.READ, Permissions.READ_WRITE)
    )
    for token in (None, client):
        assert activate(app, DESKTOP, token_of_key=token).json == problem
    for token in (reader, writer):
        reply = activate(app, DESKTOP, token_of_key=token)
        assert without_times(reply) == problem | {"devices": [DEVICE]}


DEVICE = {"id": 1, "name": "Anna", "platform": None, "last_seen_at": "now", "offline_until": None}
CHOOSING = {
    "max_activations": 1,
    "devices_visible": True,
    "portal_removals": {"count": 1, "per_days": 30},
}


def test_a_program_shows_the_devices_of_a_full_license_and_its_user_chooses_one(app: App) -> None:
    """Two steps: the refusal that lists the devices, and the call that removes one."""
    put_license(app, CHOOSING)
    activate(app, name="Anna")
    refused = activate(app, DESKTOP)
    assert (refused.code, without_times(refused)["devices"]) == ("limit_reached", [DEVICE])
    chosen = activate(app, DESKTOP, remove=refused.json["devices"][0]["id"])
    assert chosen.status == 201
    assert chosen.json["removed"] == {"id": 1, "name": "Anna", "offline_until": None}
    assert ask(app, "validate", fingerprint=LAPTOP).json["code"] == "not_activated"
    assert ask(app, "validate", fingerprint=DESKTOP).json["valid"]
    assert read_events(app) == ["license.activated", "license.device_replaced"]
    bound = activate(app, remove=2)
    assert (bound.code, 0 < bound.json["retry_after_seconds"] <= 30 * 86_400) == ("no_removal_left", True)
    assert (
        bound.json["detail"]
        == "No more devices can be removed now: customers may remove 1 device of this license in 30 days."
    )


def test_a_repeated_choice_gets_the_first_answer_and_removes_one_device(app: App) -> None:
    put_license(app, CHOOSING | {"max_activations": 2})
    for name in (LAPTOP, "tablet-1"):
        activate(app, name)
    key = {"Idempotency-Key": "once"}
    answers = [activate(app, DESKTOP, remove=1, headers=key) for _ in range(2)]
    assert answers[0].json == answers[1].json
    assert answers[1].json["removed"]["id"] == 1
    assert answers[1].json["license"]["activations"] == 2


# --- deactivate -----------------------------------------------------------------------------------


def test_a_place_is_given_up_whatever_the_state_and_only_once(app: App) -> None:
    put_license(app)
    token = activate(app).json["activation"]["token"]
    with app.storage.write() as tx:
        tx.connection.execute(update(licenses).values(status=Status.DISABLED, expires_at=1))
    reply = ask(app, "deactivate", token=token, nonce="n")
    expired = {
        "state": "disabled",
        "expires_at": "1970-01-01T00:00:01Z",
        "grace_until": "1970-01-01T00:00:01Z",
    }
    given_up = {
        "activation": ACTIVATION | {"deactivated_at": "now"},
        "license": LICENSE | expired,
        "was_active": True,
        "nonce": "n",
    }
    assert (reply.status, without_times(reply)) == (200, given_up)
    again = ask(app, "deactivate", fingerprint=LAPTOP)
    assert (again.status, without_times(again)) == (200, given_up | {"was_active": False, "nonce": None})
    assert read_events(app) == ["license.activated", "license.deactivated"]


def test_a_device_that_never_had_a_place_cannot_give_one_up(app: App) -> None:
    put_license(app)
    activate(app)
    assert ask(app, "deactivate", fingerprint=DESKTOP).code == "unknown_device"
    assert ask(app, "deactivate", token="f" * 40).code == "unknown_device"
    assert ask(app, "deactivate").places == [("/fingerprint", "missing")]
    assert ask(app, "validate", fingerprint=LAPTOP).json["license"]["activations"] == 1


# --- v2 and v3 see one license --------------------------------------------------------------------


def test_v2_shows_no_metadata_of_a_device(app: App) -> None:
    put_license(app)
    activate(app, metadata={"b": "c"})
    reply = app.ask("GET", f"{V2}/licenses/validate/{KEY}", token=None)
    [shown] = reply.json["data"]["activationData"]
    assert shown["meta_data"] is None


def test_a_license_that_wants_a_device_refuses_activations_over_v2(app: App) -> None:
    put_license(app, {"device": "required"})
    reply = app.ask("GET", f"{V2}/licenses/activate/{KEY}", token=None)
    assert (reply.status, reply.json["message"]) == (404, f"License Key: {KEY} is inactive.")
    assert activate(app).status == 201


def test_an_idempotency_key_shows_no_answer_to_a_caller_who_may_not_have_it(app: App) -> None:
    put_license(app, {"max_activations": 1}, product_id=17)
    key: dict[str, Any] = {"headers": {"Idempotency-Key": "one"}}
    assert activate(app, **key).status == 201
    other = app.issue_token(Permissions.CLIENT, product_id=18)
    own = app.issue_token(Permissions.CLIENT, product_id=17)
    assert activate(app, token_of_key=other, **key).code == "not_permitted"
    assert activate(app, token_of_key=own, **key).status == 200
    # A refusal stored for the vendor also lists the devices.
    shop = app.issue_token(Permissions.READ_WRITE)
    refused = activate(app, DESKTOP, token_of_key=shop, headers={"Idempotency-Key": "two"})
    assert "devices" in refused.json
    assert "devices" not in activate(app, DESKTOP, headers={"Idempotency-Key": "two"}).json
