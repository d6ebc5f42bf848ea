"""In the portal, customers claim licenses with their keys, transfer and accept them, and end leases."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from keywright.identity.passwords import derive_code
from keywright.licensing.leases.model import TakeLease
from keywright.provisioning.portal.model import MakePortalLink
from keywright.signing import store
from keywright.signing.jws import read_signed
from tests.http.admin_browser import asked, decide, look_up
from tests.http.test_offline import request_of, send
from tests.portal import PortalVisitor, make_customer, make_license, make_product, said
from tests.server import RunningServer

TRANSFERABLE = {"transferable": "always", "transfer_after_days": 0}


@pytest.fixture(scope="module")
def people(server: RunningServer) -> Iterator[dict[str, PortalVisitor]]:
    """Ann, Ben and Eve, signed in with the codes of their mails."""
    with ExitStack() as stack:
        found = {}
        for name in ("ann", "ben", "eve"):
            visitor = stack.enter_context(PortalVisitor(server))
            email = f"{name}@owning.example"
            found[name] = visitor.sign_in(email, make_customer(server, email))
        yield found


def id_of(server: RunningServer, name: str) -> int:
    [(number,)] = server.sql("SELECT id FROM customers WHERE email = ?", f"{name}@owning.example")
    return int(number)


def offered(server: RunningServer, number: int) -> int:
    """The newest transfer of a license."""
    [(found,)] = server.sql("SELECT MAX(id) FROM license_transfers WHERE license_id = ?", number)
    return int(found)


def key_of(visitor: PortalVisitor, number: int) -> str:
    page = visitor.post(f"/licenses/{number}/key").text
    return page.partition('class="whole-key"')[2].partition("</")[0].rpartition(">")[2]


def test_a_key_is_added_and_only_once(server: RunningServer, people: dict[str, PortalVisitor]) -> None:
    ann, eve = people["ann"], people["eve"]
    number = make_license(server, "OWNING-BOX-1", terms={"claimable": True})
    make_license(server, "OWNING-BOX-2", id_of(server, "ben"), terms={"claimable": True})
    make_license(server, "OWNING-BOX-3")
    assert "Add a license key" in said(ann.get(""))
    refused = [ann.post("/add", key=key) for key in ("OWNING-NONE", "OWNING-BOX-2", "OWNING-BOX-3", "")]
    assert {one.status_code for one in refused} == {403}
    assert len({said(one) for one in refused}) == 1
    assert "No license can be added with this key." in said(refused[0])
    added = ann.post("/add", key=" owning box1 ")
    assert added.headers["location"] == f"/portal/licenses/{number}"
    assert "The license is yours now." in said(ann.get(f"/licenses/{number}"))
    assert eve.post("/add", key="OWNING-BOX-1").status_code == 403
    ann.post(f"/licenses/{number}/new-key")
    assert "You can get a new key for it, or" in said(ann.get(f"/licenses/{number}"))


def test_a_key_makes_somebody_a_customer_whose_address_a_code_has_proved(server: RunningServer) -> None:
    number = make_license(server, "OWNING-GIFT-1", terms={"claimable": True})
    make_license(server, "OWNING-SHUT-1")
    email = "gift@owning.example"
    with PortalVisitor(server) as visitor:
        assert 'href="/portal/claim"' in visitor.get("").text
        assert visitor.post("/sign-in", email="nobody", key="OWNING-GIFT-1").status_code == 422
        pages = [
            visitor.post("/sign-in", email=email, key=key).text.replace(f'value="{key}"', "")
            for key in ("OWNING-GIFT-1", "OWNING-SHUT-1", "OWNING-NONE")
        ]
        assert pages == [pages[0]] * 3
        asked = visitor.http.cookies["keywright-sign-in"].split(".")
        code = look_up(server, lambda tx: derive_code(tx.key_ring, asked[0]))
        wrong = visitor.post("/sign-in/code", email=email, key="OWNING-GIFT-1", code="0000 0000")
        assert "This code is wrong" in said(wrong)
        refused = visitor.post("/sign-in/code", email=email, key="OWNING-SHUT-1", code=code)
        assert (refused.status_code, "No license can be added with this key." in said(refused)) == (403, True)
        assert not server.sql("SELECT id FROM customers WHERE email = ?", email)
        entered = visitor.post("/sign-in/code", email=email, key="owninggift1", code=code)
        assert entered.headers["location"] == f"/portal/licenses/{number}"
        page = said(visitor.get(f"/licenses/{number}"))
        assert "The license is yours now." in page
    rows = server.sql("SELECT id, email_verified_at FROM customers WHERE email = ?", email)
    assert [(one, proved is not None) for one, proved in rows] == [(id_of(server, "gift"), True)]


def test_a_license_is_offered_and_accepted(server: RunningServer, people: dict[str, PortalVisitor]) -> None:
    ann, ben, eve = people["ann"], people["ben"], people["eve"]
    product = make_product(server, "Owning Desk")
    old = "OWNING-HANDED-1"
    owner = id_of(server, "ann")
    terms = TRANSFERABLE | {"max_activations": 3}
    number = make_license(server, old, owner, devices=("Ann's",), terms=terms, product_id=product)
    here = f"/licenses/{number}"
    assert "Do you no longer need this license?" in said(ann.get(here))
    for email in ("no address", "Ann@owning.example"):
        assert ann.post(f"{here}/hand-on", email=email).status_code == 422
    ann.post(f"{here}/hand-on", email="eve@owning.example")
    transfer = offered(server, number)
    assert "You have offered this license to eve@owning.example" in said(ann.get(here))
    eve.post(f"/offers/{number}/{transfer}/decline")
    assert "You have declined the offer." in said(eve.get(""))
    ann.post(f"{here}/hand-on", email="BEN@owning.example")
    transfer = offered(server, number)
    assert eve.get(f"/offers/{number}/{transfer}").headers["location"] == "/portal"
    assert "ann@owning.example offers you a license for Owning Desk." in said(ben.get(""))
    offer = ben.get(f"/offers/{number}/{transfer}")
    assert "If they get a refund, it ends for you, too" in said(offer)
    assert "OWNING" not in offer.text
    for visitor in (eve, ann):
        visitor.post(f"/offers/{number}/{transfer}/accept")
        assert "This offer has ended." in said(visitor.get(""))
    accepted = ben.post(f"/offers/{number}/{transfer}/accept")
    assert accepted.headers["location"] == f"/portal{here}"
    assert "The license is yours now. It has a new key." in said(ben.get(here))
    assert "0 of 3 devices in use" in said(ben.get(here))
    assert ann.get(here).status_code == 404


def test_a_customer_who_came_with_a_link_proves_the_address_first(
    server: RunningServer, people: dict[str, PortalVisitor]
) -> None:
    number = make_license(server, "OWNING-LINKED", id_of(server, "eve"), terms=TRANSFERABLE)
    people["eve"].post(f"/licenses/{number}/hand-on", email="new@owning.example")
    transfer, new = offered(server, number), id_of(server, "new")
    with PortalVisitor(server) as visitor:
        decide(server, MakePortalLink(**asked(customer_id=new, token="a-link-for-new")))
        visitor.post("/link/a-link-for-new")
        page = said(visitor.get(f"/offers/{number}/{transfer}"))
        assert "To accept, sign out, then sign in with a code from an e-mail" in page
        visitor.post(f"/offers/{number}/{transfer}/accept")
    with PortalVisitor(server) as visitor:
        visitor.sign_in("new@owning.example", new)
        visitor.post(f"/offers/{number}/{transfer}/accept")
        assert visitor.get(f"/licenses/{number}").status_code == 200


def test_a_lease_is_seen_and_ended_as_often_as_devices_may_be_freed(
    server: RunningServer, people: dict[str, PortalVisitor]
) -> None:
    ann = people["ann"]
    removals = {"count": 1, "per_days": 30}
    terms = {"max_leases": 2, "portal_removals": removals, "lease_seconds": 600}
    number = make_license(server, "OWNING-FLOATING", id_of(server, "ann"), terms=terms)
    taken = [TakeLease(**asked(license="OWNING-FLOATING", holder=name)) for name in ("studio-1", "studio-2")]
    ids = [one.leased.lease.lease_id for one in decide(server, *taken)]
    page = said(ann.get(f"/licenses/{number}"))
    assert "In use now" in page
    assert "studio-1" in page
    assert people["eve"].post(f"/licenses/{number}/leases/{ids[0]}/end").status_code == 404
    assert ann.post(f"/licenses/{number}/leases/%00/end").status_code == 404
    ann.post(f"/licenses/{number}/leases/{ids[0]}/end")
    assert "Somebody else can take the place now." in said(ann.get(f"/licenses/{number}"))
    ann.post(f"/licenses/{number}/leases/{ids[1]}/end")
    page = said(ann.get(f"/licenses/{number}"))
    assert "You cannot remove more devices for now." in page
    assert "studio-1" not in page


# --- what an old owner can still do ---------------------------------------------------------------


def test_an_old_owner_can_do_nothing_any_more(
    server: RunningServer, people: dict[str, PortalVisitor]
) -> None:
    ann, ben = people["ann"], people["ben"]
    terms = TRANSFERABLE | {"max_activations": 3, "max_leases": 2, "meters": {"pages": METER}}
    number = make_license(server, OLD, id_of(server, "ann"), devices=("Ann's",), terms=terms)
    with ExitStack() as stack:
        program = stack.enter_context(httpx.Client(base_url=server.base_url, timeout=60, verify=False))  # noqa: S501
        with_key = stack.enter_context(PortalVisitor(server)).enter_key(OLD)
        lease = program.post("/v3/leases", json=CALL | {"holder": "ann"}).json()["lease"]["id"]
        signed = {"Accept": "application/jwt"}
        kept = program.post("/v3/validate", json=CALL | {"lease_id": lease}, headers=signed).text
        decide(server, MakePortalLink(**asked(customer_id=id_of(server, "ann"), token="a-link-for-ann")))
        [(token, device)] = server.sql("SELECT token, id FROM activations WHERE license_id = ?", number)
        hand_over(server, ann, ben, number)
        before = everything_of(server, number)
        answers = try_programs(program, lease, token)
        answers["offline"] = send(server, request_of(OLD, fingerprint=CALL["fingerprint"])).status_code
        answers["key, typed now"] = with_key.post("/license", key=OLD).status_code
        answers["key, typed before"] = "Ann's" in said(with_key.get("/license"))
        answers |= try_portal(server, ann, number, f"devices/{device}", f"leases/{lease}")
    expected: dict[str, Any] = {one: "key_rotated" for one in answers if one.startswith("v3 ")}
    expected |= {one: 404 for one in answers if one.startswith(("v2 ", "portal "))}
    expected |= {"export": False, "add": 403, "accept": 303, "cancel": 404}
    expected |= {"offline": 409, "key, typed now": 403, "key, typed before": False}
    assert {one: answer for one, answer in answers.items() if answer != expected[one]} == {}
    assert everything_of(server, number) == before
    # A cached answer is valid until it expires.
    claims = read_claims(server, kept)
    assert (claims["valid"], claims["exp"] > claims["iat"]) == (True, True)
    assert key_of(ben, number) != OLD


OLD = "OWNING-OLD-OWNER"
CALL = {"license_key": OLD, "fingerprint": "fingerprint of Ann's"}
METER = {"limit": 9, "per": "license", "overage": "refuse"}


def try_programs(program: httpx.Client, lease: str, token: str) -> dict[str, Any]:
    """Call with the old key; return the code over v3 and the status over v2."""
    v3 = {
        "activate": {},
        "activate another": {"fingerprint": "another-device"},
        "deactivate": {},
        "leases": {"holder": "ann"},
        "leases/renew": {"lease_id": lease},
        "leases/release": {"lease_id": lease},
        "usage": {"meter": "pages"},
        "license-file": {},
    }
    answers: dict[str, Any] = {}
    for name, more in v3.items():
        answer = program.post(f"/v3/{name.partition(' ')[0]}", json=CALL | more)
        answers[f"v3 {name}"] = answer.json().get("code")
    validated = program.post("/v3/validate", json=CALL | {"lease_id": lease}).json()
    answers["v3 validate"] = "valid" if validated["valid"] else validated["code"]
    for path in (f"activate/{OLD}", f"validate/{OLD}", f"deactivate/{OLD}?token={token}"):
        answers[f"v2 {path}"] = program.get(f"/wp-json/lmfwc/v2/licenses/{path}").status_code
    return answers


def try_portal(
    server: RunningServer, ann: PortalVisitor, number: int, device: str, lease: str
) -> dict[str, Any]:
    """Call the portal as the old owner, with the existing and a new session."""
    here, transfer = f"/licenses/{number}", offered(server, number)
    actions = ("key", "new-key", "hand-on", f"{device}/free", f"{device}/file", f"{lease}/end")
    answers: dict[str, Any] = {
        f"portal {one}": ann.post(f"{here}/{one}", email="eve@owning.example").status_code for one in actions
    }
    answers["portal see"] = ann.get(here).status_code
    with PortalVisitor(server) as linked:
        linked.post("/link/a-link-for-ann")
        answers["portal link"] = linked.get(here).status_code
    answers["export"] = f'"id": {number},' in ann.post("/account/export").text
    answers["add"] = ann.post("/add", key=OLD).status_code
    answers["cancel"] = ann.post(f"{here}/offers/{transfer}/cancel").status_code
    answers["accept"] = ann.post(f"/offers/{number}/{transfer}/accept").status_code
    return answers


def hand_over(server: RunningServer, owner: PortalVisitor, other: PortalVisitor, number: int) -> None:
    owner.post(f"/licenses/{number}/hand-on", email="ben@owning.example")
    other.post(f"/offers/{number}/{offered(server, number)}/accept")
    assert other.get(f"/licenses/{number}").status_code == 200


def everything_of(server: RunningServer, number: int) -> list[Any]:
    """The license's rows in the main tables."""
    found = [server.sql(f"SELECT * FROM licenses WHERE id = {number}")]  # noqa: S608
    for table in ("activations", "leases", "meter_usage", "rotated_keys", "license_transfers"):
        found.append(server.sql(f"SELECT * FROM {table} WHERE license_id = {number}"))  # noqa: S608
    return found


def read_claims(server: RunningServer, token: str) -> dict[str, Any]:
    newest = look_up(server, store.list_keys)[0]
    claims: dict[str, Any] = json.loads(read_signed(token.encode(), newest.public_key))
    return claims
