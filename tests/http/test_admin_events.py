"""The page with events and its filters."""

import csv
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest

from keywright.core.command import Command, Context, Origin
from keywright.core.crypto import mask
from keywright.identity.model import RefuseSignIn
from keywright.licensing.activations.model import Activate
from keywright.licensing.licenses.model import CreateLicense, DeleteLicense, Status, UpdateLicense
from keywright.provisioning.products import NameKind, SaveName
from tests.databases import KINDS
from tests.http.admin_browser import Visitor, asked, decide, make_users, said
from tests.http.admin_licenses import a_number, activate, make
from tests.server import RunningServer, running
from tests.tables import each_row

DATABASES = ("sqlite",)

#: The events of this module's tests happened on these days.
DAY = datetime(2024, 2, 28, 23, 59, 59, tzinfo=UTC)
NEXT = DAY + timedelta(seconds=1)
#: Settings with which the clean-up does not purge them.
FOR_EVER: dict[str, Any] = {"keep_events_days": 0, "keep_addresses_days": 0}


@pytest.fixture(scope="module")
def server(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("events") / "data", database, **FOR_EVER) as server:
        decide(server, *_past())
        make_users(server)
        yield server


def _past() -> Iterator[Command]:
    """The events of two days in 2024, in order."""
    program, ada = Origin("program", "192.0.2.1", ""), Origin("user:1", "192.0.2.2", "")
    shop, root = Origin("api_key:77", "192.0.2.3", ""), Origin("cli:root", "local", "")
    key = "EVENTS-LICENSE-0001"
    yield SaveName(context=Context(DAY, ada, 1), kind=NameKind.PRODUCT, number=7, name="Lumen Studio")
    yield CreateLicense(context=Context(DAY, shop), key=key, status=Status.ACTIVE, product_id=7)
    yield Activate(context=Context(DAY, program), license=key)
    changes = {"status": Status.DISABLED, "product_id": None, "times_activated_max": 5}
    yield UpdateLicense(context=Context(NEXT, ada, 1), license=key, changes=changes)
    yield CreateLicense(context=Context(NEXT, root), key="EVENTS-LICENSE-0002", status=Status.SOLD)
    yield DeleteLicense(context=Context(NEXT, root), license="EVENTS-LICENSE-0002")


def named(kind: NameKind, number: int, name: str) -> SaveName:
    return SaveName(**asked(kind=kind, number=number, name=name))


def rows_of(visitor: Visitor, query: str = "") -> list[str]:
    """The rows of the table, as texts, without the time."""
    text = visitor.get(f"/events{query}").text
    return [_text(row) for row in re.findall(r"<tr>\s*(<td.*?)<td[^>]* when\b.*?</tr>", text, re.DOTALL)]


def _text(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html))).strip()


def test_the_newest_is_said_first_and_in_words(ada: Visitor) -> None:
    rows = rows_of(ada)
    assert "User ada signed in ada 127.0.0.1" in rows[0]
    changed = next(row for row in rows if "License changed" in row)
    assert "License changed license 1 Product: Lumen Studio (7) → , now none" in changed
    assert "Status: active → , now disabled" in changed
    assert "Limit: no limit → , now 5" in changed
    assert changed.endswith("ada 192.0.2.2")
    created = next(row for row in rows if "License created license 1" in row)
    assert created.endswith("API key 77 192.0.2.3")
    assert any("License …0002 deleted license 2 root at the terminal local" in row for row in rows)


@each_row(
    ("query", "expected"),
    [
        ("?what=license.activated", ["activated (1)"]),
        ("?what=license.&license=1", ["License changed", "activated (1)", "License created"]),
        ("?who=cli:", ["License …0002 deleted", "License created"]),
        ("?who=cli:root&what=license.created", ["License created"]),
        ("?who=api_key:77", ["License created"]),
        ("?who=user:1&day=2024-02-29", ["License changed"]),
        ("?day=2024-02-28", ["activated (1)", "License created", "Product 7 named"]),
        ("?day=9998-12-31", []),
        ("?what=no.such", []),
    ],
)
def test_what_is_asked_for_is_shown_and_nothing_else(carol: Visitor, query: str, expected: list[str]) -> None:
    rows = rows_of(carol, query)
    assert len(rows) == len(expected)
    assert all(words in row for words, row in zip(expected, rows, strict=True))


def test_what_can_be_asked_for_is_called_as_it_is_in_the_list(ada: Visitor) -> None:
    page = ada.get("/events").text
    offered = dict(re.findall(r'<option value="([a-z_]+[.][a-z_]+)"[^>]*>([^<]+)<', page))
    assert offered["license.activated"] == "Device activated"
    assert offered["name.saved"] == "Product or customer named"
    assert not [words for words in offered.values() if set(words) & set("{}:?")]


@each_row(
    "query",
    ["?license=x", "?license=-1", "?day=yesterday", "?day=9999-12-31", "?day=0001-01-01", "?before=x"],
)
def test_what_cannot_be_read_is_not_asked_for(carol: Visitor, query: str) -> None:
    assert len(rows_of(carol, query)) == min(50, len(rows_of(carol)))


def test_what_is_asked_for_stays_in_the_form(carol: Visitor) -> None:
    page = carol.get("/events?what=license.&who=cli:tests&license=3&day=2024-02-29").text
    assert '<option value="license." selected>' in page
    assert '<option value="cli:tests" selected>tests at the terminal</option>' in page
    assert 'value="3"' in page
    assert 'value="2024-02-29"' in page


