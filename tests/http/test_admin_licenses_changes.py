"""Changes of a license on its pages: each records its event, and obeys the rules of the contract."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keywright.http.admin.sections.licenses.forms import FIELDS
from keywright.http.pages.formats import write_moment
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import Status
from keywright.licensing.licenses.rules import terms_of
from keywright.provisioning.products import NewFeature
from tests.http.admin_browser import Visitor, asked, decide, look_up, said, title
from tests.http.admin_licenses import (
    a_key,
    a_number,
    activate,
    events,
    found,
    is_there,
    make,
    names_of,
    where_to,
)
from tests.http.asking import Client
from tests.makers import create_policy, create_product
from tests.portal import make_product
from tests.server import RunningServer
from tests.tables import each_row

DATABASES = ("sqlite",)

SCRIPT = "<script>alert(1)</script>"


def latest(server: RunningServer, license: Any) -> tuple[str, Any]:
    """The latest event, which Bob caused, and its details."""
    ((bob,),) = server.sql("SELECT id FROM users WHERE name = 'bob'")
    name, actor, details = events(server, license)[-1]
    assert actor == f"user:{bob}"
    return name, details


# --- making ---------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_license_is_made_as_it_was_typed(server: RunningServer, bob: Visitor) -> None:
    key, product, customer, order = a_key(), a_number(), a_number(), a_number()
    external_id = f"crm-{order}-" + 50 * "x"
    answer = bob.post(
        "/licenses/new",
        key=f" {key} ",
        times_activated_max="3",
        expires_at="2030-12-31",
        product_id=str(product),
        customer_id=str(customer),
        order_id=str(order),
        external_id=external_id,
        status="sold",
    )
    path = where_to(answer)
    assert "The license was created." in said(bob.get(path))
    assert "The license was created." not in said(bob.get(path))
    license = found_by(server, key)
    assert path == f"/licenses/{license.id}"
    assert (license.product_id, license.customer_id, license.order_id) == (product, customer, order)
    assert (license.status, license.times_activated_max) == (Status.SOLD, 3)
    assert license.external_id == external_id
    assert external_id in said(bob.get(path))
    assert f'value="{external_id}"' in bob.get(f"{path}/edit").text
    assert license.expires_at == datetime(2031, 1, 1, tzinfo=UTC)
    assert latest(server, license)[0] == "license.created"


def found_by(server: RunningServer, key: str) -> Any:
    return look_up(server, lambda tx: license_store.find_licenses(tx, [key]))[key]


def test_a_new_license_has_a_new_key_for_one_device_unless_no_limit_is_chosen(
    server: RunningServer, bob: Visitor
) -> None:
    page = bob.get("/licenses/new").text
    assert re.search(r'<input[^>]*value="([A-Z2-9]{5}-){5}[A-Z2-9]{5}"[^>]*name="key"', page)
    assert re.search(r'value="1"[^>]*name="times_activated_max"', page)
    assert re.search(r'name="unlimited" value="yes">', page)
    fields = {"key": a_key(), "status": "active"}
    answer = bob.post("/licenses/new", **fields)
    assert answer.status_code == 422
    assert "Type how many devices, or choose no limit." in said(answer)
    bob.post("/licenses/new", **fields, unlimited="yes")
    license = found_by(server, fields["key"])
    assert (license.times_activated_max, license.expires_at, license.valid_for_days) == (None, None, None)
    assert (license.product_id, license.customer_id, license.order_id) == (None, None, None)


@each_row(
    ("field", "text", "sentence"),
    [
        ("key", "TAKEN-KEY", "Another license already has this key."),
        ("valid_for_days", "30", "Leave this empty if there is a date."),
        ("key", "", "A license needs a key."),
        ("key", "x" * 256, "This is not a valid license key"),
        ("key", "a\tb", "This is not a valid license key"),
        ("times_activated_max", "0", "It must be a whole number from 1 to 2,147,483,647."),
        ("times_activated_max", SCRIPT, "It must be a whole number from 1 to 2,147,483,647."),
        ("expires_at", "tomorrow", "It must be YYYY-MM-DD HH:MM:SS, YYYY-MM-DD, or ISO 8601"),
        ("valid_for_days", "1.5", "It must be an integer from 0 to 2147483647."),
        ("order_id", "9223372036854775808", "It must be an integer from 0 to 9223372036854775807."),
        ("product_id", "x", "It is neither an ID nor a name"),
        ("status", "expired", "The status must be sold, delivered, active, inactive or disabled."),
        ("status", "", "A license needs a status."),
    ],
)
def test_what_cannot_be_is_said_beside_its_field_and_the_rest_is_kept(
    server: RunningServer, bob: Visitor, field: str, text: str, sentence: str
) -> None:
    bob.post("/licenses/new", key="TAKEN-KEY", status="active", unlimited="yes")
    order = a_number()
    usual = {"key": a_key(), "status": "active", "order_id": str(order), "expires_at": "2030-01-01"}
    answer = bob.post("/licenses/new", **usual | {"times_activated_max": "1", field: text})
    assert answer.status_code == 422
    assert sentence in said(answer)
    assert f'id="field-{field}-error"' in answer.text
    assert "<script>alert" not in answer.text
    if field != "order_id":
        assert f'value="{order}"' in answer.text
    assert server.sql("SELECT count(*) FROM licenses WHERE order_id = ?", order) == [(0,)]


def a_policy(server: RunningServer, **fields: Any) -> Any:
    terms = {"max_activations": 5, "valid_for_days": 30, "starts": "creation", "entitlements": ["pro"]}
    name = f"Yearly {a_number()}"
    (policy,) = decide(server, create_policy(name=name, chunk_length=5, terms=terms, **fields))
    return policy


def test_a_license_is_made_as_a_policy_says_with_changes_of_its_own(
    server: RunningServer, bob: Visitor
) -> None:
    product, customer, order = make_product(server), a_number(), a_number()
    policy = a_policy(server, product_id=product, prefix="LARCH-")
    page = bob.get(f"/licenses/new?policy={policy.id}")
    assert "5 devices" in said(page)
    key = re.search(r'value="(LARCH-[^"]*)"[^>]*name="key"', page.text)
    assert key is not None
    fields = {"policy": str(policy.id), "key": key[1], "status": "active", "times_activated_max": "2"}
    numbers = {"product_id": str(product), "customer_id": str(customer), "order_id": str(order)}
    where_to(bob.post("/licenses/new", **fields, **numbers, valid_for_days="30"))
    license = found_by(server, key[1])
    assert (license.policy_id, license.times_activated_max, license.valid_for_days) == (policy.id, 2, 30)
    assert (license.product_id, license.customer_id, license.order_id) == (product, customer, order)
    assert terms_of(license).entitlements == ("pro",)
    assert license.expires_at == license.created_at + timedelta(days=30)


def test_the_terms_of_a_license_are_changed_and_can_be_those_of_a_policy(
    server: RunningServer, bob: Visitor
) -> None:
    product, features = a_number(), [NewFeature(code=one) for one in ("pro", "export")]
    decide(server, create_product(product, features=features))
    license, policy = make(server, times_activated_max=1, product_id=product), a_policy(server)
    path = f"/licenses/{license.id}/terms"
    assert re.search(r'value="1"[^>]*name="max_activations"', bob.get(path).text)
    assert re.search(r'value="5"[^>]*name="max_activations"', bob.get(f"{path}?policy={policy.id}").text)
    usual = {"lease_seconds": "900", "next_check_seconds": "86400", "after_expiry": "allow"}
    where_to(bob.post(path, max_activations="4", **usual, entitlements=["pro", "export"]))
    terms = terms_of(found(server, license))
    assert (terms.max_activations, terms.entitlements) == (4, ("pro", "export"))
    assert "Set by hand" in said(bob.get(f"/licenses/{license.id}"))
    unknown = said(bob.post(path, max_activations="4", **usual, entitlements=["pro", "lite"]))
    assert "lite is not a feature of this product." in unknown
    answer = bob.post(path, max_activations="", **usual, grace_days="-1")
    assert answer.status_code == 422
    assert "Type how many devices, or choose no limit." in said(answer)


def test_a_license_moves_to_another_policy_on_its_page(server: RunningServer, bob: Visitor) -> None:
    license, policy = make(server, times_activated_max=1), a_policy(server)
    path = f"/licenses/{license.id}/terms"
    assert "Change the policy" in said(bob.get(f"{path}?policy={policy.id}"))
    where_to(bob.post(path, policy=str(policy.id)))
    moved = found(server, license)
    assert (moved.policy_id, moved.times_activated_max, moved.key) == (policy.id, 5, license.key)


# --- editing --------------------------------------------------------------------------------------


def edit(bob: Visitor, license: Any, *, shown: dict[str, str] | None = None, **typed: str) -> Any:
    """Send the page's form with some fields changed; ``shown`` has the values that the other fields show."""
    page = bob.get(f"/licenses/{license.id}/edit").text
    before = {name: page.split(f'name="before_{name}" value="')[1].split('"')[0] for name in FIELDS} | (
        shown or {}
    )
    hidden = {f"before_{name}": text for name, text in before.items()}
    return bob.post(f"/licenses/{license.id}/edit", **hidden | before | typed)


