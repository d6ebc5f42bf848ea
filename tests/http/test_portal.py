"""The customers' portal over HTTP: what a license key alone allows, and what needs a mail; the same response
for all addresses; links that are valid once.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from keywright.licensing.licenses.model import Status
from keywright.provisioning.brand import FooterLink, SaveBrand
from keywright.provisioning.licenses import CustomerReference, IssueLicenses
from keywright.provisioning.policies.model import CreatePolicy
from keywright.provisioning.portal.model import MakePortalLink
from keywright.provisioning.products import ProductFields, UpdateProduct
from tests.databases import KINDS
from tests.http.admin_browser import Visitor, asked, decide, make_users
from tests.portal import (
    PortalVisitor,
    mailed_link,
    make_customer,
    make_license,
    make_product,
    said,
)
from tests.server import MAIL_WAITS, RunningServer, running, wait_until
from tests.tables import each_row

DATABASES = ("sqlite",)

#: A key that no log may contain.
KEY = "PORTAL-CANARY-KEY-1"
TERMS = {"max_activations": 3, "portal_removals": {"count": 1, "per_days": 30}}


@pytest.fixture(scope="module")
def ada_id(server: RunningServer) -> int:
    return make_customer(server, "ada@portal.example", name="Ada Lovelace")


@pytest.fixture(scope="module")
def license_id(server: RunningServer, ada_id: int) -> int:
    product = make_product(server, "Darkroom")
    make_license(server, f"{KEY}-OTHER", ada_id)
    return make_license(server, KEY, ada_id, devices=("Desk", "Laptop"), terms=TERMS, product_id=product)


@pytest.fixture(scope="module")
def others_license(server: RunningServer) -> int:
    number = make_customer(server, "bob@portal.example")
    return make_license(server, f"{KEY}-BOB", number, devices=("Bob's",))


@pytest.fixture
def stranger(server: RunningServer) -> Iterator[PortalVisitor]:
    with PortalVisitor(server) as visitor:
        yield visitor


@pytest.fixture
def with_key(server: RunningServer, license_id: int) -> Iterator[PortalVisitor]:
    with PortalVisitor(server) as visitor:
        yield visitor.enter_key(KEY)


@pytest.fixture(scope="module")
def with_mail(server: RunningServer, ada_id: int, license_id: int) -> Iterator[PortalVisitor]:
    with PortalVisitor(server) as visitor:
        yield visitor.sign_in("ada@portal.example", ada_id)


def device_of(server: RunningServer, license_id: int) -> int:
    query = "SELECT MIN(id) FROM activations WHERE license_id = ? AND deactivated_at IS NULL"
    [(number,)] = server.sql(query, license_id)
    return int(number)


#: All rights: method and path, and whether a license key alone, a session and a stranger have it.
_LICENSE = "/licenses/{license}"
RIGHTS: dict[str, tuple[str, str, bool, bool]] = {
    "see the license of the key": ("GET", "/license", True, False),
    "a file for a device of the key": ("POST", "/license/devices/{device}/file", True, False),
    "see a license": ("GET", _LICENSE, False, True),
    "a file for a device": ("POST", _LICENSE + "/devices/{device}/file", False, True),
    "see a whole key": ("POST", _LICENSE + "/key", False, True),
    "ask for a new key": ("GET", _LICENSE + "/new-key", False, True),
    "see what removing a device means": ("GET", _LICENSE + "/devices/{device}/free", False, True),
    "see the downloads of the key": ("GET", "/license/downloads", True, False),
    "see the downloads": ("GET", _LICENSE + "/downloads", False, True),
    "make an update token": ("POST", _LICENSE + "/update-tokens", False, True),
    "end an update token": ("POST", _LICENSE + "/update-tokens/1/end", False, True),
    "add a license": ("GET", "/add", False, True),
    "hand a license on": ("GET", _LICENSE + "/hand-on", False, True),
    "end a lease": ("POST", _LICENSE + "/leases/" + "0" * 32 + "/end", False, True),
    "see the account": ("GET", "/account", False, True),
    "change the account": ("POST", "/account/save", False, True),
    "get the keys by mail": ("POST", "/account/mail-keys", False, True),
    "export the data": ("POST", "/account/export", False, True),
    "see what erasing means": ("GET", "/account/erase", False, True),
    "ask to be erased": ("POST", "/account/erase", False, True),
    "keep the data": ("POST", "/account/keep", False, True),
}


@pytest.mark.parametrize("who", ["stranger", "with_key", "with_mail"])
@each_row("right", RIGHTS)
def test_rights(
    request: pytest.FixtureRequest, server: RunningServer, license_id: int, who: str, right: str
) -> None:
    visitor: PortalVisitor = request.getfixturevalue(who)
    method, path, has_key, has_mail = RIGHTS[right]
    path = path.format(license=license_id, device=device_of(server, license_id))
    before = [server.count("events"), server.count("mail_outbox")]
    answer = visitor.get(path) if method == "GET" else visitor.post(path, name="Ada Lovelace")
    is_allowed = {"stranger": False, "with_key": has_key, "with_mail": has_mail}[who]
    is_refused = answer.headers.get("location", "") in ("/portal", "/portal/license")
    if path == "/license":
        is_refused = "Darkroom" not in answer.text
    assert is_refused is not is_allowed, (answer.status_code, said(answer))
    if not is_allowed:
        assert [server.count("events"), server.count("mail_outbox")] == before
    if who == "with_key":
        assert KEY not in answer.text
        assert "Ada Lovelace" not in answer.text


@pytest.mark.parametrize("text", ["", " \t", "A\x00B", "A\x07B", "K" * 256, "A\ud800B"])
def test_what_is_no_key_opens_nothing(stranger: PortalVisitor, text: str) -> None:
    answer = stranger.post("/license", key=text.encode(errors="surrogatepass"))
    assert (answer.status_code, "There is no license with this key." in said(answer)) == (403, True)


def test_a_key_is_found_in_any_case_with_or_without_dashes_and_spaces(
    license_id: int, stranger: PortalVisitor
) -> None:
    for text in (f"\u3000{KEY} \t", KEY.lower(), KEY.replace("-", ""), KEY.replace("-", " ")):
        assert "Darkroom" in said(stranger.enter_key(text).get("/license")), text
        stranger.post("/license/forget")


def test_a_forged_ticket_opens_nothing(license_id: int, stranger: PortalVisitor) -> None:
    stranger.get("")
    for ends in ("6a000000", "fffffffff", "ffffffffffff"):
        ticket = f"{license_id}.{ends}.{'0' * 64}"
        stranger.http.cookies.set("keywright-license", ticket, domain="127.0.0.1", path="/portal")
        answer = stranger.get("/license")
        assert (answer.status_code, "Darkroom" in answer.text) == (200, False), ends


def test_the_portal_and_the_page_show_until_when_a_freed_device_may_run(
    server: RunningServer, ada_id: int, bob: Visitor, stranger: PortalVisitor
) -> None:
    key = f"{KEY}-AWAY"
    number = make_license(server, key, ada_id, devices=("Old",))
    device = {"license_key": key, "fingerprint": "an old laptop", "name": "Away"}
    with httpx.Client(base_url=server.base_url, headers={"Accept": "application/jwt"}) as program:
        assert program.post("/v3/activate", json=device).status_code == 201
    stranger.enter_key(key)
    assert said(stranger.get("/license")).count("may run without internet until") == 1
    [(away,)] = server.sql("SELECT id FROM activations WHERE license_id = ? AND label = 'Away'", number)
    stranger.post(f"/license/devices/{away}/free")
    assert "Without internet, the program may still run there until" in said(stranger.get("/license"))
    stranger.post(f"/license/devices/{device_of(server, number)}/free")
    assert "may still run there" not in said(stranger.get("/license"))
    query = "SELECT details FROM events WHERE activation_id = ? AND name = 'license.deactivated'"
    [(details,)] = server.sql(query, away)
    assert '"offline_until":"20' in details
    assert "may run offline until" in said(bob.get(f"/licenses/{number}"))


def freed_by(server: RunningServer, license_id: int) -> str:
    """The actor who freed the only device."""
    query = "SELECT actor FROM events WHERE license_id = ? AND name = 'license.deactivated'"
    [(actor,)] = server.sql(query, license_id)
    return str(actor)


def test_with_the_key_alone_a_device_is_freed_as_often_as_the_terms_allow(
    server: RunningServer, ada_id: int, stranger: PortalVisitor
) -> None:
    key = f"{KEY}-FREE"
    number = make_license(server, key, ada_id, devices=("Old", "Older"), terms=TERMS)
    stranger.enter_key(key)
    page = said(stranger.get("/license"))
    assert "You can remove 1 device now." in page
    assert "Old macOS · activated" in page
    first = f"/license/devices/{device_of(server, number)}/free"
    assert 'href="/portal' + first in stranger.get("/license").text
    asked_first = stranger.get(first)
    assert "Remove “Old”?" in said(asked_first)
    assert 'href="/portal/license"' in asked_first.text
    assert stranger.post(first).status_code == 303
    page = said(stranger.get("/license"))
    assert "“Old” was removed." in page
    assert "You can remove the next one on" in page
    assert stranger.get(first).headers["location"] == "/portal/license"
    stranger.post(f"/license/devices/{device_of(server, number)}/free")
    assert "You can remove the next one in 30 days." in said(stranger.get("/license"))
    assert freed_by(server, number) == "portal"


@pytest.mark.databases(*KINDS)
def test_a_customer_frees_a_device_and_downloads_a_file(
    server: RunningServer, ada_id: int, with_mail: PortalVisitor
) -> None:
    key = f"{KEY}-MAIL"
    number = make_license(server, key, ada_id, devices=("Old", "Older"), terms=TERMS)
    file = with_mail.post(f"/licenses/{number}/devices/{device_of(server, number)}/file")
    assert file.content.startswith(b"-----BEGIN KEYWRIGHT LICENSE")
    assert with_mail.post(f"/licenses/{number}/devices/{device_of(server, number)}/free").status_code == 303
    assert freed_by(server, number) == f"customer:{ada_id}"


def test_a_customer_has_no_right_to_licenses_of_others(
    server: RunningServer, with_mail: PortalVisitor, with_key: PortalVisitor, others_license: int
) -> None:
    device = device_of(server, others_license)
    one = f"/licenses/{others_license}"
    answers = [
        with_mail.get(one),
        with_mail.get(f"/licenses/{2**63}"),
        with_mail.get(f"{one}/new-key"),
        *(with_mail.post(f"{one}/{path}") for path in ("key", "new-key", f"devices/{device}/free")),
        with_mail.post(f"{one}/devices/{device}/file"),
    ]
    assert {one.status_code for one in answers} == {404}
    assert with_key.post(f"/license/devices/{device}/free").status_code == 303
    assert "no longer there" in said(with_key.get("/license"))
    assert device_of(server, others_license) == device


@pytest.mark.databases(*KINDS)
def test_a_new_key_leaves_the_devices_and_ends_what_was_begun_with_the_old_one(
    server: RunningServer, ada_id: int, with_mail: PortalVisitor, stranger: PortalVisitor
) -> None:
    key = f"{KEY}-ROTATED"
    number = make_license(server, key, ada_id, devices=("Desk",), terms=TERMS)
    stranger.enter_key(key)
    answer = with_mail.post(f"/licenses/{number}/new-key")
    assert "Your new license key" in answer.text
    assert key not in answer.text
    assert "Desk" in said(with_mail.get(f"/licenses/{number}"))
    assert "Desk" not in said(stranger.get("/license"))
    assert stranger.post("/license", key=key).status_code == 403
    for _ in range(4):
        assert with_mail.post(f"/licenses/{number}/new-key").status_code == 200
    assert with_mail.post(f"/licenses/{number}/new-key").status_code == 429


def without_token(answer: httpx.Response, email: str) -> bytes:
    """The bytes of a page, except the browser's token and the typed address."""
    page = re.sub(rb'name="csrf_token" value="[0-9a-f]+"', b"", answer.content)
    return page.replace(email.encode(), b"")


