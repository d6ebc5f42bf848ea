"""Leases over v3: taking, renewing, releasing, listing and ending them; complete responses."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keywright.identity.model import Permissions
from keywright.licensing.licenses.model import Status
from tests.http.test_v3_client import LICENSE
from tests.http.test_v3_signed import do
from tests.http.v3_app import App, Reply, open_app
from tests.makers import KEY, NOW, activate_device, create, set_terms, take_lease, update

SECOND, MINUTES = timedelta(seconds=1), timedelta(minutes=10)
FIRST = "5b0e8c2f9d7a41e3b6c4d8f01a2b3c4d"
VIEW: dict[str, Any] = LICENSE | {
    "id": 1,
    "product": {"id": 17, "code": None, "name": None},
    "max_leases": 2,
    "leases": 1,
}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """An app with license 1 of product 17, which has two leases of ten minutes."""
    with open_app(tmp_path) as app:
        do(app, create(product_id=17), set_terms({"max_leases": 2}))
        yield app


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def take(app: App, holder: str = "alice", **body: Any) -> Reply:
    return app.ask("POST", "/leases", {"license_key": KEY, "holder": holder} | body, token=None)


def renew(app: App, lease_id: str, **body: Any) -> Reply:
    return app.ask("POST", "/leases/renew", {"license_key": KEY, "lease_id": lease_id} | body, token=None)


def release(app: App, lease_id: str, **body: Any) -> Reply:
    return app.ask("POST", "/leases/release", {"license_key": KEY, "lease_id": lease_id} | body, token=None)


def take_ended(app: App, holder: str = "alice", **fields: Any) -> str:
    """Create a lease that ended a minute ago; return its ID."""
    [granted] = do(app, take_lease(holder, now=now() - MINUTES - 60 * SECOND, **fields))
    lease_id: str = granted.leased.lease.lease_id
    return lease_id


def test_a_lease_is_taken(app: App) -> None:
    before = now()
    reply = take(app, seconds=60, nonce="n")
    lease = reply.json["lease"]
    expires_at, renew_at = (datetime.fromisoformat(lease[name]) for name in ("expires_at", "renew_at"))
    assert before + 60 * SECOND <= expires_at <= now() + 60 * SECOND
    assert expires_at - renew_at == 30 * SECOND
    assert lease["expires_at"].endswith("Z")
    assert reply.status == 201
    assert reply.json == {"lease": lease, "license": VIEW, "nonce": "n"}
    assert lease.keys() == {"id", "expires_at", "renew_at"}
    # A holder has at most one lease.
    again = take(app)
    assert (again.status, again.json["lease"]["id"], again.json["license"]) == (200, lease["id"], VIEW)


def test_a_lease_is_renewed(app: App) -> None:
    lease = take(app, seconds=10).json["lease"]
    reply = renew(app, lease["id"], nonce="n")
    later = reply.json["lease"]
    assert later["id"] == lease["id"]
    assert later["expires_at"] > lease["expires_at"]
    assert reply.status == 200
    assert reply.json == {"lease": later, "was_lost": False, "license": VIEW, "nonce": "n"}


def test_a_lease_that_ended_is_lost_and_taken_again_if_one_is_free(app: App) -> None:
    do(app, activate_device("device-1"))
    lease_id = take_ended(app, fingerprint="device-1")
    for named in ({"fingerprint": "device-1"}, {"lease_id": lease_id}):
        said = app.ask("POST", "/validate", {"license_key": KEY} | named, token=None)
        assert said.json["codes"] == ["lease_lost"]
    reply = renew(app, lease_id, fingerprint="device-1").json
    assert (reply["was_lost"], reply["lease"]["id"]) == (True, lease_id)
    assert reply["license"] == VIEW | {"activations": 1}


def test_a_lease_is_released(app: App) -> None:
    lease_id = take(app).json["lease"]["id"]
    reply = release(app, lease_id, nonce="n")
    none = VIEW | {"leases": 0}
    assert (reply.status, reply.json) == (200, {"was_held": True, "license": none, "nonce": "n"})
    again = release(app, lease_id)
    assert (again.status, again.json) == (200, {"was_held": False, "license": none, "nonce": None})
    assert release(app, FIRST).json["was_held"] is False


def test_when_all_are_held_the_refusal_says_when_to_try_again(app: App) -> None:
    lost = take_ended(app)
    take(app, "bob", seconds=60), take(app, "carol")
    for reply in (take(app, "dave"), renew(app, lost)):
        seconds = reply.json["retry_after_seconds"]
        assert 1 <= seconds <= 60
        assert reply.status == 409
        assert reply.json == {
            "type": "/problems/no_free_lease",
            "title": "Every lease of the license is held",
            "status": 409,
            "detail": f"All 2 leases of the license are held; the next one ends within {seconds} seconds.",
            "code": "no_free_lease",
            "retry_after_seconds": seconds,
        }


def test_an_unusable_license_gives_and_renews_no_lease_but_takes_it_back(app: App) -> None:
    lease_id = take(app).json["lease"]["id"]
    for changes, code in (
        ({"status": Status.DISABLED}, "disabled"),
        ({"status": Status.INACTIVE}, "inactive"),
        ({"status": Status.ACTIVE, "expires_at": NOW}, "expired"),
    ):
        do(app, update(**changes))
        for refused in (take(app), renew(app, lease_id)):
            assert (refused.status, refused.code) == (409, code)
    assert release(app, lease_id).json["was_held"] is True


def test_the_vendor_sees_and_ends_leases(app: App) -> None:
    lost, device = take_ended(app), do(app, activate_device("device-1"))[0].activation.id
    held = take(app, "bob", fingerprint="device-1").json["lease"]
    reply = app.ask("GET", "/licenses/1/leases?count=true")
    first, second = reply.json["items"]
    assert {name: first[name] for name in ("id", "holder", "activation_id", "is_held", "expires_at")} == {
        "id": held["id"],
        "holder": "bob",
        "activation_id": device,
        "is_held": True,
        "expires_at": held["expires_at"],
    }
    assert first["created_at"] == first["renewed_at"] <= held["expires_at"]
    assert (second["id"], second["activation_id"], second["is_held"]) == (lost, None, False)
    assert (reply.json["next_cursor"], reply.json["total"]) == (None, 2)
    assert app.ask("DELETE", f"/licenses/1/leases/{held['id']}").status == 204
    assert [one["is_held"] for one in app.ask("GET", "/licenses/1/leases").json["items"]] == [False, False]
    said = app.ask("POST", "/validate", {"license_key": KEY, "lease_id": held["id"]}, token=None)
    assert (said.json["valid"], said.json["codes"]) == (False, ["lease_lost"])
    assert app.ask("DELETE", f"/licenses/1/leases/{held['id']}").status == 204
    assert renew(app, held["id"]).json["was_lost"]
    problem = renew(app, "0" * 32)
    assert (problem.code, problem.json["detail"]) == ("not_found", "The license has no such lease.")


def test_lists_of_leases_have_pages(app: App) -> None:
    ids = {take_ended(app, "0"), take_ended(app, "1")}
    newest = take(app).json["lease"]["id"]
    first = app.ask("GET", "/licenses/1/leases?limit=2").json
    rest = app.ask("GET", f"/licenses/1/leases?limit=2&cursor={first['next_cursor']}").json
    listed = [one["id"] for one in first["items"] + rest["items"]]
    assert (listed[0], {*listed[1:]}, rest["next_cursor"]) == (newest, ids, None)


def test_an_api_key_of_another_product_sees_no_lease(app: App) -> None:
    lease_id = take(app).json["lease"]["id"]
    for product, status in ((17, 200), (18, 404)):
        token = app.issue_token(Permissions.READ_WRITE, product_id=product)
        assert app.ask("GET", "/licenses/1/leases", token=token).status == status
    assert app.ask("DELETE", f"/licenses/1/leases/{lease_id}", token=token).code == "not_found"
    assert app.ask("GET", "/licenses/2/leases").code == "not_found"
    assert app.ask("DELETE", f"/licenses/2/leases/{lease_id}").code == "not_found"
    assert app.ask("GET", "/licenses/1/leases", token=None).code == "credentials_missing"