@pytest.mark.smoke
def test_a_license_is_changed_as_it_was_typed(server: RunningServer, bob: Visitor) -> None:
    license = make(server, times_activated_max=3, order_id=1)
    answer = edit(bob, license, unlimited="yes", order_id="2", expires_at="2031-05-01", status="inactive")
    assert where_to(answer) == f"/licenses/{license.id}"
    assert "The license was changed." in said(bob.get(f"/licenses/{license.id}"))
    changed = found(server, license)
    assert (changed.times_activated_max, changed.order_id, changed.status) == (None, 2, Status.INACTIVE)
    assert changed.expires_at == datetime(2031, 5, 2, tzinfo=UTC)
    assert changed.key == license.key
    name, details = latest(server, license)
    assert name == "license.updated"
    assert (details["order_id"], details["times_activated_max"]) == ([1, 2], [3, None])


def test_only_what_was_typed_anew_is_changed(server: RunningServer, bob: Visitor) -> None:
    """Another user changed the limit after the form was opened."""
    license = make(server, times_activated_max=8, order_id=1)
    edit(bob, license, shown={"times_activated_max": "3"}, order_id="2")
    changed = found(server, license)
    assert (changed.times_activated_max, changed.order_id) == (8, 2)
    assert latest(server, license)[1].keys() == {"order_id"}


