"""Bulk changes of licenses, from their list."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import httpx
import pytest

from keywright.jobs.model import Job
from keywright.licensing.licenses.model import Status
from keywright.provisioning.products import NameKind
from tests.http.admin_browser import Visitor, asked, decide, said, title
from tests.http.admin_licenses import (
    a_number,
    activate,
    ended_job,
    events,
    follow,
    found,
    is_there,
    list_of_devices,
    make,
    where_to,
)
from tests.http.asking import CANARY
from tests.makers import save_name
from tests.server import RunningServer

DATABASES = ("sqlite",)


def hidden(answer: httpx.Response) -> dict[str, Any]:
    """The hidden fields of the page's form, except the CSRF token."""
    form = answer.text.split('action="/admin/licenses/bulk/start"')[1].split("</form>")[0]
    fields: dict[str, Any] = {}
    for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form):
        fields.setdefault(name, []).append(value)
    fields.pop("csrf_token")
    return fields


def start(bob: Visitor, answer: httpx.Response, **fields: str) -> Job:
    """Press the page's button; wait for the job, and return it."""
    number = int(where_to(bob.post("/licenses/bulk/start", **hidden(answer) | fields)).split("/")[-1])
    return ended_job(bob.server, number)


def test_the_theme_can_be_changed_on_a_page_that_answered_a_form(server: RunningServer, bob: Visitor) -> None:
    answer = bob.post("/licenses/bulk", id=[str(make(server).id)], what="extend")
    (way_back,) = re.findall(r'name="next" value="([^"]*)"', answer.text)
    changed = bob.post("/theme", next=way_back, theme="dark")
    assert bob.get(where_to(changed)).status_code == 200


@pytest.mark.smoke
def test_selected_licenses_are_extended_by_a_job(server: RunningServer, bob: Visitor) -> None:
    end = asked()["context"].now + timedelta(days=10)
    chosen = [make(server, expires_at=end) for _ in range(3)]
    another = make(server, expires_at=end)
    answer = bob.post("/licenses/bulk", id=[str(one.id) for one in chosen], what="extend")
    assert (answer.status_code, title(answer)) == (200, "Extend: 3 licenses")
    assert "3 licenses will change." in said(answer)
    job = start(bob, answer, amount="30", begin="expiry")
    assert (job.done, job.refused) == (3, 0)
    for license in chosen:
        assert found(server, license).expires_at == end + timedelta(days=30)
        *_, (name, actor, _), (told, *_) = events(server, license)
        assert (name, actor.partition(":")[0], told) == ("license.updated", "user", "license.renewed")
    assert found(server, another) == another


def test_all_that_match_are_changed_and_nothing_else(server: RunningServer, bob: Visitor) -> None:
    product = a_number()
    meant = [make(server, product_id=product) for _ in range(60)]
    another = make(server, product_id=product, status=Status.SOLD)
    page = bob.get(f"/licenses?product={product}&status=active")
    assert "Select all 60 that match" in said(page)
    answer = bob.post("/licenses/bulk", scope="all", product=str(product), status="active", what="disable")
    assert title(answer) == "Disable: All 60 licenses"
    assert f"Product: {product}" in said(answer)
    assert "Status: active" in said(answer)
    again = bob.post("/licenses/bulk/start", **hidden(answer), typed="6")
    assert "Type 60 to confirm." in said(again)
    assert start(bob, again, typed="60").done == 60
    assert {found(server, one).status for one in meant} == {Status.DISABLED}
    assert found(server, another) == another


@pytest.mark.parametrize(
    ("what", "fields", "expected"),
    [
        ("set_limit", {"amount": "7"}, {"times_activated_max": 7}),
        ("set_limit", {"amount": ""}, {"times_activated_max": None}),
        ("raise_limit", {"amount": "2"}, {"times_activated_max": 5}),
    ],
)
def test_each_change_does_what_it_says(
    server: RunningServer, bob: Visitor, what: str, fields: dict[str, str], expected: dict[str, object]
) -> None:
    license = make(server, times_activated_max=3, status=Status.SOLD)
    activate(server, license)
    answer = bob.post("/licenses/bulk", id=str(license.id), what=what)
    assert answer.status_code == 200
    assert license.key not in answer.text
    assert start(bob, answer, **fields).done == 1
    changed = found(server, license)
    assert {name: getattr(changed, name) for name in expected} == expected


