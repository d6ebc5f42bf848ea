"""Undo on the pages: offered right after a change of a license, and later in its history."""

import re
import secrets
from datetime import timedelta
from html import unescape

import httpx
import pytest
from msgspec.structs import replace

from keywright.core.crypto import mask
from keywright.delivery.mail.model import Unsubscribe
from keywright.licensing.activations.model import Deactivate
from keywright.licensing.licenses.model import Status
from keywright.provisioning.customers import CustomerFields, UpdateCustomer
from keywright.provisioning.policies.store import find_policy
from keywright.provisioning.portal.model import RequestErasure
from keywright.provisioning.store import CUSTOMERS
from tests.databases import KINDS
from tests.http.admin_browser import Visitor, asked, decide, look_up, said
from tests.http.admin_licenses import (
    a_key,
    a_number,
    activate,
    events,
    follow,
    found,
    is_there,
    make,
    where_to,
)
from tests.makers import NOW, create_policy
from tests.server import RunningServer

DATABASES = ("sqlite",)


def undo_form(page: httpx.Response) -> str:
    """The address of the form that undoes the last change."""
    message = re.search(r'<div class="note flash.*?</div>', page.text, flags=re.DOTALL)
    assert message is not None
    form = re.search(r'action="/admin([^"]+)"', message[0])
    assert form is not None, message[0]
    return unescape(form[1])


def undo_form_of_history(bob: Visitor, path: str) -> str:
    """The address of the first undo form in the history."""
    found = re.findall(
        r'action="/admin(/licenses/\d+/history/\d+/undo)#history"', bob.get(f"{path}/history").text
    )
    return str(found[0])


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("extend", {"days": "30", "begin": "expiry"}),
        ("limit", {"times_activated_max": "9"}),
        ("disable", {}),
        ("edit", {"status": "sold", "before_status": "active", "order_id": "5", "unlimited": "yes"}),
    ],
)
def test_a_change_is_undone_from_its_message(
    server: RunningServer, bob: Visitor, path: str, fields: dict[str, str]
) -> None:
    license = make(server, expires_at=NOW + timedelta(days=9000), times_activated_max=2)
    bob.post(f"/licenses/{license.id}/{path}", **fields)
    changed = found(server, license)
    shown = bob.get(f"/licenses/{license.id}")
    answer = bob.post(undo_form(shown))
    assert where_to(answer) == f"/licenses/{license.id}"
    now = found(server, license)
    assert now != changed
    kept = ("status", "expires_at", "times_activated_max", "order_id")
    assert [getattr(now, name) for name in kept] == [getattr(license, name) for name in kept]
    assert "Undone: the license is as it was before." in said(bob.get(f"/licenses/{license.id}"))


def test_a_freed_device_is_given_back_from_the_message(server: RunningServer, bob: Visitor) -> None:
    license = make(server, times_activated_max=1)
    place = activate(server, license)
    bob.post(f"/licenses/{license.id}/deactivate", token=place.token)
    bob.post(undo_form(bob.get(f"/licenses/{license.id}")))
    assert found(server, license).times_activated == 1
    assert [name for name, _, _ in events(server, license)][-1] == "license.reactivated"


def test_the_history_offers_to_undo_changes_of_users_and_programs_once(
    server: RunningServer, bob: Visitor
) -> None:
    license = make(server, times_activated_max=1)
    path = f"/licenses/{license.id}"
    for limit in ("2", "3"):
        bob.post(f"{path}/limit", times_activated_max=limit)
    bob.post(f"{path}/disable")

    def offered() -> list[str]:
        return re.findall(r'aria-label="(Undo: [^"]+)"', bob.get(f"{path}/history").text)

    # The limit of 2 is no longer in force.
    assert len(offered()) == 2
    bob.post(undo_form_of_history(bob, path))
    # Offered: the undo itself, and the newest limit.
    assert len(offered()) == 2
    place = activate(server, license)
    decide(server, Deactivate(**asked(license=license.id, token=place.token)))
    assert len(offered()) == 3
    form = undo_form_of_history(bob, path)
    bob.post(form)
    assert (len(offered()), found(server, license).times_activated) == (2, 1)
    # The place is taken, so undoing again changes nothing, and shows the reason.
    bob.post(form)
    assert "because of later changes: activations" in said(bob.get(path))


def test_only_those_who_may_change_licenses_undo(server: RunningServer, bob: Visitor, carol: Visitor) -> None:
    license = make(server)
    bob.post(f"/licenses/{license.id}/disable")
    form = undo_form(bob.get(f"/licenses/{license.id}"))
    assert "Undo" not in said(carol.get(f"/licenses/{license.id}/history"))
    assert carol.post(form).status_code == 403
    # There are no changes at other moments.
    assert carol.get(f"/licenses/{license.id}/undo/99999999999999").status_code in (404, 405)
    assert bob.post(f"/licenses/{license.id}/undo/9999999999999").status_code == 404