@pytest.mark.parametrize(
    ("path", "fields"), [("/sign-in", {}), ("/sign-in/code", {"code": "00000000"}), ("/lost-keys", {})]
)
def test_every_address_gets_the_same_bytes(server: RunningServer, path: str, fields: dict[str, str]) -> None:
    known = f"known{len(path)}@portal.example"
    make_customer(server, known, name="Known")
    seen = []
    for email in (known, f"other{len(path)}@portal.example"):
        with PortalVisitor(server) as visitor:
            if path == "/sign-in/code":
                visitor.post("/sign-in", email=email)
            answer = visitor.post(path, email=email, **fields)
        headers = {
            # The IDs of the browser's sign-ins are random.
            name: re.sub(r"sign-in=[0-9.]+", "", value)
            for name, value in answer.headers.items()
            if name not in ("date", "content-length")
        }
        seen.append((answer.status_code, headers, without_token(answer, email)))
    assert seen[0] == seen[1]


@pytest.mark.databases(*KINDS)
def test_the_mail_proves_the_address(server: RunningServer, ada_id: int, with_mail: PortalVisitor) -> None:
    [(verified,)] = server.sql(f"SELECT email_verified_at FROM customers WHERE id = {ada_id}")  # noqa: S608
    assert verified is not None
    page = said(with_mail.get(""))
    assert ("Darkroom" in page, "2 of 3 devices in use" in page) == (True, True)