def test_nothing_typed_changes_nothing(server: RunningServer, bob: Visitor) -> None:
    license = make(server, expires_at=datetime(2031, 5, 1, 10, 30, 15, tzinfo=UTC), valid_for_days=30)
    edit(bob, license)
    assert "Nothing was changed." in said(bob.get(f"/licenses/{license.id}"))
    assert names_of(server, license) == ["created"]
    assert found(server, license) == license


def test_the_last_day_is_a_whole_day_in_the_time_zone_of_the_reader(
    server: RunningServer, bob: Visitor
) -> None:
    license = make(server)
    bob.http.cookies.set("keywright_zone", "America/New_York", domain="127.0.0.1", path="/admin")
    assert "Valid until the end of this day in America/New_York" in said(
        bob.get(f"/licenses/{license.id}/edit")
    )
    edit(bob, license, expires_at="2031-05-01")
    assert found(server, license).expires_at == datetime(2031, 5, 2, 4, tzinfo=UTC)
    page = bob.get(f"/licenses/{license.id}/edit").text
    assert re.search(r'type="date" value="2031-05-01"[^>]*name="expires_at"', page)
    bob.http.cookies.delete("keywright_zone", domain="127.0.0.1", path="/admin")


def test_days_from_the_first_activation_and_a_date_replace_one_another(
    server: RunningServer, bob: Visitor
) -> None:
    license = make(server, valid_for_days=30)
    edit(bob, license, expires_at="2031-05-01", valid_for_days="")
    changed = found(server, license)
    assert (changed.expires_at, changed.valid_for_days) == (datetime(2031, 5, 2, tzinfo=UTC), None)
    edit(bob, license, expires_at="", valid_for_days="60")
    changed = found(server, license)
    assert (changed.expires_at, changed.valid_for_days) == (None, 60)
    assert edit(bob, license, expires_at="2031-05-01").status_code == 422