def test_licenses_that_are_there_are_linked_and_others_are_not(carol: Visitor) -> None:
    assert 'href="/admin/licenses/1"' in carol.get("/events?license=1").text
    assert 'href="/admin/licenses/2"' not in carol.get("/events?license=2").text
    assert carol.get("/events?license=2").status_code == 200


def test_only_administrators_see_who_signs_in_and_from_where(ada: Visitor, carol: Visitor) -> None:
    with Visitor(ada.server) as stranger:
        stranger.post("/sign-in", name="nobody", password="a guess")
    assert re.search(r'href="/admin/users/\d+"', ada.get("/events?what=user.").text)
    for query in ("?what=user.", "?what=user.signed_in", "?what=user.sign_in_refused", "?who=visitor"):
        assert rows_of(carol, query) == []
        assert rows_of(ada, query) != []
    rows = rows_of(carol)
    assert not any("signed in" in row or "Sign-in refused" in row for row in rows)
    # Their actions are shown with their names, but without their addresses.
    changed = next(row for row in rows if "License changed" in row)
    assert changed.endswith("ada —")
    assert any(row.endswith("API key 77 192.0.2.3") for row in rows)
    assert any(row.endswith("ada 192.0.2.2") for row in rows_of(ada))
    page, whole = carol.get("/events").text, ada.get("/events").text
    for value in ("user.", "user.signed_in", "user.sign_in_refused", "visitor"):
        assert f'<option value="{value}">' not in page
        assert f'<option value="{value}">' in whole
    overview = said(carol.get("/overview"))
    assert "signed in" not in overview
    assert "License created" in overview
    assert "signed in" in said(ada.get("/overview"))
    history = said(carol.get("/licenses/1/history"))
    assert "Limit: no limit → , now 5" in history
    assert " ada " in history
    assert "192.0.2.2" not in history
    assert "192.0.2.1" in history
    assert "192.0.2.2" in said(ada.get("/licenses/1/history"))


def test_pages_are_as_full_without_what_is_not_shown(ada: Visitor, carol: Visitor) -> None:
    """Regardless of the number of sign-in attempts between two events."""
    decide(ada.server, *(named(NameKind.PRODUCT, 1, f"{one}") for one in range(60)))
    decide(ada.server, *(RefuseSignIn(**asked(name=f"guess {number}")) for number in range(300)))
    assert all("Sign-in refused" in row for row in rows_of(ada))
    first = carol.get("/events")
    assert all("Product 1 named" in row for row in rows_of(carol))
    assert len(rows_of(carol)) == 50
    older = re.search(r'href="/admin(/events\?[^"]*)" rel="next"', first.text)
    assert older is not None
    rows = rows_of(carol, unescape(older[1]).removeprefix("/events"))
    assert sum("Product 1 named" in row for row in rows) == 10


@pytest.mark.databases(*KINDS)
def test_events_of_a_customer_or_a_product_are_found_by_number_or_name(
    server: RunningServer, carol: Visitor
) -> None:
    customer, product = a_number(), a_number()
    larch = named(NameKind.CUSTOMER, customer, "Larch Street Clinic")
    decide(server, larch, named(NameKind.PRODUCT, product, "Lumen Server"))
    both = make(server, customer_id=customer, product_id=product, times_activated_max=2)
    one = make(server, product_id=product)
    activate(server, both, label="laptop-olga")
    told = f"Larch Street Clinic · Lumen Server · {mask(both.key)} · "
    name = f"Customer {customer} named Name: no name → , now Larch Street Clinic"
    of_customer = [f"{told}laptop-olga activated (1 of 2)", f"{told}License created", name]
    for query in (f"{customer}", "Larch+Street+Clinic", f"{customer}&period=today"):
        rows = rows_of(carol, f"?customer={query}")
        assert [row.partition(" a program")[0].partition(" tests")[0] for row in rows] == of_customer
    assert len(rows_of(carol, "?product=Lumen+Server")) == 3
    assert len(rows_of(carol, f"?product={product}&license={one.id}")) == 1
    assert rows_of(carol, f"?customer={customer}&period=yesterday") == []
    page = carol.get(f"/events?customer={customer}").text
    assert f'href="/admin/licenses/{both.id}"' in page
    for preset in ("today", "yesterday", "7d"):
        assert f'href="/admin/events?customer={customer}&amp;period={preset}"' in page
    unknown = carol.get("/events?customer=Nobody")
    assert unknown.status_code == 422
    assert "It is neither an ID nor a name." in said(unknown)


@pytest.mark.databases(*KINDS)
def test_what_is_filtered_can_be_had_as_a_file(server: RunningServer, carol: Visitor, ada: Visitor) -> None:
    customer = a_number()
    license = make(server, customer_id=customer)
    activate(server, license, label="=cmd|'/c calc'!A1")
    answer = carol.get(f"/events/export?customer={customer}&what=license.activated")
    assert "events-" in answer.headers["content-disposition"]
    (row,) = csv.DictReader(answer.content.decode("utf-8-sig").splitlines())
    assert row["name"] == "license.activated"
    assert row["license_id"] == str(license.id)
    assert row["customer_id"] == str(customer)
    assert row["device"].startswith("'=cmd")
    assert license.key not in answer.text
    everything = carol.get("/events/export").content.decode("utf-8-sig")
    assert len(list(csv.DictReader(everything.splitlines()))) > 4
    assert "user.signed_in" not in everything
    assert "user.signed_in" in ada.get("/events/export").text