@pytest.mark.parametrize("kind", ["mail", "vendor"])
def test_what_opens_a_link_uses_nothing_up(
    server: RunningServer, ada_id: int, stranger: PortalVisitor, kind: str
) -> None:
    if kind == "mail":
        stranger.post("/sign-in", email="ada@portal.example")
        path = mailed_link(server, ada_id).removeprefix("/portal")
    else:
        decide(server, MakePortalLink(**asked(customer_id=ada_id, token="a-link-for-ada")))
        path = "/link/a-link-for-ada"
    tables = ("portal_sign_ins", "portal_links", "portal_sessions")
    before = [server.count(table) for table in tables]
    with PortalVisitor(server) as scanner:
        for _ in range(3):
            assert scanner.get(path).status_code == 200
            assert scanner.http.head(f"/portal{path}").status_code == 200
    assert [server.count(table) for table in tables] == before
    assert stranger.post(path).headers["location"] == "/portal"
    assert "Darkroom" in stranger.get("").text
    with PortalVisitor(server) as late:
        answer = late.post(path)
    assert (answer.status_code, "no longer valid" in answer.text) == (403, True)
    assert path.rpartition("/")[2] not in server.log


def test_the_vendors_server_asks_for_a_link(
    server: RunningServer, ada_id: int, stranger: PortalVisitor
) -> None:
    credentials = server.api_key()
    with httpx.Client(base_url=server.base_url, auth=credentials, verify=False) as vendor:  # noqa: S501
        made = vendor.post(f"/v3/customers/{ada_id}/portal-link")
        assert vendor.post("/v3/customers/999999/portal-link").status_code == 404
    assert made.status_code == 201, made.text
    answer = made.json()
    assert answer["url"].startswith(f"{server.base_url}/portal/link/")
    assert stranger.post(answer["url"].removeprefix(f"{server.base_url}/portal")).status_code == 303
    assert "Darkroom" in stranger.get("").text


