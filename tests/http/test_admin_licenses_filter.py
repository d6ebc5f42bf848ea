"""The list's filters show their values, and "1" is followed by a singular."""

import re
from datetime import timedelta

import pytest

from keywright.licensing.licenses.model import Order, Status
from keywright.provisioning.licenses import IssueLicenses
from tests.databases import KINDS
from tests.http.admin_browser import Visitor, asked, decide, said
from tests.http.admin_licenses import a_key, a_number, make, where_to
from tests.server import RunningServer

DATABASES = ("sqlite",)


def choices(page: str, name: str) -> list[tuple[str, str]]:
    """The values and labels of a filter."""
    found = re.search(rf'<select[^>]* name="{name}".*?</select>', page, re.DOTALL)
    assert found is not None
    return re.findall(r'<option value="([^"]*)"[^>]*>([^<]*)<', found[0])


def chosen(page: str, name: str) -> list[str]:
    """The value that the form sends for this field."""
    found = re.search(rf'<select[^>]* name="{name}".*?</select>', page, re.DOTALL)
    return re.findall(r'<option value="([^"]*)" selected', found[0] if found else "")


def test_any_number_of_days_is_a_choice_and_stays_chosen(bob: Visitor) -> None:
    for days, words in (("0", "0 days"), ("1", "1 day"), ("1000", "1,000 days")):
        answer = bob.get(f"/licenses?expiring={days}")
        assert f"Expires within: {words} " in said(answer)
        assert (days, words) in choices(answer.text, "expiring")
        assert chosen(answer.text, "expiring") == [days]


def test_without_a_number_of_days_any_is_chosen_and_the_usual_ones_are_offered(bob: Visitor) -> None:
    page = bob.get("/licenses").text
    usual = [(f"{days}", f"{days} days") for days in (7, 30, 90, 365)]
    assert choices(page, "expiring") == [("", "Any"), ("expired", "Expired already"), *usual]
    assert chosen(page, "expiring") == chosen(page, "status") == [""]
    assert [value for value, _ in choices(page, "status")] == ["", *(one.name.lower() for one in Status)]


def test_what_is_asked_for_in_other_words_stays_chosen(bob: Visitor) -> None:
    for query, value in (("status=5", "disabled"), ("status=SOLD", "sold"), ("expiring=030", "30")):
        assert chosen(bob.get(f"/licenses?{query}").text, query.partition("=")[0]) == [value]


def test_one_license_is_one(server: RunningServer, bob: Visitor) -> None:
    product = a_number()
    license = make(server, product_id=product, valid_for_days=1)
    page = said(bob.get(f"/licenses?product={product}"))
    assert " 1 license " in page
    assert "1 day from the first activation" in said(bob.get(f"/licenses/{license.id}"))
    assert "it is then valid for 1 day." in said(bob.get(f"/licenses/{license.id}/extend"))
    make(server, product_id=product, expires_at=asked()["context"].now + timedelta(days=5))
    page = said(bob.get(f"/licenses?product={product}"))
    assert " 2 licenses " in page


@pytest.mark.databases(*KINDS)
def test_a_view_is_saved_under_a_name_and_is_the_users_own(
    server: RunningServer, bob: Visitor, carol: Visitor
) -> None:
    product = a_number()
    fields = {"product": str(product), "status": "sold"}
    answer = carol.post("/licenses/views", name="Sold <b>", **fields)
    assert where_to(answer) == f"/licenses?status=sold&product={product}"
    page = carol.get("/licenses").text
    assert f'href="/admin/licenses?status=sold&amp;product={product}"' in page
    assert "Sold <b>" in said(carol.get("/licenses"))
    assert "Sold <b>" not in page
    assert f"product={product}" not in bob.get("/licenses").text
    carol.post("/licenses/views", name="Sold <b>", product=str(product))
    assert f'href="/admin/licenses?product={product}"' in carol.get("/licenses").text
    carol.post("/licenses/views/delete", name="Sold <b>")
    assert f"product={product}" not in carol.get("/licenses").text


def test_a_user_has_at_most_twenty_views(server: RunningServer, carol: Visitor) -> None:
    for number in range(21):
        carol.post("/licenses/views", name=f"View {number}", places="full")
    assert "You can save at most 20 views. Delete one first." in said(carol.get("/licenses"))
    names = [name for (name,) in server.sql("SELECT name FROM saved_views")]
    assert len(names) == 20
    for name in names:
        carol.post("/licenses/views/delete", name=name)
    carol.post("/licenses/views", name=" ")
    assert "A view needs a name" in said(carol.get("/licenses"))


@pytest.mark.databases(*KINDS)
def test_a_list_is_sorted_by_customer_and_by_last_use(server: RunningServer, bob: Visitor) -> None:
    product = a_number()
    owners = {"Zeppelin Works": a_number(), "antler Press": a_number()}
    for name, number in owners.items():
        bob.post("/customers/new", number=str(number), name=name)
        make(server, product_id=product, customer_id=number)
    page = said(bob.get(f"/licenses?product={product}&sort=customer"))
    assert "Customer ↑" in page
    assert page.index("antler Press") < page.index("Zeppelin Works")
    page = said(bob.get(f"/licenses?product={product}&sort=unseen"))
    assert "Last seen ↑" in page
    assert page.index("Zeppelin Works") < page.index("antler Press")


def test_the_order_of_a_shop_is_shown_by_its_text(server: RunningServer, bob: Visitor) -> None:
    order = Order(source="stripe", id="cs_live_7")
    (issued,) = decide(server, IssueLicenses(**asked(status=Status.ACTIVE, key=a_key(), order=order)))
    license = issued.licenses[0].license
    page = bob.get("/licenses?order=cs_live_7")
    assert "cs_live_7</a>" in page.text
    assert "cs_live_7</a>" in bob.get(f"/licenses/{license.id}").text
