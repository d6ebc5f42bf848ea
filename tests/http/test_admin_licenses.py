"""The list of licenses, its search, and the page of one license."""

import re
from datetime import timedelta

import pytest

from keywright.core import crypto
from keywright.core.command import Origin
from keywright.licensing.activations.model import ActivateDevice, Deactivate, Device, SaveLastSeen
from keywright.licensing.activations.site_handlers import ActivateSite
from keywright.licensing.leases.model import TakeLease
from keywright.licensing.licenses.model import CreateLicense, Status, UpdateLicense
from keywright.licensing.usage.model import RecordUsage
from keywright.provisioning.policies.model import GenerateLicenses
from keywright.provisioning.products import NameKind
from tests.http.admin_browser import Visitor, asked, decide, said
from tests.http.admin_licenses import (
    a_key,
    a_number,
    activate,
    events,
    follow,
    list_of_devices,
    make,
    where_to,
)
from tests.http.asking import CANARY
from tests.makers import create_policy, save_name, set_terms
from tests.server import RunningServer
from tests.tables import each_row


def shown(bob: Visitor, query: str) -> list[int]:
    """The IDs of the licenses on this page of the list, from top to bottom."""
    answer = bob.get(f"/licenses?{query}")
    assert answer.status_code == 200, said(answer)
    return [int(number) for number in re.findall(r'id="key-(\d+)"', answer.text)]


# --- the list -------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_the_list_shows_a_license_with_its_key_masked(server: RunningServer, bob: Visitor) -> None:
    product, customer, order = a_number(), a_number(), a_number()
    numbers = {"product_id": product, "customer_id": customer, "order_id": order}
    license = make(server, **numbers, times_activated_max=5, status=Status.DELIVERED)
    activate(server, license)
    answer = bob.get(f"/licenses?product={product}")
    text = said(answer)
    parts = ("delivered", str(product), str(customer), str(order), "1 of 5", "never", "1 license")
    assert [one for one in parts if one not in text] == []
    assert crypto.mask(license.key) in text
    assert license.key not in answer.text
    assert CANARY not in answer.text


def test_products_and_customers_are_shown_by_their_names(server: RunningServer, bob: Visitor) -> None:
    product, customer = a_number(), a_number()
    make(server, product_id=product, customer_id=customer)
    larch = save_name(NameKind.CUSTOMER, customer, "Larch Street Clinic")
    decide(server, save_name(NameKind.PRODUCT, product, "Lumen Studio"), larch)
    text = said(bob.get(f"/licenses?product={product}"))
    assert (f"Product: Lumen Studio ({product})" in text, "Larch Street Clinic" in text) == (True, True)


def test_a_license_past_its_end_is_called_expired(server: RunningServer, bob: Visitor) -> None:
    product = a_number()
    expires_at = asked()["context"].now - timedelta(days=1)
    make(server, product_id=product, expires_at=expires_at)
    answer = bob.get(f"/licenses?product={product}")
    assert ">expired<" in answer.text
    assert f'title="{expires_at.isoformat(" ")[:19]} UTC"' in answer.text


def test_filters_leave_out_what_does_not_match(server: RunningServer, bob: Visitor) -> None:
    now = asked()["context"].now
    product, customer, order = a_number(), a_number(), a_number()
    plain = make(server, product_id=product)
    sold = make(server, product_id=product, status=Status.SOLD, customer_id=customer)
    ending = make(server, product_id=product, order_id=order, expires_at=now + timedelta(days=20))
    full = make(server, product_id=product, times_activated_max=1)
    activate(server, full)
    activate(server, plain)
    follow(server)
    here = f"product={product}"
    assert shown(bob, here) == [full.id, ending.id, sold.id, plain.id]
    assert shown(bob, f"{here}&status=sold") == [sold.id]
    assert shown(bob, f"{here}&status=2") == []
    assert shown(bob, f"{here}&customer={customer}") == [sold.id]
    assert shown(bob, f"{here}&order={order}") == [ending.id]
    assert shown(bob, f"{here}&expiring=30") == [ending.id]
    assert shown(bob, f"{here}&expiring=7") == []
    assert shown(bob, f"{here}&places=full") == [full.id]
    assert shown(bob, f"{here}&places=unused") == [ending.id, sold.id]
    assert shown(bob, f"{here}&sort=oldest") == [plain.id, sold.id, ending.id, full.id]
    assert shown(bob, f"{here}&sort=expires")[0] == ending.id


