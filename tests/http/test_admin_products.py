"""The pages about products and customers."""

import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from pathlib import Path

import pytest

from keywright.core.crypto import mask
from keywright.identity.model import Permissions
from keywright.licensing.updates.model import Rollout
from keywright.provisioning.products import NameKind, NewFeature
from keywright.provisioning.releases.commands import AddFile, CreateRelease
from keywright.provisioning.releases.fields import NewFile, NewRelease
from keywright.search.statistics import SaveCounters
from tests.http.admin_browser import Visitor, asked, decide, make_users, said, title
from tests.http.admin_licenses import a_number, activate, last_event, make
from tests.http.conftest import assert_clean
from tests.makers import create_policy, create_product, save_name
from tests.portal import make_customer, make_product, publish_release
from tests.server import NO_LIMITS, RunningServer, running
from tests.tables import each_row

DATABASES = ("sqlite",)


@pytest.fixture(scope="module")
def server(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A separate server, because these tests check whole lists of products and customers."""
    with running(tmp_path_factory.mktemp("catalog") / "data", database, **NO_LIMITS) as server:
        yield server
    assert_clean(server)


def test_a_product_is_made_changed_and_deleted(bob: Visitor) -> None:
    fields = {
        "number": "31",
        "name": "  Alpine  ",
        "url": "https://example.com",
        "features": "pro = Pro\n\nexport",
        "external_id": "erp-31",
    }
    assert bob.post("/products/new", **fields).headers["location"] == "/admin/products/31"
    shown = said(bob.get("/products/31"))
    assert "The product Alpine was created." in shown
    assert "erp-31" in shown
    page = said(bob.get("/products"))
    assert "31 Alpine https://example.com alpine pro, export Edit Delete" in page
    form = bob.get("/products/31/edit")
    assert title(form) == "Edit Alpine"
    assert "pro = Pro\nexport" in form.text
    bob.post("/products/31/edit", name="Alpine Studio", code="studio", features="pro")
    assert "31 Alpine Studio studio pro Edit" in said(bob.get("/products"))
    assert last_event(bob, "product.updated") == (
        '{"product_id":31,"product":"Alpine Studio","name":["Alpine","Alpine Studio"],'
        '"code":["alpine","studio"],"url":["https://example.com",null],"features":"changed",'
        '"external_id":["erp-31",null]}'
    )
    assert "without licenses and policies" in said(bob.get("/products/31/delete"))
    bob.post("/products/31/delete")
    assert "The product Alpine Studio was deleted." in said(bob.get("/products"))
    assert bob.get("/products/31").status_code == 404


def test_a_customer_is_made_changed_and_deleted(bob: Visitor) -> None:
    fields = {"number": "3131", "name": "Ada", "email": "Third@example.com"}
    assert bob.post("/customers/new", **fields).headers["location"] == "/admin/customers/3131"
    assert "The customer was created." in said(bob.get("/customers/3131"))
    page = said(bob.get("/customers"))
    assert "3131 Ada Third@example.com" in page
    assert title(bob.get("/customers/3131/edit")) == "Edit customer 3131"
    bob.post(
        "/customers/3131/edit", name="", email="third@example.com", note="Pays late.", external_id="crm-3"
    )
    shown = said(bob.get("/customers/3131"))
    assert "Pays late." in shown
    assert "third@example.com (not verified) · crm-3" in shown
    assert "Customer 3131 changed: name, e-mail address, external ID, note and metadata by bob" in shown
    assert "3131 no name third@example.com" in said(bob.get("/customers"))
    assert (
        last_event(bob, "customer.updated")
        == '{"number":3131,"name":"changed","email":"changed","external_id":"changed","metadata":"changed"}'
    )
    assert "press Erase on the customer's page" in said(bob.get("/customers/3131/delete"))
    bob.post("/customers/3131/delete")
    assert "Customer 3131 was deleted." in said(bob.get("/customers"))
    assert bob.get("/customers/3131").status_code == 404


@each_row(
    ("path", "fields", "complaint"),
    [
        ("/products/new", {"number": str(2**63)}, "It must be an integer"),
        ("/products/new", {"name": ""}, "This field is required."),
        ("/products/new", {"code": "17"}, "It must not be a number"),
        ("/products/new", {"code": "Ü"}, "It must have 1 to 64 of a-z"),
        ("/products/new", {"url": "javascript:alert(1)"}, "It must be an address such as"),
        ("/products/new", {"features": "Not A Code"}, "It must have 1 to 64 of a-z"),
        ("/products/new", {"features": "a\na"}, "a appears twice"),
        ("/products/new", {"number": "5"}, "Another product already has this id."),
        ("/products/new", {"code": "five"}, "Another product already has this code."),
        ("/products/5/edit", {"code": "six"}, "still in use by licenses"),
        ("/customers/new", {"name": ""}, "A customer needs a name or an e-mail address."),
        ("/customers/new", {"email": "x"}, "It must be an e-mail address."),
        ("/customers/new", {"number": "6"}, "Another customer already has this id."),
        ("/customers/new", {"email": "SIX@example.com"}, "Another customer already has this email."),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(
    bob: Visitor, path: str, fields: dict[str, str], complaint: str
) -> None:
    if not bob.server.sql("SELECT id FROM products WHERE id = 5"):
        decide(bob.server, create_product(5, name="Five", code="five"))
        make_customer(bob.server, "six@example.com", id=6)
        make(bob.server, product_id=5, customer_id=6)
    before = bob.server.count("products"), bob.server.count("customers")
    answer = bob.post(path, **{"name": "x"} | fields)
    assert answer.status_code == 422
    assert complaint in said(answer)
    assert (bob.server.count("products"), bob.server.count("customers")) == before
    for used in ("/products/5/delete", "/customers/6/delete"):
        answer = bob.post(used)
        assert answer.status_code == 409
        assert "still in use by licenses" in said(answer)


@pytest.mark.smoke
def test_a_customer_has_a_page_with_licenses_devices_and_what_happened(bob: Visitor, carol: Visitor) -> None:
    customer, product = a_number(), a_number()
    make_customer(bob.server, "clinic@example.com", id=customer, name="Larch Street Clinic")
    decide(bob.server, create_product(product, name="Lumen Server"))
    licenses = [make(bob.server, customer_id=customer, product_id=product) for _ in range(12)]
    device = activate(bob.server, licenses[3], label="laptop-olga")
    other = activate(bob.server, make(bob.server), label="of another customer")
    page = carol.get(f"/customers/{customer}")
    text = said(page)
    assert title(page) == "Larch Street Clinic"
    assert "clinic@example.com" in text
    assert f"laptop-olga License {licenses[3].id}" in text
    assert f"Lumen Server · {mask(licenses[3].key)} · laptop-olga activated (1) by a program" in text
    assert "of another customer" not in text
    assert page.text.count("/admin/licenses/") >= 10
    assert "12 in total" in text
    for private in (licenses[3].key, device.token):
        assert private not in page.text
    assert "No events" in said(carol.get(f"/customers/{customer}?period=yesterday"))
    own = {"license": str(licenses[3].id), "token": device.token}
    assert carol.post(f"/customers/{customer}/free", **own).status_code == 403
    assert bob.post(f"/customers/{customer}/free", **own).headers["location"].endswith(str(customer))
    text = said(bob.get(f"/customers/{customer}"))
    assert "The device was freed. Undo" in text
    assert "No devices" in text
    bob.post(f"/customers/{customer}/free", license=str(licenses[3].id), token=other.token)
    assert "The device was freed" not in said(bob.get(f"/customers/{customer}"))
    assert bob.server.sql("SELECT deactivated_at FROM activations WHERE id = ?", other.id) == [(None,)]


def test_a_customer_who_is_only_a_number_has_a_page_too(carol: Visitor) -> None:
    customer = a_number()
    assert carol.get(f"/customers/{customer}").status_code == 404
    make(carol.server, customer_id=customer)
    page = carol.get(f"/customers/{customer}")
    assert title(page) == f"Customer {customer}"


def test_many_devices_of_a_customer_are_in_pages(bob: Visitor) -> None:
    customer = a_number()
    full, next_to_it = (make(bob.server, customer_id=customer, times_activated_max=None) for _ in range(2))
    names = [f"device-{number}" for number in range(25)]
    for number, name in enumerate(names):
        activate(bob.server, full if number < 22 else next_to_it, label=name)
    seen, path = list[str](), f"/customers/{customer}"
    for _ in range(3):
        page = bob.get(path)
        seen += re.findall(r"<b>(device-\d+)</b>", page.text)
        more = re.search(r'href="/admin(/customers/[^"#]*devices=[^"#]*)', page.text)
        if more is None:
            break
        path = unescape(more[1])
    assert sorted(seen) == sorted(names)
    assert bob.get(f"/customers/{customer}?devices=1-xyz").status_code == 200


def test_a_product_has_a_page_with_policies_api_keys_and_what_happened(ada: Visitor, carol: Visitor) -> None:
    product, server = a_number(), ada.server
    yearly = create_policy(name="Yearly", product_id=product)
    decide(server, create_product(product, name="Lumen Field Kit"), yearly)
    server.api_key(Permissions.CLIENT, product_id=product)
    soon = asked()["context"].now + timedelta(days=3)
    activate(server, make(server, product_id=product, expires_at=soon), label="desk-9")
    make(server, product_id=product, expires_at=soon + timedelta(days=300))
    for visitor in (ada, carol):
        page = said(visitor.get(f"/products/{product}"))
        assert "Yearly" in page
        assert "Licenses (2)" in page
        assert "Upcoming expiries 1 " in page
        assert "desk-9 activated (1) by a program" in page
        assert ("a test" in page) == (visitor is ada)
    assert f'href="/admin/licenses?product={product}"' in carol.get(f"/products/{product}").text
    assert carol.get(f"/products/{product}/edit").status_code == 403


def test_a_customer_links_to_the_shop(database: str, tmp_path: Path) -> None:
    link = "https://shop.example/customers/{id}?a=1"
    with running(tmp_path / "data", database, customer_link=link) as server, Visitor(server) as carol:
        make_users(server)
        make(server, customer_id=31)
        page = carol.sign_in("carol").get("/customers/31")
        assert 'href="https://shop.example/customers/31?a=1"' in page.text


def test_features_keep_their_descriptions(bob: Visitor) -> None:
    pro = NewFeature("pro", "Pro", "All of it.")
    decide(bob.server, create_product(32, name="Described", features=[pro]))
    bob.post("/products/32/edit", name="Described", features="pro = Professional")
    ((features,),) = bob.server.sql("SELECT features FROM products WHERE id = 32")
    assert features == '[{"code":"pro","name":"Professional","description":"All of it."}]'


@pytest.mark.smoke
def test_many_customers_are_in_pages_that_lead_on_and_back(bob: Visitor) -> None:
    server = bob.server
    # Customers of other tests come first.
    before = [number for (number,) in server.sql("SELECT id FROM customers WHERE id < 10000")]
    gone = [save_name(NameKind.CUSTOMER, number, None) for number in before]
    saved = [save_name(NameKind.CUSTOMER, number, f"customer {number}") for number in range(1000, 1120)]
    decide(server, *gone, *saved)
    second = bob.get("/customers?after=1049")
    assert "customer 1050" in said(second)
    assert "customer 1100" not in said(second)
    assert 'href="/admin/customers?after=1099" rel="next"' in second.text
    third = bob.get("/customers?after=1099")
    assert "customer 1119" in said(third)
    assert 'href="/admin/customers?after=1049" rel="prev"' in third.text
    for odd in ("x", "-5", str(2**64), ""):
        assert 'rel="prev"' not in bob.get(f"/customers?after={odd}").text


def test_behind_the_last_one_the_page_says_so_and_leads_back(bob: Visitor) -> None:
    page = bob.get(f"/products?after={2**62}")
    assert ("No more products" in said(page)) == bool(bob.server.count("products"))
    decide(bob.server, save_name(NameKind.PRODUCT, 1049, "The last"))
    page = bob.get(f"/products?after={2**62}")
    assert "No product has a larger ID." in said(page)
    assert 'href="/admin/products" rel="prev"' in page.text
    assert 'href="/admin/products/new"' in page.text


def test_readers_look_and_are_offered_no_changes(server: RunningServer, carol: Visitor) -> None:
    for area in (NameKind.PRODUCT, NameKind.CUSTOMER):
        decide(server, save_name(area, 55, "Fifty-five"))
        page = said(carol.get(f"/{area.value}s"))
        assert "55 Fifty-five" in page
        assert "Edit" not in page
        assert "New " not in page


def test_a_release_is_shown_explained_and_yanked(bob: Visitor, server: RunningServer) -> None:
    product = make_product(server, "Brush")
    number = publish_release(server, product, "3.2.1", notes="<b>New</b>")
    for counts in ({(number, "offers"): 3, (number, "downloads"): 2}, {(number, "checks"): 1234}):
        decide(server, SaveCounters(context=asked()["context"], releases=counts))
    of_product = bob.get(f"/products/{product}")
    assert "3.2.1 stable published" in said(of_product)
    assert f"{server.base_url}/u/UPDATE_TOKEN/" in of_product.text
    assert "/tauri/{{target}}/{{arch}}/{{current_version}}</code>" in of_product.text
    path = f"/products/releases/{number}"
    page = bob.get(path)
    assert "app-3.2.1.msi" in said(page)
    assert "<b>New</b>" not in page.text
    assert (
        "offered 3 times, downloaded 2 times; programs of this version checked for updates 1,234 times"
        in said(page)
    )
    assert "no unknown_license A license is specified." in said(page)
    license_id = make(server, product_id=product).id
    assert "no unknown_license" not in said(bob.get(f"{path}?license={license_id}"))
    assert "There is no such license." in said(bob.get(f"{path}?license=999999"))
    assert bob.get("/products/releases/99").status_code == 404
    assert "Yank release 3.2.1?" in said(bob.get(f"{path}/yank"))
    bob.post(f"{path}/yank")
    assert "The release 3.2.1 was yanked." in said(bob.get(path))
    assert "3.2.1 stable yanked" in said(bob.get(f"/products/{product}"))


def test_a_license_shows_why_it_is_offered_a_release_or_is_not(bob: Visitor, server: RunningServer) -> None:
    product = make_product(server, "Chisel")
    first, second = (
        publish_release(server, product, version, entitlements=codes)
        for version, codes in (("1.0", []), ("2.0", ["pro"]))
    )
    license_id = make(server, product_id=product).id
    newest = said(bob.get(f"/licenses/{license_id}"))
    assert "Why the license is or is not offered 2.0:" in newest
    assert "no entitlement_missing" in newest
    assert "yes newer_not_covered" in newest
    older = said(bob.get(f"/licenses/{license_id}?release={first}"))
    assert "Why the license is or is not offered 1.0:" in older
    assert "no entitlement_missing" not in older
    for chosen in ("x", "999999", str(second)):
        assert "offered 2.0" in said(bob.get(f"/licenses/{license_id}?release={chosen}&for=7"))
    assert "Why the license is" not in said(bob.get(f"/licenses/{make(server).id}"))


def test_a_release_is_published_and_its_rollout_raised_on_its_page(
    bob: Visitor, server: RunningServer
) -> None:
    product = make_product(server, "Plane")
    drafts, there = [], {"url": "https://example.com/a", "size": 7, "sha256": "0" * 64}
    for version, members in (("1.0", there), ("2.0", {})):
        fields = NewRelease(product_id=product, version=version, rollout=Rollout(10))
        drafts.append(decide(server, CreateRelease(**asked(fields=fields)))[0].id)
        file = NewFile(name="plane.msi", **members)  # type: ignore[arg-type]
        decide(server, AddFile(**asked(release_id=drafts[-1], fields=file)))
    path, other = (f"/products/releases/{one}" for one in drafts)

    def post(address: str, **form: str) -> str:
        bob.post(address, **form)
        return said(bob.get(address.rpartition("/")[0]))

    assert "Publish release 1.0?" in said(bob.get(f"{path}/publish"))
    assert "The release 1.0 was published." in post(f"{path}/publish")
    assert "The release is not ready: plane.msi was not uploaded." in post(f"{other}/publish")
    assert "1.0 stable 10 % published" in said(bob.get(f"/products/{product}"))
    wrong = "A rollout can only grow: type a number from 10 to 100."
    said_of = {one: post(f"{path}/rollout", percent=one) for one in ("101", "x", "", "9", "50", "100")}
    assert [one for one, text in said_of.items() if wrong in text] == ["101", "x", "", "9"]
    assert "The rollout is 50 %." in said_of["50"]
    assert "Rollout in percent" not in said_of["100"]
    assert "The rollout is 5 %." in post(f"{other}/rollout", percent="5"), "a draft's may shrink"