def test_licenses_are_deleted_only_by_who_is_sure_of_as_many(server: RunningServer, ada: Visitor) -> None:
    order = a_number()
    licenses = [make(server, order_id=order)]
    answer = ada.post("/licenses/bulk", scope="all", order=str(order), what="delete")
    assert "Yes, delete 1 license" in said(answer)
    unsure = ada.post("/licenses/bulk/start", **hidden(answer))
    assert (unsure.status_code, "Check this box if you are sure." in said(unsure)) == (422, True)
    licenses.append(make(server, order_id=order))
    again = ada.post("/licenses/bulk/start", **hidden(answer), is_sure="yes")
    assert (again.status_code, "Yes, delete 2 licenses" in said(again)) == (422, True)
    assert "More licenses match now than a moment ago." in said(again)
    assert [found(server, one) for one in licenses] == licenses
    assert start(ada, again, is_sure="yes").done == 2
    assert not any(is_there(server, one) for one in licenses)


def test_a_name_that_changes_hands_changes_nobody_elses_licenses(server: RunningServer, bob: Visitor) -> None:
    meant, another, name = a_number(), a_number(), f"Studio {a_number()}"
    license, others = make(server, product_id=meant), make(server, product_id=another)
    decide(server, save_name(NameKind.PRODUCT, meant, name))
    answer = bob.post("/licenses/bulk", scope="all", product=name, what="disable")
    assert f"Product: {name} ({meant})" in said(answer)
    for number, new_name in ((meant, None), (another, name)):
        decide(server, save_name(NameKind.PRODUCT, number, new_name))
    assert start(bob, answer).done == 1
    assert found(server, license).status == Status.DISABLED
    assert found(server, others) == others


@pytest.mark.parametrize(
    ("what", "amount", "sentence"),
    [
        ("extend", "", "It must be a whole number from 1 to 2,147,483,647."),
        ("extend", "0", "It must be a whole number from 1 to 2,147,483,647."),
        ("raise_limit", "x", "It must be a whole number from 1 to 2,147,483,647."),
        ("set_limit", "-1", "It must be an integer from 0 to 2147483647."),
    ],
)
def test_an_impossible_amount_is_said_beside_its_field(
    server: RunningServer, bob: Visitor, what: str, amount: str, sentence: str
) -> None:
    license = make(server)
    answer = bob.post("/licenses/bulk", id=str(license.id), what=what)
    again = bob.post("/licenses/bulk/start", **hidden(answer), amount=amount)
    assert again.status_code == 422
    assert sentence in said(again)
    assert 'id="field-amount-error"' in again.text
    assert hidden(again) == hidden(answer)


def test_nothing_is_done_where_nothing_was_chosen(server: RunningServer, bob: Visitor) -> None:
    license = make(server)
    for fields, sentence in (
        ({"what": "delete", "status": "active"}, "First select the licenses"),
        ({"what": "", "id": str(license.id), "status": "active"}, "Choose what to do"),
        ({"what": "explode", "scope": "all", "status": "active"}, "Choose what to do"),
    ):
        path = where_to(bob.post("/licenses/bulk", **fields))
        assert path == "/licenses?status=active"
        assert sentence in said(bob.get(path))
    for fields in (
        {"what": "delete", "is_sure": "yes"},
        {"what": "explode", "scope": "all"},
        *({"what": "disable", "id": one} for one in ("x", "9223372036854775808", "9" * 5_000, "\u0663")),
        {"what": "disable", "scope": "all", "status": "gone"},
    ):
        assert bob.post("/licenses/bulk/start", **fields).status_code == 400
    assert found(server, license) == license


def test_what_was_searched_for_stays_sealed_on_the_way_to_the_job(
    server: RunningServer, bob: Visitor
) -> None:
    label = f"{CANARY} Anna {a_number()}"
    licenses = [make(server) for _ in range(2)]
    for license in licenses:
        activate(server, license, label=label)
    follow(server)
    path = list_of_devices(bob, label)
    sealed = path.partition("found=")[2]
    answer = bob.post("/licenses/bulk", scope="all", found=sealed, what="deactivate_all")
    assert f"Label begins with: {label.lower()}" in said(answer)
    assert start(bob, answer).done == 2
    assert CANARY not in server.log