def test_licenses_are_filtered_by_being_expired_unseen_and_by_who_made_them(
    server: RunningServer, bob: Visitor
) -> None:
    now, product = asked()["context"].now, a_number()
    fresh = make(server, product_id=product)
    old = make(server, product_id=product, now=now - timedelta(days=100))
    used = make(server, product_id=product, now=now - timedelta(days=100))
    decide(server, SaveLastSeen(**asked(seen={(used.id, 0): int(now.timestamp())})))
    over = make(server, product_id=product, by=7, expires_at=now - timedelta(days=1))
    later = make(server, product_id=product, expires_at=now + timedelta(days=1))
    here = f"product={product}"
    assert shown(bob, here) == [later.id, over.id, fresh.id, used.id, old.id]
    assert shown(bob, f"{here}&expiring=expired") == shown(bob, f"{here}&by=7") == [over.id]
    assert shown(bob, f"{here}&seen=90") == [old.id]
    # Created by a user.
    ((bob_id,),) = server.sql("SELECT id FROM users WHERE name = 'bob'")
    fields = {"status": "active", "times_activated_max": "1", "product_id": str(product)}
    path = where_to(bob.post("/licenses/new", key=a_key(), **fields))
    assert shown(bob, f"{here}&by=user:{bob_id}") == [int(path.rpartition("/")[2])]
    text = said(bob.get(f"/licenses?{here}&seen=90"))
    assert "Not seen for: 90 days" in text
    assert "1 license" in text


def test_a_filter_takes_the_name_for_the_number(server: RunningServer, bob: Visitor) -> None:
    product, another, name = a_number(), a_number(), f"Product {a_number()}"
    license = make(server, product_id=product)
    decide(server, save_name(NameKind.PRODUCT, product, name))
    assert shown(bob, f"product={name.replace(' ', '+')}") == [license.id]
    decide(server, save_name(NameKind.PRODUCT, another, name))
    answer = bob.get(f"/licenses?product={name.replace(' ', '+')}")
    assert answer.status_code == 422
    assert f"It is the name of {product} and of {another}: type the ID." in said(answer)


@each_row(
    ("query", "sentence"),
    [
        ("status=gone", "There is no such status."),
        ("product=nobody+has+this", "It is neither an ID nor a name."),
        ("customer=9223372036854775808", "It must be an integer from 0 to 9223372036854775807."),
        ("expiring=-1", "It must be an integer from 0 to 2147483647."),
        ("places=some", "It must be full or unused."),
        ("sort=random", "It must be one of newest, oldest, expires, created, latest"),
        ("found=made-up", "It is not valid here; search again."),
        ("found=%F0%9F%94%91", "It is not valid here; search again."),
    ],
)
def test_a_filter_that_cannot_be_read_shows_nothing_and_says_so(
    bob: Visitor, query: str, sentence: str
) -> None:
    answer = bob.get(f"/licenses?{query}")
    assert answer.status_code == 422
    assert "One of the filters is not valid" in said(answer)
    assert "data-reveal" not in answer.text
    if not query.startswith("found"):
        assert sentence in said(answer)


def test_a_list_that_is_empty_says_how_to_see_more(bob: Visitor) -> None:
    answer = bob.get(f"/licenses?product={a_number()}&cursor=made-up")
    assert "No matching licenses" in said(answer)
    assert "Clear filters" in said(answer)


@pytest.mark.smoke
def test_pages_follow_one_another_without_a_gap(server: RunningServer, bob: Visitor) -> None:
    product = a_number()
    fields = {"status": Status.ACTIVE, "product_id": product}
    decide(server, *(CreateLicense(**asked(key=a_key(), **fields)) for _ in range(110)))
    path, seen = f"/licenses?product={product}", []
    while path:
        answer = bob.get(path)
        assert "110 licenses" in said(answer)
        seen += [int(number) for number in re.findall(r'id="key-(\d+)"', answer.text)]
        forward = re.search(r'href="/admin([^"]+)" rel="next"', answer.text)
        path = forward[1].replace("&amp;", "&") if forward else ""
    assert len(seen) == len(set(seen)) == 110
    assert seen == sorted(seen, reverse=True)
    assert 'rel="prev"' in answer.text