@pytest.mark.parametrize(
    "host", ["licenses.example.com", "127.0.0.1.evil.example", "192.0.2.1:8000", "[", ""]
)
def test_a_link_begins_with_no_address_that_a_request_made_up(
    server: RunningServer, ada: Visitor, ada_id: int, host: str
) -> None:
    with httpx.Client(base_url=server.base_url, auth=server.api_key(), verify=False) as vendor:  # noqa: S501
        refused = vendor.post(f"/v3/customers/{ada_id}/portal-link", headers={"Host": host})
        assert (refused.status_code, "public_url" in refused.text) == (403, True)
        for name in ("localhost:1", "[::1]:1"):
            made = vendor.post(f"/v3/customers/{ada_id}/portal-link", headers={"Host": name})
            assert made.json()["url"].startswith(f"http://{name}/portal/link/")


def test_the_only_license_is_shown_whole(server: RunningServer, stranger: PortalVisitor) -> None:
    number = make_customer(server, "one@portal.example")
    names = tuple(f"Device {letter}" for letter in "ABCDEFG")
    make_license(server, f"{KEY}-ONLY", number, devices=names, terms={"max_activations": None})
    page = said(stranger.sign_in("one@portal.example", number).get(""))
    assert [name for name in (*names, "Show the key") if name not in page] == []


