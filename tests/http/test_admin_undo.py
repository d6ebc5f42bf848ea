"""Undo on the pages: every change of a license offers it at once, and the history offers it for longer."""

import re
from datetime import timedelta
from html import unescape

import httpx
import pytest

from keywright.core.crypto import mask
from keywright.licensing.activations.commands import Deactivate
from keywright.licensing.licenses.model import Status
from tests.http.admin_browser import Visitor, asked, decide, said
from tests.http.admin_licenses import a_key, activate, events, follow, found, make, where_to
from tests.makers import NOW
from tests.server import RunningServer


def undo_form(page: httpx.Response) -> str:
    """The address of the form that undoes what was just done."""
    message = re.search(r'<div class="note flash.*?</div>', page.text, flags=re.DOTALL)
    assert message is not None
    form = re.search(r'action="/admin([^"]+)"', message[0])
    assert form is not None, message[0]
    return unescape(form[1])


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("extend", {"days": "30", "begin": "expiry"}),
        ("limit", {"times_activated_max": "9"}),
        ("disable", {}),
        (
            "edit",
            {
                "status": "sold",
                "before_status": "active",
                "times_activated_max": "2",
                "before_times_activated_max": "2",
                "order_id": "5",
                "before_order_id": "",
            },
        ),
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
    assert now is not None
    assert changed is not None
    assert now != changed
    kept = ("status", "expires_at", "times_activated_max", "order_id")
    assert [getattr(now, name) for name in kept] == [getattr(license, name) for name in kept]
    assert "Undone: the license is as it was before." in said(bob.get(f"/licenses/{license.id}"))


def test_a_freed_device_is_given_back_from_the_message(server: RunningServer, bob: Visitor) -> None:
    license = make(server, times_activated_max=1)
    place = activate(server, license)
    bob.post(f"/licenses/{license.id}/deactivate", token=place.token)
    form = undo_form(bob.get(f"/licenses/{license.id}"))
    bob.post(form)
    again = found(server, license)
    assert again is not None
    assert again.times_activated == 1
    assert [name for name, _, _ in events(server, license)][-1] == "license.reactivated"


def test_the_history_offers_to_undo_a_change_of_a_program(server: RunningServer, bob: Visitor) -> None:
    license = make(server, times_activated_max=1)
    place = activate(server, license)
    decide(server, Deactivate(**asked(license=license.id, token=place.token)))
    page = bob.get(f"/licenses/{license.id}/history").text
    (form,) = re.findall(r'action="/admin(/licenses/\d+/history/\d+/undo)"', page)
    bob.post(form)
    again = found(server, license)
    assert again is not None
    assert again.times_activated == 1
    # The place is taken: a second time changes nothing, and says why.
    bob.post(form)
    assert "it has been changed since (activations)" in said(bob.get(f"/licenses/{license.id}"))


def test_enabling_gives_the_status_back_that_a_license_had(server: RunningServer, bob: Visitor) -> None:
    license = make(server, status=Status.DELIVERED)
    bob.post(f"/licenses/{license.id}/disable")
    bob.post(f"/licenses/{license.id}/enable")
    again = found(server, license)
    assert again is not None
    assert again.status == Status.DELIVERED


def test_only_those_who_may_change_licenses_undo(server: RunningServer, bob: Visitor, carol: Visitor) -> None:
    license = make(server)
    bob.post(f"/licenses/{license.id}/disable")
    form = undo_form(bob.get(f"/licenses/{license.id}"))
    assert "Undo" not in said(carol.get(f"/licenses/{license.id}/history"))
    assert carol.post(form).status_code == 403
    # What another user has changed at this moment is nothing to this one.
    assert carol.get(f"/licenses/{license.id}/undo/99999999999999").status_code in (404, 405)
    assert bob.post(f"/licenses/{license.id}/undo/9999999999999").status_code == 404


def test_a_deleted_license_is_brought_back(server: RunningServer, bob: Visitor, carol: Visitor) -> None:
    license = make(server, times_activated_max=2)
    place = activate(server, license)
    assert "It can be brought back for 30 days." in said(bob.get(f"/licenses/{license.id}/delete"))
    bob.post(f"/licenses/{license.id}/delete")
    assert found(server, license) is None
    form = undo_form(bob.get("/licenses"))
    listed = bob.get("/licenses/deleted")
    assert mask(license.key) in said(listed)
    assert license.key not in listed.text
    assert carol.get("/licenses/deleted").status_code == 403
    assert where_to(bob.post(form)) == f"/licenses/{license.id}"
    again = found(server, license)
    assert again is not None
    assert (again.key, again.times_activated) == (license.key, 1)
    follow(server)
    assert where_to(bob.post("/find", text=place.token)) == f"/licenses/{license.id}"
    # And from the list of those that were deleted.
    bob.post(f"/licenses/{license.id}/delete")
    assert where_to(bob.post(f"/licenses/{license.id}/restore")) == f"/licenses/{license.id}"
    assert mask(license.key) not in said(bob.get("/licenses/deleted"))
    assert [name for name, _, _ in events(server, license)][-2:] == ["license.deleted", "license.restored"]


def test_a_license_whose_key_is_taken_stays_deleted(server: RunningServer, bob: Visitor) -> None:
    license = make(server)
    bob.post(f"/licenses/{license.id}/delete")
    form = undo_form(bob.get("/licenses"))
    make(server, key=license.key)
    for path in (form, f"/licenses/{license.id}/restore"):
        assert where_to(bob.post(path)) == "/licenses/deleted"
        assert "Another license has this key already." in said(bob.get("/licenses/deleted"))


def test_a_new_license_shows_its_key_once(server: RunningServer, bob: Visitor) -> None:
    key = a_key()
    fields = {"key": key, "status": "active", "times_activated_max": "1"}
    path = where_to(bob.post("/licenses/new", **fields))
    shown = bob.get(path).text
    assert f'<code class="key" id="new-key">{key}</code>' in shown
    assert 'data-copy="#new-key"' in shown
    assert key not in bob.get(path).text