def test_what_an_administrator_did_is_undone_by_administrators(
    server: RunningServer, ada: Visitor, bob: Visitor
) -> None:
    license, gone = make(server), make(server)
    ada.post(f"/licenses/{license.id}/disable")
    ada.post(f"/licenses/{gone.id}/delete")
    forms = (undo_form_of_history(ada, f"/licenses/{license.id}"), f"/licenses/{gone.id}/restore")
    for form in forms:
        bob.post(form)
        assert "Only administrators may undo this." in said(bob.get("/licenses"))
    assert (found(server, license).status, is_there(server, gone)) == (Status.DISABLED, False)
    for form in forms:
        ada.post(form)
    assert (found(server, license).status, is_there(server, gone)) == (Status.ACTIVE, True)


@pytest.mark.databases(*KINDS)
def test_a_deleted_license_is_brought_back(server: RunningServer, bob: Visitor, carol: Visitor) -> None:
    license = make(server, times_activated_max=2)
    place = activate(server, license)
    assert "You can restore it for 30 days." in said(bob.get(f"/licenses/{license.id}/delete"))
    bob.post(f"/licenses/{license.id}/delete")
    assert not is_there(server, license)
    form = undo_form(bob.get("/licenses"))
    listed = bob.get("/licenses/deleted")
    assert mask(license.key) in said(listed)
    assert license.key not in listed.text
    assert carol.get("/licenses/deleted").status_code == 403
    assert where_to(bob.post(form)) == f"/licenses/{license.id}"
    again = found(server, license)
    assert (again.key, again.times_activated) == (license.key, 1)
    follow(server)
    assert where_to(bob.post("/find", text=place.token)) == f"/licenses/{license.id}"
    # And from the list of deleted licenses.
    bob.post(f"/licenses/{license.id}/delete")
    assert where_to(bob.post(f"/licenses/{license.id}/restore")) == f"/licenses/{license.id}"
    assert mask(license.key) not in said(bob.get("/licenses/deleted"))
    assert [name for name, _, _ in events(server, license)][-2:] == ["license.deleted", "license.restored"]


def test_a_license_whose_key_is_taken_stays_deleted(server: RunningServer, bob: Visitor) -> None:
    license = make(server)
    bob.post(f"/licenses/{license.id}/delete")
    make(server, key=license.key)
    assert where_to(bob.post(f"/licenses/{license.id}/restore")) == "/licenses/deleted"
    assert "Another license already has this key." in said(bob.get("/licenses/deleted"))


def test_a_new_license_shows_its_key_once(server: RunningServer, bob: Visitor) -> None:
    key = a_key()
    fields = {"key": key, "status": "active", "times_activated_max": "1"}
    path = where_to(bob.post("/licenses/new", **fields))
    shown = bob.get(path).text
    assert f'<code class="key" id="new-key">{key}</code>' in shown
    assert 'data-copy="#new-key"' in shown
    assert key not in bob.get(path).text


def test_a_replaced_key_and_what_changed_with_it_are_undone(server: RunningServer, bob: Visitor) -> None:
    license, new_key = make(server, expires_at=NOW + timedelta(days=9000)), a_key()
    path, limit = f"/licenses/{license.id}", {"times_activated_max": "7", "before_times_activated_max": "1"}
    bob.post(f"{path}/edit", key=new_key, status="active", before_status="active", **limit)
    form = undo_form(bob.get(path))
    assert new_key not in form
    assert license.key not in form
    changed = found(server, license)
    assert (changed.key, changed.times_activated_max) == (new_key, 7)
    bob.post(form)
    assert "Undone: the license is as it was before." in said(bob.get(path))
    again = found(server, license)
    assert (again.key, again.times_activated_max) == (license.key, license.times_activated_max)
    # The form is valid only for this change of this license.
    bob.post(form)
    assert "Nothing was undone, because of later changes" in said(bob.get(path))
    other = make(server)
    bob.post(form.replace(str(license.id), str(other.id), 1))
    assert "This cannot be undone" in said(bob.get(f"/licenses/{other.id}"))


def test_a_note_and_tags_are_undone_while_they_are_as_they_were_left(
    server: RunningServer, bob: Visitor, carol: Visitor
) -> None:
    path = f"/licenses/{make(server).id}"
    bob.post(f"{path}/note", note="Calls on Monday.", tags="vip")
    bob.post(f"{path}/note", note="", tags="refund")
    form = undo_form(bob.get(path))
    assert carol.post(form).status_code == 403
    bob.post(form)
    shown = said(bob.get(path))
    assert "Undone: the note is as before." in shown
    assert "Calls on Monday." in shown
    bob.post(form)
    assert "Nothing was undone" in said(bob.get(path))