def test_a_license_that_ends_is_renewed_where_the_product_says(
    server: RunningServer, stranger: PortalVisitor
) -> None:
    number, product = make_customer(server, "renews@portal.example"), make_product(server, "Renewed")
    address = "https://shop.example/renew?ref={license_ref}&x=1"
    decide(server, UpdateProduct(**asked(id=product, fields=ProductFields(renew_url=address))))
    make_license(server, f"{KEY}-ENDS", number, terms={"valid_for_days": 9}, product_id=product)
    make_license(server, f"{KEY}-ENDLESS", number, product_id=product)
    page = stranger.sign_in("renews@portal.example", number).get("").text
    assert len(re.findall(r'href="https://shop.example/renew\?ref=kwr_[A-Za-z0-9_-]{32}&amp;x=1"', page)) == 1


@pytest.mark.parametrize("text", ["9" * 5_000, "-1", "x"])
def test_an_odd_place_in_the_list_is_its_beginning(with_mail: PortalVisitor, text: str) -> None:
    assert "Darkroom" in with_mail.get(f"?after={text}").text


def test_who_is_at_every_limit_keeps_the_owner_of_an_address_out_of_nothing(tmp_path: Path) -> None:
    email = "owner@portal.example"
    with running(tmp_path / "data", trusted_proxies="127.0.0.1", **MAIL_WAITS) as server:
        number = make_customer(server, email)
        with (
            PortalVisitor(server, **{"X-Forwarded-For": "198.51.100.1"}) as stranger,
            PortalVisitor(server, **{"X-Forwarded-For": "198.51.100.1"}) as owner,
            PortalVisitor(server, **{"X-Forwarded-For": "198.51.100.1"}) as other,
        ):
            owner.sign_in(email, number)
            owner.post("/sign-out")
            stranger.post("/sign-in", email=email)
            link = mailed_link(server, number).removeprefix("/portal")
            forged = f"sign-in/{stranger.http.cookies['keywright-sign-in']}/{'0' * 32}"
            fields = {"email": email, "code": "0", "csrf_token": stranger.form_token}
            for path in ("sign-in", "sign-in/code", "lost-keys", forged):
                while stranger.http.post(f"/portal/{path}", data=fields).status_code != 429:
                    pass
            # With any browser, and a link from a mail, whoever requested it.
            assert other.post(link).status_code == 303
            # And with a browser that the owner has used before; strangers cannot forge its cookie.
            owner.sign_in(email, number)
            mark = owner.http.cookies["keywright-customer"]
            for made_up in (mark[:-1] + "g", f"{number + 1}{mark[mark.index('.') :]}", "\u0661." + mark):
                stranger.http.cookies.set("keywright-customer", quote(made_up), path="/portal")
                assert stranger.post("/sign-in", email=email).status_code == 429, made_up


