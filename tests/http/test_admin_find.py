"""The search in the top bar: grouped, and complete."""

import re
from html import unescape

import pytest

from keywright.core.command import Origin
from keywright.jobs import orders
from keywright.jobs.orders import Export
from keywright.licensing.licenses.model import License, UpdateLicense
from keywright.provisioning.customers import CreateCustomer, CustomerFields, NewCustomer, UpdateCustomer
from keywright.search.filters import Search
from tests.http.admin_browser import Visitor, asked, decide, make_users, said, title
from tests.http.admin_licenses import a_key, a_number, activate, follow, make, where_to
from tests.http.asking import CANARY
from tests.makers import create_policy, create_product
from tests.server import RunningServer

SCRIPT = {"X-Requested-With": "keywright"}


def found(bob: Visitor, text: str) -> dict[str, list[str]]:
    """The titles of what a text finds, by group, as offered by the field."""
    answer = bob.post("/find", text=text, headers=SCRIPT)
    assert answer.status_code == 200
    groups = {}
    for group in answer.text.split('role="group"')[1:]:
        label = re.search(r'role="presentation"[^>]*>([^<]*)<', group)
        assert label is not None
        groups[label[1]] = [unescape(one) for one in re.findall("<b>(.*?)</b>", group)]
    return groups


def a_customer(server: RunningServer, name: str | None, email: str | None = None) -> int:
    (customer,) = decide(server, CreateCustomer(**asked(fields=NewCustomer(name=name, email=email))))
    return int(customer.id)


def of_order(server: RunningServer, ref: str) -> License:
    """A license of an order with a text ID."""
    license = make(server)
    order = {"source": "shop", "id": ref, "line": f"line {license.id}"}
    decide(server, UpdateLicense(**asked(license=license.id, changes={}, order=order)))
    return license


@pytest.mark.smoke
def test_customers_are_found_by_words_and_parts_of_addresses(server: RunningServer, bob: Visitor) -> None:
    mark = f"q{a_number()}"
    a_customer(server, f"Larch Street Clinic {mark}", f"Olga.Ivanova@{mark}-clinic.example")
    a_customer(server, f"Élodie O'Neill {mark}")
    whole = f"olga.ivanova@{mark}-clinic.example"
    for text in ("larch", "CLIN", "street larch", "olga", "vanova", f"anova@{mark}", whole):
        assert f"Larch Street Clinic {mark}" in found(bob, f"{text} {mark}")["Customers"], text
    a_customer(server, f"Łukasz Ørsted {mark}")
    for text in ("lukasz", "ŁUKASZ", "orsted łuk"):
        assert found(bob, f"{text} {mark}") == {"Customers": [f"Łukasz Ørsted {mark}"]}, text
    for text in ("elodie", "o'neill", "ÉLODIE neill"):
        assert found(bob, f"{text} {mark}") == {"Customers": [f"Élodie O'Neill {mark}"]}, text
    for text in ("arch", "larch olga nobody", "eill", "anova.olga"):
        assert found(bob, f"{text} {mark}") == {}, text


def test_all_of_one_name_are_found_and_each_once(server: RunningServer, bob: Visitor) -> None:
    mark = f"w{a_number()}"
    ids = {a_customer(server, f"Jo {mark}", f"{mark}.{one}@{mark}.example") for one in range(57)}
    assert found(bob, mark)["Customers"] == [*[f"Jo {mark}"] * 5, "All customers that match"]
    answer = bob.post("/find", text=mark)
    assert title(answer) == "Search results"
    page, seen = answer.text, []
    further = re.compile(r'href="/admin(/find/customers[^"]+)"(?: rel="next")?>(?:All|Next)')
    while link := further.search(page):
        assert mark not in link[1]
        page = bob.get(unescape(link[1])).text
        seen += [int(one) for one in re.findall(r'class="find-hit" href="[^"]*?(\d+)"', page)]
    assert sorted(seen) == sorted(ids)


def test_a_change_of_a_customer_changes_what_finds_it(server: RunningServer, bob: Visitor) -> None:
    old, new = f"v{a_number()}", f"v{a_number()}"
    number = a_customer(server, old, f"{old}@example.com")
    decide(server, UpdateCustomer(**asked(id=number, fields=CustomerFields(name=f"Dr {new}", email=None))))
    assert found(bob, old) == {}
    assert found(bob, new) == found(bob, str(number)) == {"Customers": [f"Dr {new}"]}
    bob.post(f"/customers/{number}/delete")
    assert found(bob, new) == {}
    assert server.sql("SELECT count(*) FROM name_terms WHERE number = ?", number) == [(0,)]


@pytest.mark.smoke
def test_a_license_is_found_by_its_key_however_it_is_typed_and_by_its_end(
    server: RunningServer, bob: Visitor
) -> None:
    end = f"{a_number():05d}Z"
    license = make(server, key=f"{a_key()}-ABcd-{end}", customer_id=a_customer(server, "Holder of one"))
    key = license.key
    for text in (key, key.lower(), key.replace("-", ""), f"  {key}", end.lower(), f"…{end}", f"cd{end}"):
        answer = bob.post("/find", text=text)
        assert where_to(answer) == f"/licenses/{license.id}", text
    page = bob.post("/find", text=key, headers=SCRIPT).text
    assert key not in page
    assert "Holder of one" in page