def test_a_license_gets_another_key(server: RunningServer, bob: Visitor, program: Client) -> None:
    license, another, key = make(server), make(server), a_key()
    assert edit(bob, license, key=another.key).status_code == 422
    edit(bob, license, key=key)
    assert found_by(server, key).id == license.id
    assert key not in str(latest(server, license))
    assert program.ask("GET", f"licenses/validate/{key}").status == 200


# --- putting its end off --------------------------------------------------------------------------


def test_a_license_is_extended_from_its_end_or_from_today(server: RunningServer, bob: Visitor) -> None:
    end = asked()["context"].now + timedelta(days=10)
    license = make(server, expires_at=end)
    answer = bob.post(f"/licenses/{license.id}/extend", days="30", begin="expiry")
    assert where_to(answer) == f"/licenses/{license.id}"
    until = " ".join(write_moment(end + timedelta(days=30)).split())
    assert f"The license is valid until {until}." in said(bob.get(f"/licenses/{license.id}"))
    assert latest(server, license)[0] == "license.renewed"
    bob.post(f"/licenses/{license.id}/extend", days="100", begin="now")
    left = (found(server, license).expires_at or end) - asked()["context"].now
    assert abs(left - timedelta(days=100)) < timedelta(minutes=1)


def test_a_license_is_extended_by_months_of_the_readers_zone_and_may_stay_expired(
    server: RunningServer, bob: Visitor
) -> None:
    bob.http.cookies.set("keywright_zone", "Europe/Berlin", domain="127.0.0.1", path="/admin")
    license = make(server, expires_at=datetime(2024, 11, 30, 23, tzinfo=UTC))
    path = f"/licenses/{license.id}"
    bob.post(f"{path}/extend", days="7", unit="months", begin="expiry")
    # Both are the first moment of a day in Berlin.
    assert found(server, license).expires_at == datetime(2025, 6, 30, 22, tzinfo=UTC)
    assert "The license was extended until" in said(bob.get(path))
    bob.post(f"{path}/extend", days="2000", unit="years", begin="now")
    assert "The license is valid until" in said(bob.get(path))


def test_what_cannot_be_extended_is_said_beside_the_days(server: RunningServer, bob: Visitor) -> None:
    endless = make(server)
    ending = make(server, expires_at=asked()["context"].now + timedelta(days=10))
    for license, days, begin, sentence in (
        (endless, "30", "expiry", "never expires"),
        (ending, "5", "now", "valid for longer"),
        (ending, "", "expiry", "It must be a whole number from 1 to 2,147,483,647."),
    ):
        answer = bob.post(f"/licenses/{license.id}/extend", days=days, begin=begin)
        assert answer.status_code == 422
        assert sentence in said(answer)
        assert 'id="field-days-error"' in answer.text
    assert "/extend" not in bob.get(f"/licenses/{endless.id}").text
    assert names_of(server, ending) == ["created"]


# --- its limit, its status ------------------------------------------------------------------------