def test_without_a_mail_server_the_key_is_the_way_in_and_pages_say_why(tmp_path: Path) -> None:
    with running(tmp_path / "data", portal=True) as server:
        make_users(server)
        make_license(server, KEY, make_customer(server, "ada@portal.example"), devices=("Desk",))
        with PortalVisitor(server) as visitor, Visitor(server).sign_in("ada") as ada:
            page = visitor.get("").text
            assert "We cannot send e-mails" in page
            assert [one for one in ("/portal/lost-keys", 'type="email"') if one in page] == []
            [token, *_] = re.findall(r'csrf_token" value="(\w+)', page)
            fields = {"email": "ada@portal.example", "csrf_token": token}
            for path in ("sign-in", "lost-keys"):
                answer = visitor.http.post(f"/portal/{path}", data=fields)
                assert (answer.status_code, answer.headers["location"]) == (303, "/portal")
            assert server.count("mail_outbox") == 0
            assert visitor.http.post("/portal/license", data=fields | {"key": KEY}).status_code == 303
            pages = dict.fromkeys(
                ("/mails", "/mail-templates", "/mail-templates/your_license"), "No mail is sent."
            )
            for path, title in {**pages, "/portal": "No customer can sign in by e-mail."}.items():
                text = ada.get(path).text
                assert (title in text, "Mails have no links." in text) == (True, True), path


def test_a_form_of_another_site_is_refused(
    server: RunningServer, with_mail: PortalVisitor, stranger: PortalVisitor
) -> None:
    stranger.get("")
    own, foreign = with_mail.form_token, stranger.form_token
    ours = {"Origin": server.base_url, "Sec-Fetch-Site": "same-origin"}

    def send(token: str | None, headers: dict[str, str]) -> httpx.Response:
        fields = {"name": "Ada Lovelace"} | ({} if token is None else {"csrf_token": token})
        return with_mail.http.post("/portal/account/save", data=fields, headers=headers)

    assert send(own, ours).status_code == 303
    for token, headers in (
        *((one, ours) for one in (None, "", foreign)),
        *(
            (own, ours | one)
            for one in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"})
        ),
    ):
        answer = send(token, headers)
        assert (answer.status_code, "expired" in answer.text) == (403, True), (token, headers)


@pytest.mark.databases(*KINDS)
def test_export_has_what_is_stored(server: RunningServer, with_mail: PortalVisitor) -> None:
    answer = with_mail.post("/account/export")
    exported = json.loads(answer.content)
    assert exported["customer"]["email"] == "ada@portal.example"
    assert KEY in {one["license"]["key"] for one in exported["licenses"]}
    assert answer.headers["content-disposition"].startswith("attachment")


def test_an_export_of_very_many_licenses_is_left_to_the_vendor(
    server: RunningServer, stranger: PortalVisitor
) -> None:
    number = make_customer(server, "reseller@portal.example")
    [policy] = decide(
        server, CreatePolicy(**asked(name="Many", charset="0123456789ABCDEF", chunks=4, chunk_length=6))
    )
    for quantity in (1_000, 1):
        customer = CustomerReference(id=number)
        fields = asked(policy_id=policy.id, status=Status.ACTIVE, quantity=quantity, customer=customer)
        decide(server, IssueLicenses(**fields))
    stranger.sign_in("reseller@portal.example", number)
    for _ in range(2):
        assert stranger.post("/account/export").status_code == 303
    page = said(stranger.get("/account"))
    assert "There is too much data for a file here." in page
    assert "Please write to us" in page
    assert stranger.post("/account/export").status_code == 429