def test_a_license_is_found_by_the_first_groups_of_its_key_and_by_its_number(
    server: RunningServer, bob: Visitor
) -> None:
    start = f"qf{a_number():06d}"
    license = make(server, key=f"{start}-7KDM-{CANARY}", customer_id=a_customer(server, "Owner of groups"))
    for text in (start, start.upper(), f"{start[:4]}-{start[4:]}-7k"):
        assert where_to(bob.post("/find", text=text)) == f"/licenses/{license.id}", text
    for text in (start[:7], f"{start}-8"):
        assert "Licenses" not in found(bob, text), text
    for text in (f"License {license.id}", f"license #{license.id}"):
        assert found(bob, text) == {"Licenses": ["Owner of groups"]}, text
    german = bob.post("/find", text=f"lizenz {license.id}", headers={"Accept-Language": "de"})
    assert where_to(german) == f"/licenses/{license.id}"


def test_policies_shops_and_users_are_found_by_those_who_may_open_them(
    server: RunningServer, ada: Visitor, bob: Visitor
) -> None:
    mark = f"y{a_number()}"
    (policy,) = decide(server, create_policy(name=f"Yearly {mark}"))
    assert ada.post("/connections/new", shop="generic", name=f"Store {mark}").status_code == 200
    make_users(server, f"zoe-{mark}")
    for_support = {"Policies": [f"Yearly {mark}"], "Shops": [f"Store {mark}"]}
    assert found(ada, mark) == for_support | {"Users": [f"zoe-{mark}"]}
    assert found(bob, mark) == for_support
    assert where_to(ada.post("/find", text=f"policy {policy.id}")) == f"/policies/{policy.id}/edit"


def test_orders_are_found_with_and_without_their_sign(server: RunningServer, bob: Visitor) -> None:
    number, ref = a_number(), f"Ab-{a_number()}"
    for one in (number, number):
        make(server, order_id=one)
    for _ in range(2):
        license = of_order(server, ref)
    alone = of_order(server, f"#{ref}-1")
    for text in (str(number), f"#{number}", f" # {number}"):
        assert f"Order {number}" in found(bob, text)["Orders"], text
    answer = bob.post("/find", text=f"#{number}", headers=SCRIPT)
    assert f'href="/admin/licenses?order={number}"' in answer.text
    path = where_to(bob.post("/find", text=f"#{ref}"))
    assert path == f"/licenses?order={ref}"
    assert f"/licenses/{license.id}" in bob.get(path).text
    assert f"/licenses/{alone.id}" not in bob.get(path).text
    assert where_to(bob.post("/find", text=f"{ref}-1")) == f"/licenses/{alone.id}"


@pytest.mark.smoke
def test_devices_are_found_by_token_fingerprint_address_and_label(
    server: RunningServer, bob: Visitor
) -> None:
    license = make(server, times_activated_max=None)
    label, address = f"Laptop of Kim {a_number()}", f"2001:db8:7::{a_number():x}"
    token = activate(server, license, label=label, origin=Origin("program", address, "")).token
    follow(server)
    for text in (token, token.upper(), token[:12], address, address.upper(), label, label[:-1].lower()):
        assert found(bob, text)["Devices"] == [label], text
    answer = bob.post("/find", text=address)
    assert where_to(answer) == f"/licenses/{license.id}"


def test_devices_of_one_address_are_all_found(server: RunningServer, bob: Visitor) -> None:
    license, address = make(server, times_activated_max=None), f"2001:db8:9::{a_number():x}"
    for one in range(7):
        activate(server, license, label=f"{address} {one}", origin=Origin("program", address, ""))
    follow(server)
    # Each label also begins with the address.
    assert len(found(bob, address)["Devices"]) == 6
    answer = bob.post("/find", text=address)
    more = re.search(r'href="/admin(/find/devices[^"]+)"', answer.text)
    assert more is not None
    shown = re.findall(r'class="find-hit"[^>]*><b>(.*?)</b>', bob.get(unescape(more[1])).text)
    assert shown == [f"{address} {one}" for one in range(7)]


def test_products_and_jobs_are_found(server: RunningServer, bob: Visitor) -> None:
    mark = f"u{a_number()}"
    decide(server, create_product(a_number(), name=f"Lumen Server {mark}", code=f"lumen-{mark}"))
    for text in (f"lumen {mark}", f"{mark} serv", f"lumen-{mark}"):
        assert found(bob, text) == {"Products": [f"Lumen Server {mark}"]}, text
    (job,) = decide(server, orders.start_command(Export(search=Search()), **asked()))
    assert "Export to a file" in found(bob, str(job.id))["Jobs"]
    assert "Export to a file" in found(bob, "EXPORT file")["Jobs"]


def test_what_is_typed_stands_in_no_address_and_no_log(server: RunningServer, bob: Visitor) -> None:
    text = f"{CANARY} <script>alert"
    answer = bob.post("/find", text=text)
    assert (answer.status_code, title(answer)) == (200, "Nothing found")
    assert "<script>alert" not in answer.text
    assert CANARY not in server.log
    assert bob.get("/find/customers?q=AAAA").status_code == 404
    assert bob.get("/find/nothing").status_code == 404
    assert "Find anything" in said(bob.get("/find"))
    assert title(bob.post("/find", text="  ")) == "Find"


def test_every_page_has_the_field_also_for_who_may_only_look(server: RunningServer, carol: Visitor) -> None:
    license = make(server)
    for path in ("/overview", "/account", f"/licenses/{license.id}", "/nowhere"):
        assert 'action="/admin/find"' in carol.get(path).text, path
    with Visitor(server) as stranger:
        assert 'action="/admin/find"' not in stranger.get("/sign-in").text
    assert where_to(carol.post("/find", text=license.key)) == f"/licenses/{license.id}"
