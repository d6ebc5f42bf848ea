"""Names for the numbers of a vendor's shop."""

from html import unescape

import pytest

from keywright.provisioning.catalog.commands import SaveName
from keywright.provisioning.catalog.model import NameKind
from tests.http.admin_browser import Visitor, asked, decide, make_users, said, title
from tests.server import RunningServer

KINDS = {"products": ("product", "/names"), "customers": ("customer", "/names/customers")}


def events_of(visitor: Visitor) -> list[str]:
    found = visitor.server.sql("SELECT details FROM events WHERE name = 'name.saved' ORDER BY id")
    return [str(details) for (details,) in found]


@pytest.mark.parametrize("slug", KINDS)
def test_a_number_gets_a_name_another_and_none(bob: Visitor, slug: str) -> None:
    one, path = KINDS[slug]
    assert (
        bob.post(f"/names/{slug}/new", number="31", name="  Alpine  ").headers["location"] == f"/admin{path}"
    )
    page = said(bob.get(path))
    assert f"The {one} 31 is now called Alpine." in page
    assert "31 Alpine Rename Remove" in page
    assert title(bob.get(f"/names/{slug}/31")) == f"Rename {one} 31"
    bob.post(f"/names/{slug}/31", name="Alpine Studio")
    assert "31 Alpine Studio" in said(bob.get(path))
    assert "shown by its number" in said(bob.get(f"/names/{slug}/31/remove"))
    bob.post(f"/names/{slug}/31/remove")
    page = said(bob.get(path))
    assert f"The {one} 31 has no name now." in page
    assert "Alpine Studio" not in page
    kind = {"products": "product", "customers": "customer"}[slug]
    assert events_of(bob)[-3:] == [
        f'{{"kind":"{kind}","number":31,"name":{change}}}'
        for change in ('[null,"Alpine"]', '["Alpine","Alpine Studio"]', '["Alpine Studio",null]')
    ]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"number": "", "name": "x"}, "This field is required."),
        ({"number": "-1", "name": "x"}, "It must be an integer"),
        ({"number": str(2**63), "name": "x"}, "It must be an integer"),
        ({"number": "1", "name": ""}, "This field is required."),
        ({"number": "1", "name": "x" * 201}, "It must be a text of at most 200 characters"),
        ({"number": "1", "name": "a\tb"}, "It must have 1 to 200 characters"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(bob: Visitor, fields: dict[str, str], complaint: str) -> None:
    before = bob.server.count("catalog_names")
    answer = bob.post("/names/products/new", **fields)
    assert answer.status_code == 422
    assert complaint in said(answer)
    assert bob.server.count("catalog_names") == before


@pytest.mark.parametrize(
    "path",
    ["/names/products/77", "/names/products/77/remove", f"/names/products/{2**63}", "/names/others/new"],
)
def test_there_is_no_page_for_what_has_no_name(bob: Visitor, path: str) -> None:
    assert bob.get(path).status_code == 404


def test_many_names_are_in_pages_that_lead_on_and_back(bob: Visitor) -> None:
    server = bob.server
    others = server.sql("SELECT number FROM catalog_names WHERE kind = 'customer'")
    gone = [SaveName(**asked(kind=NameKind.CUSTOMER, number=number, name=None)) for (number,) in others]
    saved = [
        SaveName(**asked(kind=NameKind.CUSTOMER, number=number, name=f"customer {number}"))
        for number in range(1000, 1120)
    ]
    decide(server, *gone, *saved)
    first = bob.get("/names/customers")
    assert "customer 1049" in said(first)
    assert "customer 1050" not in said(first)
    second = bob.get("/names/customers?after=1049")
    assert "customer 1050" in said(second)
    assert 'href="/admin/names/customers" rel="prev"' in second.text
    third = bob.get("/names/customers?after=1099")
    assert "customer 1119" in said(third)
    assert 'href="/admin/names/customers?after=1049" rel="prev"' in third.text
    assert 'rel="next"' not in third.text
    for odd in ("x", "-5", str(2**64), ""):
        assert "customer 1049" in said(bob.get(f"/names/customers?after={odd}"))


def test_behind_the_last_name_the_page_says_so_and_leads_back(bob: Visitor) -> None:
    numbers = bob.server.sql("SELECT number FROM catalog_names WHERE kind = 'product'")
    gone = [SaveName(**asked(kind=NameKind.PRODUCT, number=number, name=None)) for (number,) in numbers]
    decide(bob.server, *gone)
    page = bob.get("/names?after=1049")
    assert "No product names yet" in said(page)
    assert 'rel="prev"' not in page.text
    decide(bob.server, SaveName(**asked(kind=NameKind.PRODUCT, number=1049, name="The last")))
    page = bob.get("/names?after=1049")
    assert "No product with a larger number has a name." in said(page)
    assert "No product names yet" not in said(page)
    assert 'href="/admin/names" rel="prev"' in page.text
    assert 'href="/admin/names/products/new"' in page.text


def test_readers_look_and_change_nothing(server: RunningServer) -> None:
    make_users(server)
    decide(server, SaveName(**asked(kind=NameKind.PRODUCT, number=5, name="Five")))
    with Visitor(server) as carol:
        carol.sign_in("carol")
        page = said(carol.get("/names"))
        assert "5 Five" in page
        assert "Rename" not in page
        assert "Name a product" not in page
        for path in ("/names/products/new", "/names/products/5", "/names/products/5/remove"):
            assert carol.post(path, number="5", name="Six").status_code == 403
    assert server.sql("SELECT name FROM catalog_names WHERE kind = 'product' AND number = 5") == [("Five",)]


def test_a_name_is_shown_as_the_text_that_it_is(bob: Visitor) -> None:
    name = "</td><script>alert(1)</script>\"'{{7*7}}"
    bob.post("/names/products/new", number="666", name=name)
    for path in ("/names", "/names/products/666", "/names/products/666/remove", "/events"):
        answer = bob.get(path)
        assert "<script>alert" not in answer.text
        assert name in unescape(answer.text)