def test_a_customer_cannot_make_the_events_many(server: RunningServer, stranger: PortalVisitor) -> None:
    number = make_customer(server, "busy@portal.example")
    license = make_license(server, f"{KEY}-BUSY", number)
    token = stranger.sign_in("busy@portal.example", number).form_token
    before, statuses = server.count("events"), set[int]()
    for turn in range(40):
        form = {"csrf_token": token, "name": f"Name {turn}"}
        for path in ("account/save", f"licenses/{license}/key"):
            statuses.add(stranger.http.post(f"/portal/{path}", data=form).status_code)
    assert statuses == {303, 200, 429}
    assert server.count("events") - before == 60


def test_name_and_language_are_changed(server: RunningServer, with_mail: PortalVisitor) -> None:
    assert with_mail.post("/account/save", name="Ada King", language="de").status_code == 303
    page = with_mail.get("/account")
    assert ('<html lang="de">' in page.text, "Ada King" in page.text) == (True, True)
    rows = server.sql("SELECT name, language FROM customers WHERE email = 'ada@portal.example'")
    assert [tuple(row) for row in rows] == [("Ada King", "de")]
    assert with_mail.post("/account/save", name="x" * 201, language="de").status_code == 422
    with_mail.post("/account/save", name="Ada Lovelace", language="en")


def test_the_browsers_language_is_spoken_until_one_is_chosen(server: RunningServer) -> None:
    with PortalVisitor(server, **{"Accept-Language": "pt-PT,en;q=0.5"}) as visitor:
        assert '<html lang="pt-BR">' in visitor.get("").text
        answer = visitor.post("/language", language="fr", next="/license")
        assert answer.headers["location"] == "/portal/license"
        assert '<html lang="fr">' in visitor.get("/license").text
        for elsewhere in ("https://evil.example", "//evil.example", "/x?y=z"):
            answer = visitor.post("/language", language="fr", next=elsewhere)
            assert answer.headers["location"].startswith("/portal")


def test_the_brand_is_shown(server: RunningServer, stranger: PortalVisitor) -> None:
    png = b"\x89PNG\r\n\x1a\n" + b"0" * 20
    links = (FooterLink("Imprint", "https://example.com/imprint"),)
    decide(server, SaveBrand(**asked(name="Aperture <b>Works", color="#1f4fd8", links=links, logo=png)))
    try:
        wait_until(lambda: "Aperture" in stranger.get("").text, "the brand")
        page = stranger.get("").text
        assert "Aperture &lt;b&gt;Works" in page
        logo = stranger.http.get(re.findall(r'src="(/portal/logo[^"]*)"', page)[0])
        assert (logo.content, logo.headers["content-type"]) == (png, "image/png")
        style = stranger.http.get(re.findall(r'href="(/portal/brand[^"]*)"', page)[0])
        assert "#1f4fd8" in style.text
        for shown in (logo, style):
            other = stranger.http.get(f"{shown.url.path}?v=0123456789ab")
            kept = [one.headers["cache-control"] for one in (shown, other)]
            assert kept == ["public, max-age=31536000, immutable", "no-store"]
    finally:
        decide(server, SaveBrand(**asked(name=None, color=None, links=(), logo=None)))
    wait_until(lambda: "Aperture" not in stranger.get("").text, "no brand")
    assert stranger.http.get("/portal/logo").status_code == 404


def test_cookies_are_for_the_portal_alone(stranger: PortalVisitor) -> None:
    plain = stranger.get("").headers["set-cookie"]
    assert plain.startswith("keywright-portal=")
    assert {"HttpOnly", "Path=/portal", "SameSite=lax"} <= set(plain.split("; "))


@pytest.mark.parametrize(("path", "status"), [("/nothing", 404), ("/licenses/x", 404), ("/sign-out", 405)])
def test_other_addresses_are_pages_too(stranger: PortalVisitor, path: str, status: int) -> None:
    answer = stranger.get(path)
    assert (answer.status_code, "This page does not exist" in answer.text) == (status, True)