def test_a_limit_below_what_is_taken_leaves_the_places(server: RunningServer, bob: Visitor) -> None:
    license = make(server, times_activated_max=3)
    for _ in range(3):
        activate(server, license)
    where_to(bob.post(f"/licenses/{license.id}/limit", times_activated_max="2"))
    text = said(bob.get(f"/licenses/{license.id}"))
    assert "The limit is 2. The 3 places in use stay taken." in text
    assert latest(server, license) == ("license.updated", {"times_activated_max": [3, 2]})
    where_to(bob.post(f"/licenses/{license.id}/limit", unlimited="yes"))
    assert "The license has no limit." in said(bob.get(f"/licenses/{license.id}"))
    assert bob.post(f"/licenses/{license.id}/limit", times_activated_max="many").status_code == 422


def test_a_disabled_license_can_be_enabled_again(
    server: RunningServer, bob: Visitor, program: Client
) -> None:
    license = make(server)
    where_to(bob.post(f"/licenses/{license.id}/disable"))
    text = said(bob.get(f"/licenses/{license.id}"))
    assert "The license was disabled: it can no longer be activated." in text
    assert "Enable" in text
    assert program.ask("GET", f"licenses/activate/{license.key}").status != 200
    where_to(bob.post(f"/licenses/{license.id}/enable"))
    assert program.ask("GET", f"licenses/activate/{license.key}").status == 200
    assert names_of(server, license) == ["created", "updated", "updated", "activated"]


# --- its places -----------------------------------------------------------------------------------


def test_one_place_is_given_up(server: RunningServer, bob: Visitor) -> None:
    license = make(server, times_activated_max=2)
    first, second = activate(server, license), activate(server, license)
    path = f"/licenses/{license.id}"
    assert where_to(bob.post(f"{path}/deactivate", token=first.token)) == path
    assert "The place is free again." in said(bob.get(path))
    assert found(server, license).times_activated == 1
    assert latest(server, license)[0] == "license.deactivated"
    for token in (first.token, "0" * 40, ""):
        where_to(bob.post(f"{path}/deactivate", token=token))
        assert "This place has already been given up." in said(bob.get(path))
    assert second.token in bob.get(path).text


def test_all_places_are_given_up_after_a_question(server: RunningServer, bob: Visitor) -> None:
    license = make(server)
    for _ in range(3):
        activate(server, license)
    path = f"/licenses/{license.id}"
    answer = bob.get(f"{path}/deactivate-all")
    assert "has 3 active places" in said(answer)
    assert license.key not in answer.text
    assert names_of(server, license).count("deactivated") == 0
    where_to(bob.post(f"{path}/deactivate-all"))
    assert "All places are free again." in said(bob.get(path))
    assert names_of(server, license).count("deactivated") == 3
    where_to(bob.post(f"{path}/deactivate-all"))
    assert "The license has no active places." in said(bob.get(path))


# --- its end --------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_license_is_deleted_after_it_was_said_what_goes(server: RunningServer, bob: Visitor) -> None:
    license = make(server)
    for _ in range(2):
        activate(server, license)
    path = f"/licenses/{license.id}/delete"
    answer = bob.get(path)
    assert title(answer).startswith("Delete the license …")
    assert "2 activations are deleted with it (active: 2)." in said(answer)
    assert "can restore it for 30 days" in said(answer)
    assert license.key not in answer.text
    assert is_there(server, license)
    assert where_to(bob.post(path)) == "/licenses"
    assert "The license was deleted." in said(bob.get("/licenses"))
    assert not is_there(server, license)
    assert latest(server, license)[0] == "license.deleted"
    assert bob.get(f"/licenses/{license.id}").status_code == 404


def test_looking_at_a_page_changes_nothing(server: RunningServer, bob: Visitor) -> None:
    license = make(server, expires_at=asked()["context"].now)
    for page in ("edit", "extend", "limit", "delete", "deactivate-all"):
        assert bob.get(f"/licenses/{license.id}/{page}").status_code == 200
    for page in ("disable", "enable", "deactivate", "key"):
        assert bob.get(f"/licenses/{license.id}/{page}").status_code == 405
    # The expiry event is recorded in the background, perhaps later.
    assert names_of(server, license) in (["created"], ["created", "expired"])