@pytest.mark.databases(*KINDS)
def test_changes_of_a_customer_are_undone_and_its_deletion(server: RunningServer, bob: Visitor) -> None:
    path = "/customers/8401"
    fields = {"name": "Olga Brandt", "email": "olga@example.com"}
    bob.post("/customers/new", number="8401", **fields)
    bob.post(f"{path}/edit", **fields, note="Prefers mail.")
    bob.post(f"{path}/edit", name="O. Brandt", email="brandt@example.com", note="")
    form = undo_form(bob.get(path))
    assert "olga" not in form.lower()
    bob.post(form)
    shown = said(bob.get(path))
    for text in ("Undone: the customer is as before.", "Olga Brandt", "olga@example.com", "Prefers mail."):
        assert text in shown
    bob.post(f"{path}/edit", **fields, note="Moved.")
    bob.post(form)
    assert "Nothing was undone, because of later changes: email, name, note." in said(bob.get(path))
    german = UpdateCustomer(**asked(id=8401, fields=CustomerFields(language="de")))
    decide(server, german, Unsubscribe(**asked(customer_id=8401)), RequestErasure(**asked(customer_id=8401)))
    before = look_up(server, lambda tx: CUSTOMERS.find(tx, 8401))
    assert "You can undo this right afterwards." in said(bob.get(f"{path}/delete"))
    bob.post(f"{path}/delete")
    back = undo_form(bob.get("/customers"))
    bob.post(back)
    after = look_up(server, lambda tx: CUSTOMERS.find(tx, 8401))
    times = {"created_at": after.created_at, "updated_at": after.updated_at}
    assert after == replace(before, **times)
    assert (after.name, after.language, after.erasure_requested_at is None) == ("Olga Brandt", "de", False)
    assert "Moved." in said(bob.get(path))
    # Sent again: the customer already exists.
    assert where_to(bob.post(back)) == "/customers"


def test_what_is_too_long_to_be_undone_is_announced(server: RunningServer, bob: Visitor) -> None:
    note = secrets.token_urlsafe(1_500)[:2_000]
    bob.post("/customers/new", number="8402", name="Long Note")
    bob.post("/customers/8402/edit", name="Long Note", email="", note=note)
    assert "This cannot be undone." in said(bob.get("/customers/8402/delete"))
    bob.post("/customers/8402/delete")
    assert 'action="/admin/customers/8402' not in bob.get("/customers").text


@pytest.mark.databases(*KINDS)
def test_changes_of_a_product_are_undone_and_its_deletion(server: RunningServer, bob: Visitor) -> None:
    path, fields = "/products/8403", {"name": "Lumen", "url": "https://example.com", "features": "pro = Pro"}
    bob.post("/products/new", number="8403", **fields)
    bob.post(f"{path}/edit", name="Lumen Server", features="export")
    bob.post(undo_form(bob.get(path)))
    assert "Undone: the product is as before." in said(bob.get(path))
    assert "8403 Lumen https://example.com lumen pro Edit" in said(bob.get("/products"))
    bob.post(f"{path}/delete")
    bob.post(undo_form(bob.get("/products")))
    assert "8403 Lumen https://example.com lumen pro Edit" in said(bob.get("/products"))


@pytest.mark.databases(*KINDS)
def test_changes_of_a_policy_are_undone_and_its_deletion(
    server: RunningServer, ada: Visitor, bob: Visitor
) -> None:
    keys = {"charset": "0123456789ABCDEF", "chunks": 4, "chunk_length": 4, "separator": "-"}
    (policy,) = decide(server, create_policy(name="Yearly", terms={"max_activations": 3}, separator="-"))
    path = f"/policies/{policy.id}"
    ada.post(f"{path}/edit", **keys | {"name": "Monthly", "prefix": "M", "max_activations": "1"})
    form = undo_form(ada.get("/policies"))
    assert bob.post(form).status_code == 403
    ada.post(form)
    assert "Undone: the policy is as before." in said(ada.get("/policies"))
    now = look_up(server, lambda tx: find_policy(tx, policy.id))
    assert now == replace(policy, updated_at=now.updated_at, updated_by=now.updated_by)
    ada.post(f"{path}/archive")
    ada.post(undo_form(ada.get("/policies")))
    assert look_up(server, lambda tx: find_policy(tx, policy.id)).archived_at is None
    ada.post(f"{path}/archive")
    assert "You can undo this right afterwards." in said(ada.get(f"{path}/delete"))
    ada.post(f"{path}/delete")
    back = undo_form(ada.get("/policies"))
    assert bob.post(back).status_code == 403
    ada.post(back)
    now = look_up(server, lambda tx: find_policy(tx, policy.id))
    times = {"created_at": now.created_at, "updated_at": now.updated_at, "archived_at": now.archived_at}
    assert now == replace(policy, **times)
    assert now.archived_at is not None
    # Sent again: the policy already exists.
    assert where_to(ada.post(back)) == "/policies"
    assert "Another policy already has this id." in said(ada.get("/policies"))
    assert where_to(ada.post(f"{path}/undo?was=unreadable")) == "/policies"
    (following,) = decide(server, create_policy(name="Next"))
    assert following.id > policy.id


def test_what_happened_to_a_deleted_license_stays_with_its_customer(
    server: RunningServer, bob: Visitor
) -> None:
    customer = a_number()
    bob.post("/customers/new", number=str(customer), name="Tidemark Boats")
    license = make(server, customer_id=customer)
    bob.post(f"/licenses/{license.id}/delete")
    shown = said(bob.get(f"/customers/{customer}"))
    assert f"License {mask(license.key)} deleted" in shown
    assert "License created" in shown