def test_an_administrator_gives_the_portal_its_brand(
    server: RunningServer, ada: Visitor, bob: Visitor
) -> None:
    assert ada.get("/portal").status_code == 200
    refused = ada.post("/portal/save", name="Works", color="red", links="Imprint")
    assert refused.status_code == 422
    assert "must be a color such as #24704b" in said(refused)
    assert "in each line" in said(refused)
    saved = ada.post(
        "/portal/save", name="Works", color="1F4FD8", links="Imprint https://example.com/imprint"
    )
    assert saved.status_code == 303
    assert 'value="#1f4fd8"' in ada.get("/portal").text
    assert bob.get("/portal").status_code == 403
    ada.post("/portal/save", name="", color="", links="")


@pytest.mark.databases(*KINDS)
def test_an_administrator_erases_a_customer_who_has_asked_for_it(
    server: RunningServer, ada: Visitor, bob: Visitor, stranger: PortalVisitor
) -> None:
    number = make_customer(server, "gone@portal.example", name="Gone Soon")
    license = make_license(server, f"{KEY}-GONE", number, devices=("Desk of Gone",))
    stranger.sign_in("gone@portal.example", number)
    for asked_for, is_asked in (("erase", True), ("keep", False), ("erase", True)):
        stranger.post(f"/account/{asked_for}")
        assert ("you asked us to erase your data" in said(stranger.get("/account"))) is is_asked
        assert ("This customer asked to be erased on" in ada.get(f"/customers/{number}").text) is is_asked
    assert "A customer asks to be erased." in said(ada.get("/overview"))
    assert "Gone Soon" in said(ada.get("/portal"))
    assert bob.get(f"/customers/{number}/erase").status_code == 403
    assert f"/customers/{number}/erase" not in bob.get(f"/customers/{number}").text
    assert f"/customers/{number}/erase" in ada.get(f"/customers/{number}").text
    assert "Erase the data of Gone Soon?" in said(ada.get(f"/customers/{number}/erase"))
    ada.post(f"/customers/{number}/erase")
    page = said(ada.get(f"/customers/{number}"))
    assert "All data that identified the customer was erased." in page
    assert "Gone Soon" not in page.partition("Timeline")[0]
    assert server.sql("SELECT label FROM activations WHERE license_id = ?", license) == [(None,)]
    # Other tests on the same server may also have made requests.
    assert "Gone Soon" not in said(ada.get("/portal"))


def test_support_gives_a_license_a_new_key(
    server: RunningServer, ada_id: int, bob: Visitor, carol: Visitor, stranger: PortalVisitor
) -> None:
    number = make_license(server, f"{KEY}-AGAIN", ada_id, devices=("Desk",), terms=TERMS)
    assert f"/licenses/{number}/new-key" in bob.get(f"/licenses/{number}").text
    assert carol.get(f"/licenses/{number}/new-key").status_code == 403
    asked_first = bob.get(f"/licenses/{number}/new-key")
    assert "The old key is refused from now on." in said(asked_first)
    once = re.findall(r'name="once" value="([^"]+)"', asked_first.text)
    bob.post(f"/licenses/{number}/new-key", once=once[0])
    assert "The license has a new key." in said(bob.get(f"/licenses/{number}"))
    assert stranger.post("/license", key=f"{KEY}-AGAIN").status_code == 403
    assert server.sql("SELECT times_activated FROM licenses WHERE id = ?", number) == [(1,)]


@pytest.mark.databases(*KINDS)
def test_support_makes_a_link_for_a_customer(
    server: RunningServer, bob: Visitor, carol: Visitor, ada_id: int, stranger: PortalVisitor
) -> None:
    [link] = re.findall(r"/portal/link/[\w-]+", bob.post(f"/customers/{ada_id}/portal-link").text)
    assert stranger.post(link.removeprefix("/portal")).status_code == 303
    assert "Ada Lovelace" in stranger.get("/account").text
    assert carol.post(f"/customers/{ada_id}/portal-link").status_code == 403