def test_each_thing_that_is_asked_for_can_be_taken_away(server: RunningServer, bob: Visitor) -> None:
    product = a_number()
    make(server, product_id=product)
    answer = bob.get(f"/licenses?product={product}&status=active&sort=oldest")
    assert 'href="/admin/licenses?status=active&amp;sort=oldest"' in answer.text
    assert f'href="/admin/licenses?product={product}&amp;sort=oldest"' in answer.text


# --- devices --------------------------------------------------------------------------------------


def test_a_label_and_an_address_stand_sealed_in_the_list_s_address(
    server: RunningServer, bob: Visitor
) -> None:
    label = f"Anna's {a_number()}"
    address = f"2001:db8::{a_number():x}"
    made = []
    for _ in range(2):
        license = make(server)
        activate(server, license, label=label, origin=Origin("program", address, ""))
        made.append(license.id)
    follow(server)
    for text, words in ((label[:30].lower(), "Label begins with"), (address.upper(), "IP address")):
        path = list_of_devices(bob, text)
        assert re.fullmatch(r"/licenses\?found=[A-Za-z0-9_-]+", path)
        answer = bob.get(path)
        assert f"{words}: {text.lower()}" in said(answer)
        assert shown(bob, path.partition("?")[2]) == made[::-1]
    assert bob.get(path[:-4] + "AAAA").status_code == 422


# --- one license ----------------------------------------------------------------------------------


def test_the_page_of_a_license_shows_its_activations(server: RunningServer, bob: Visitor) -> None:
    license = make(server, times_activated_max=3, order_id=a_number())
    origin = Origin("program", "192.0.2.88", "Studio/4.2")
    active = activate(server, license, label="Anna's", origin=origin)
    ended = activate(server, license, label="laptop")
    decide(server, Deactivate(**asked(license=license.id, token=ended.token)))
    answer = bob.get(f"/licenses/{license.id}")
    text = said(answer)
    parts = ("1 of 3", str(license.order_id), "laptop", "192.0.2.88", active.token[:8], "freed")
    assert [one for one in (*parts, "Anna's", "Studio/4.2") if one not in text] == []
    assert license.key not in answer.text
    # An inactive activation has no button.
    assert re.findall(r'name="token" value="(\w+)"', answer.text) == [active.token]
    assert ended.token not in answer.text


def test_a_site_that_takes_no_place_has_a_badge(server: RunningServer, bob: Visitor) -> None:
    license = make(server)
    decide(server, set_terms({"uncounted_hosts": ["*.test"]}, license.key))
    for host in ("example.com", "shop.test"):
        device = Device(f"site:{host}", host)
        decide(server, ActivateSite(**asked(license=license.id, device=device)))
    text = said(bob.get(f"/licenses/{license.id}"))
    assert text.count("not counted") == 1
    assert re.search(r"shop\.test.*?active not counted", text)
    assert not re.search(r"example\.com[^.]*?not counted", text)


def test_a_license_that_is_not_there_is_said(bob: Visitor) -> None:
    # The last one is too long for an ID.
    for number, noun in ((999_999_999, "license"), (10**20, "page")):
        assert f"There is no such {noun}" in said(bob.get(f"/licenses/{number}"))


def test_a_key_is_shown_by_a_click_which_is_an_event(server: RunningServer, bob: Visitor) -> None:
    license = make(server)
    answer = bob.post(f"/licenses/{license.id}/key")
    assert answer.status_code == 200
    assert license.key in said(answer)
    script = {"X-Requested-With": "keywright"}
    answer = bob.post(f"/licenses/{license.id}/key", headers=script)
    assert (answer.text, answer.headers["content-type"]) == (license.key, "text/plain; charset=utf-8")
    names = [(name, actor.partition(":")[0]) for name, actor, _ in events(server, license)]
    assert names == [("license.created", "cli"), ("license.key_shown", "user"), ("license.key_shown", "user")]


def test_who_may_only_look_sees_no_buttons_and_no_key(server: RunningServer, carol: Visitor) -> None:
    license = make(server, product_id=a_number(), expires_at=asked()["context"].now + timedelta(days=5))
    activate(server, license)
    for path in (f"/licenses?product={license.product_id}", f"/licenses/{license.id}"):
        answer = carol.get(path)
        for word in ("/key", "/extend", "/delete", "/edit", "/bulk", "Export", "Deactivate", "New license"):
            assert word not in answer.text, word