def test_what_is_filtered_or_selected_is_exported(server: RunningServer, ada: Visitor) -> None:
    product = a_number()
    licenses = [make(server, product_id=product) for _ in range(3)]
    assert "Export CSV" in said(ada.get(f"/licenses?product={product}"))
    for fields, words, amount in (
        ({"scope": "all", "product": str(product)}, str(product), 3),
        ({"id": [str(one.id) for one in licenses[:2]]}, "2 selected licenses", 2),
    ):
        path = where_to(ada.post("/licenses/bulk", what="export", **fields))
        assert ended_job(server, int(path.removeprefix("/jobs/"))).total == amount
        assert words in said(ada.get(path))
        file = ada.post(f"{path}/file").text
        assert [one.key in file for one in licenses] == [number < amount for number in range(3)]
        assert len(file.splitlines()) == 1 + amount


def test_every_license_that_there_is_can_be_meant(ada: Visitor) -> None:
    answer = ada.post("/licenses/bulk", scope="all", what="delete", sort="oldest")
    assert "This applies to every license." in said(answer)


def test_without_scripts_what_to_do_with_all_matches_is_asked_on_a_page(
    server: RunningServer, bob: Visitor
) -> None:
    order = a_number()
    for _ in range(2):
        make(server, order_id=order)
    answer = bob.post("/licenses/bulk", scope="all", order=str(order))
    assert title(answer) == "All 2 licenses"
    assert '<button class="button" type="submit" name="what" value="extend">' in answer.text
    assert '<input type="hidden" name="scope" value="all">' in answer.text


def test_what_will_change_is_shown_before_it_does(server: RunningServer, bob: Visitor) -> None:
    end = asked()["context"].now + timedelta(days=400)
    one, other, endless = make(server, expires_at=end), make(server, expires_at=end), make(server)
    chosen = [str(license.id) for license in (one, other, endless)]
    fields = {"id": chosen, "what": "extend", "amount": "30"}
    shown = bob.post("/licenses/bulk/preview", **fields)
    assert "2 licenses will change." in said(shown)
    assert "1 unchanged: it has no expiry that could be extended." in said(shown)
    times = [unescape(one) for one in re.findall(r'datetime="([^"]+)"', shown.text)]
    assert times[:2] == [f"{at:%Y-%m-%dT%H:%M:%S}Z" for at in (end, end + timedelta(days=30))]
    # Nothing has changed, and the page shows the same without scripts.
    assert found(server, one) == one
    assert "2 licenses will change." in said(bob.post("/licenses/bulk", **fields))
    wrong = bob.post("/licenses/bulk/preview", **fields | {"amount": "x"})
    assert (wrong.status_code, said(wrong)) == (200, "")


def test_what_stays_expired_is_marked_before_it_is_extended(server: RunningServer, bob: Visitor) -> None:
    now = asked()["context"].now
    long_ago = [make(server, expires_at=now - timedelta(days=days)) for days in (400, 90)]
    lately = make(server, expires_at=now - timedelta(days=5))
    fields = {"id": [str(one.id) for one in (*long_ago, lately)], "what": "extend"}
    for amount, unit, marked in (("30", "days", 2), ("4", "months", 1), ("2", "years", 0)):
        shown = bob.post("/licenses/bulk/preview", **fields, amount=amount, unit=unit)
        assert "3 licenses will change." in said(shown)
        assert shown.text.count(">stays expired<") == marked, (amount, unit)
        assert ("2 stay expired." in said(shown)) == (marked == 2)
    # Extended from today on, none stays expired.
    begun = bob.post("/licenses/bulk/preview", **fields, amount="30", unit="days", begin="now")
    assert "stays expired" not in said(begun)


def test_enabling_is_shown_with_the_status_from_before(server: RunningServer, bob: Visitor) -> None:
    license = make(server, status=Status.DELIVERED)
    bob.post(f"/licenses/{license.id}/disable")
    answer = bob.post("/licenses/bulk", id=str(license.id), what="enable")
    assert "Status: disabled → , then delivered" in said(answer)
    start(bob, answer)
    assert found(server, license).status == Status.DELIVERED


def test_only_administrators_delete_many_or_export_all(server: RunningServer, bob: Visitor) -> None:
    license = make(server, order_id=a_number())
    page = bob.get(f"/licenses?order={license.order_id}").text
    assert 'value="disable"' in page
    assert 'value="delete"' not in page
    for fields in (
        {"scope": "all", "what": "export"},
        {"scope": "all", "what": "delete"},
        {"id": str(license.id), "what": "delete"},
    ):
        assert bob.post("/licenses/bulk", **fields).status_code == 403
    sure = {"id": str(license.id), "what": "delete", "is_sure": "yes"}
    assert bob.post("/licenses/bulk/start", **sure).status_code == 403
    assert found(server, license) == license