# --- its history ----------------------------------------------------------------------------------


@pytest.mark.smoke
def test_the_history_says_who_changed_what(server: RunningServer, bob: Visitor) -> None:
    license = make(server, times_activated_max=2)
    activate(server, license, label="desk of Kim")
    bob.post(f"/licenses/{license.id}/limit", times_activated_max="7")
    bob.post(f"/licenses/{license.id}/disable")
    answer = bob.get(f"/licenses/{license.id}/history")
    text = said(answer)
    changes = ("Limit: 2 → , now 7", "Status: active → , now disabled", "License created")
    others = ("bob", "tests at the terminal", "desk of Kim activated (1 of 2)", "a program", "192.0.2.77")
    assert [one for one in (*changes, *others) if one not in text] == []
    assert license.key not in answer.text


def test_a_long_history_goes_on_on_the_next_page(server: RunningServer, bob: Visitor) -> None:
    license = make(server)
    changes = [UpdateLicense(**asked(license=license.id, changes={"order_id": one})) for one in range(60)]
    decide(server, *changes)
    answer = bob.get(f"/licenses/{license.id}/history")
    assert "Order: 58 → , now 59" in said(answer)
    assert "License created" not in said(answer)
    older = re.search(r'href="/admin([^"]+before=\d+)"', answer.text)
    assert older is not None
    answer = bob.get(older[1])
    assert "License created" in said(answer)
    assert "Order: none → , now 0" in said(answer)
    assert "before=" not in answer.text
    assert "Newest" in said(answer)


def test_a_license_shows_its_policy_terms_leases_and_usage(server: RunningServer, bob: Visitor) -> None:
    terms = {
        "max_activations": 3,
        "valid_for_days": 365,
        "grace_days": 14,
        "max_leases": 5,
        "meters": {"exports": {"limit": 100, "per": "month"}},
    }
    (policy,) = decide(server, create_policy(name="Floating", terms=terms, chunk_length=5))
    (made,) = decide(server, GenerateLicenses(**asked(policy_id=policy.id, amount=1, status=3)))
    license = made[0].license
    device = Device(fingerprint="f" * 32, platform="linux", app_version="1.2")
    decide(
        server,
        ActivateDevice(**asked(license=license.key, device=device)),
        TakeLease(**asked(license=license.key, device=device, holder="ada@desk")),
        RecordUsage(**asked(license=license.key, device=device, meter="exports", amount=7)),
    )
    page = bob.get(f"/licenses/{license.id}")
    text = said(page)
    for part in (
        "Policy Floating",
        "3 devices, 5 at the same time, for 10 minutes each, 365 days from creation, 14 days of grace",
        "linux, 1.2",
        "f" * 16 + "…",
        "1 of 5 held.",
        "ada@desk",
        "exports 7 100 per month",
    ):
        assert part in text
    lease_id = re.findall(r'name="lease_id" value="(\w+)"', page.text)[0]
    bob.post(f"/licenses/{license.id}/end-lease", lease_id=lease_id)
    text = said(bob.get(f"/licenses/{license.id}"))
    assert "The lease was ended." in text
    assert "0 of 5 held." in text
    assert bob.post(f"/licenses/{license.id}/end-lease", lease_id=lease_id).status_code == 303
    assert said(bob.get(f"/licenses/{license.id}/history")).count("Lease of a holder ended") == 1
    assert bob.post(f"/licenses/{license.id}/end-lease", lease_id="0" * 32).status_code == 404
    # A removed meter is closed, and shown with its last state.
    decide(server, set_terms({"max_leases": 5}, license.key))
    text = said(bob.get(f"/licenses/{license.id}"))
    assert re.search(r"Past usage Meter From To Used Limit Above the limit exports .* 7 100 0", text)
    assert "Usage period closed: exports 7" in said(bob.get(f"/licenses/{license.id}/history"))


def test_a_plain_license_shows_no_leases_and_no_usage(server: RunningServer, bob: Visitor) -> None:
    text = said(bob.get(f"/licenses/{make(server, times_activated_max=2).id}"))
    assert "Terms 2 devices, no expiry" in text
    assert "Leases" not in text
    assert "Usage" not in text
