"""Sign-in with the company's accounts (OpenID Connect): who may sign in, and forged responses."""

import json
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey

from keywright.core.errors import UnknownUser
from keywright.db import run_write
from keywright.db.stored_settings import list_stored
from keywright.identity.model import ChangeUser, StartSession
from keywright.identity.oidc import Client, NotBelieved
from tests.http.admin_browser import PASSWORD, Visitor, asked, decide, look_up, make_users, opened, said
from tests.http.conftest import assert_clean
from tests.provider import CLIENT, SECRET, Provider, other_key, providing, sign, unsigned
from tests.server import MAIL_WAITS, NO_LIMITS, RunningServer, running

DATABASES = ("sqlite",)

CALLBACK = "/sign-in/company/callback"
FAILED = "Signing in with your company account failed."
_networks = count(1)


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with providing() as provider:
        yield provider


@pytest.fixture(scope="module")
def server(
    provider: Provider, database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    roles = {"administrators": "admins", "support": "helpers, desk", "readers": "staff"}
    client = {"issuer": provider.issuer, "client_id": CLIENT, "client_secret": SECRET}
    settings: dict[str, Any] = {f"oidc_{name}": value for name, value in (roles | client).items()}
    settings |= {"trusted_proxies": "127.0.0.1", "require_second_factor": "all", **NO_LIMITS, **MAIL_WAITS}
    with running(tmp_path_factory.mktemp("company") / "data", database, **settings) as server:
        make_users(server, "ada")
        yield server
    assert_clean(server)
    assert SECRET not in server.log


@pytest.fixture(autouse=True)
def honest(provider: Provider) -> None:
    """Begin each test with an honest provider, whose account is Eva, a support user."""
    eva = {"sub": "eva-1", "email": "eva@example.com", "email_verified": True}
    provider.claims = eva | {"groups": ["all", "desk"]}
    provider.information, provider.forge, provider.documents = {}, None, {}


def a_visitor(server: RunningServer) -> Visitor:
    """A browser with its own address, because failed sign-ins are counted per address."""
    return Visitor(server, **{"X-Forwarded-For": f"100.{next(_networks)}.0.1"})


def begin(visitor: Visitor, path: str = "/sign-in/company") -> str:
    """The address of the provider that the browser is redirected to."""
    answer = visitor.get(path)
    assert answer.status_code == 303, said(answer)
    return answer.headers["location"]


def come_back(visitor: Visitor, query: dict[str, Any] | str) -> httpx.Response:
    return visitor.get(f"{CALLBACK}?{query if isinstance(query, str) else urlencode(query)}")


def sign_in(server: RunningServer, provider: Provider, **claims: Any) -> Visitor:
    provider.claims |= claims
    visitor = a_visitor(server)
    answer = come_back(visitor, provider.authorize(begin(visitor)))
    assert answer.status_code == 303, said(answer)
    return visitor


def users(server: RunningServer) -> dict[str, tuple[str, str | None]]:
    rows = server.sql("SELECT name, role, subject FROM users")
    return {name: (role, subject) for name, role, subject in rows}


def change(server: RunningServer, statement: str) -> None:
    """Change the database directly while the server runs."""
    with opened(server) as storage:
        run_write(storage, lambda tx: tx.connection.exec_driver_sql(statement))


def details(server: RunningServer, name: str) -> dict[str, Any]:
    """The details of the newest event with this name."""
    rows = server.sql("SELECT details FROM events WHERE name = ? ORDER BY id DESC LIMIT 1", name)
    found: dict[str, Any] = json.loads(rows[0][0]) if rows else {}
    return found


def test_an_account_signs_in_with_the_role_of_its_group_and_events_name_its_subject(
    server: RunningServer, provider: Provider
) -> None:
    with sign_in(server, provider) as eva:
        page = said(eva.get("/account"))
        assert ("eva@example.com" in page, "support" in page) == (True, True)
        linked = {"issuer": provider.issuer, "subject": "eva-1", "by_subject": "eva-1"}
        assert details(server, "user.signed_in").items() >= linked.items()
        eva.post("/customers/new", name="Larch Ltd")
        assert details(server, "customer.created")["by_subject"] == "eva-1"
        assert eva.get("/users").status_code == 403
    with sign_in(server, provider, groups="admins") as eva:
        assert eva.get("/users").status_code == 200
    assert users(server)["eva@example.com"] == ("administrator", "eva-1")


# --- every forged answer -------------------------------------------------------------------------


def claim(**changes: Any) -> Any:
    """A token with these claims; None omits a claim."""

    def forge(_: Provider, _header: dict[str, Any], claims: dict[str, Any]) -> None:
        claims.update(changes)
        for name in [name for name, value in claims.items() if value is None]:
            del claims[name]

    return forge


def header(**changes: Any) -> Any:
    return lambda _provider, header, _claims: header.update(changes)


def with_public_key_as_password(provider: Provider, header: dict[str, Any], claims: dict[str, Any]) -> str:
    assert isinstance(provider.key, RSAKey)
    pem = provider.key.as_pem(private=False)
    return sign(header | {"alg": "HS256"}, claims, OctKey.import_key(pem))


def with_key_of_header(provider: Provider, header: dict[str, Any], claims: dict[str, Any]) -> str:
    mine = RSAKey.generate_key(2048, {"kid": "mine"})
    header |= {"jwk": mine.as_dict(private=False), "jku": f"{provider.issuer}/mine", "kid": "mine"}
    provider.documents["/mine"] = (200, json.dumps({"keys": [mine.as_dict(private=False)]}).encode(), {})
    return sign(header | {"x5u": f"{provider.issuer}/mine"}, claims, mine)


def altered(provider: Provider, header: dict[str, Any], claims: dict[str, Any]) -> str:
    head, _, signature = sign(header, claims, provider.key).split(".")
    return f"{head}.{unsigned({}, claims | {'groups': 'admins'}).split('.')[1]}.{signature}"


NOW = int(time.time())
FORGED_TOKENS: dict[str, Any] = {
    "other issuer": claim(iss="https://login.example.org"),
    "issuer with a slash more": lambda p, _h, claims: claims.update(iss=f"{p.issuer}/"),
    "other audience": claim(aud="another"),
    "no audience": claim(aud=None),
    "audiences without azp": claim(aud=[CLIENT, "another"]),
    "azp of another": claim(azp="another"),
    "audiences with the azp of another": claim(aud=[CLIENT, "another"], azp="another"),
    "other nonce": claim(nonce="another"),
    "no nonce": claim(nonce=None),
    "expired": claim(exp=NOW - 3600),
    "no expiry": claim(exp=None),
    "expiry that is no number": claim(exp="2100-01-01"),
    "expiry NaN": claim(exp=float("nan")),
    "of the future": claim(iat=NOW + 3600, exp=NOW + 7200),
    "not valid yet": claim(nbf=NOW + 3600),
    "old": claim(iat=NOW - 7200),
    "no subject": claim(sub=None),
    "empty subject": claim(sub=""),
    "subject that is a number": claim(sub=7),
    "subject of 300 characters": claim(sub="x" * 300),
    "subject with a line feed": claim(sub="eva-1\nada"),
    "mail not verified": claim(email_verified=False),
    "mail not verified, as text": claim(email_verified="false"),
    "alg none": lambda _p, h, claims: unsigned(h | {"alg": "none"}, claims),
    "alg None": lambda _p, h, claims: unsigned(h | {"alg": "NoNe"}, claims),
    "HS256 with the public key": with_public_key_as_password,
    "HS256 with the client secret": lambda _p, h, claims: sign(
        h | {"alg": "HS256"}, claims, OctKey.import_key(SECRET)
    ),
    "other key, same kid": lambda _p, h, claims: sign(h, claims, RSAKey.generate_key(2048)),
    "key of another kind": lambda _p, h, claims: sign(h | {"alg": "ES256"}, claims, other_key()),
    "unknown kid": header(kid="unknown"),
    "key in the header, jku, x5u": with_key_of_header,
    "crit that nobody knows": lambda p, h, claims: unsigned(h | {"crit": ["exp"], "exp": 1}, claims, b"x"),
    "altered payload": altered,
    "no signature": lambda p, h, claims: sign(h, claims, p.key).rpartition(".")[0] + ".",
    "two parts": lambda p, h, claims: sign(h, claims, p.key).rpartition(".")[0],
    "type of an access token": header(typ="at+jwt"),
    "type of a logout": header(typ="logout+jwt"),
    "no token": lambda *_: "",
    "oversized token": claim(groups=["desk"] * 100_000),
    "claims that are a list": lambda p, h, _claims: sign(h, [], p.key),  # type: ignore[arg-type]
}

Query = dict[str, Any]
#: Forged callbacks: what the browser sends instead of the provider's parameters.
FORGED_WAYS: dict[str, Callable[[Query], Query | str]] = {
    "other state": lambda query: query | {"state": "x" * 43},
    "no state": lambda query: {name: value for name, value in query.items() if name != "state"},
    "state twice": lambda query: f"{urlencode(query)}&state={query['state']}",
    "code twice": lambda query: f"{urlencode(query)}&code=another",
    "other code": lambda query: query | {"code": "another"},
    "no code": lambda query: {name: value for name, value in query.items() if name != "code"},
    "issuer of another (mix-up)": lambda query: query | {"iss": "https://login.example.org"},
    "no issuer where one is promised": lambda query: {k: v for k, v in query.items() if k != "iss"},
    "an error with a code": lambda query: query | {"error": "access_denied"},
    "state with letters of the world": lambda query: query | {"state": "ä\u2028"},
}


def test_no_forged_answer_is_believed(server: RunningServer, provider: Provider) -> None:
    make_users(server, "ada", "bob")
    believed, tried = [], 0
    before = len(server.sql("SELECT token_hash FROM sessions")), users(server)

    def tried_by(visitor: Visitor, name: str, query: Query | str) -> None:
        nonlocal tried
        tried += 1
        answer = come_back(visitor, query)
        is_refused = (answer.status_code, FAILED in said(answer)) == (403, True)
        is_sent_back = answer.headers.get("location") == "/admin/sign-in"
        if not (is_refused or is_sent_back) or visitor.is_signed_in():
            believed.append((name, answer.status_code, said(answer)[:200]))

    for name, forge in FORGED_TOKENS.items():
        provider.forge = forge
        with a_visitor(server) as visitor:
            tried_by(visitor, name, provider.authorize(begin(visitor)))
    provider.forge = None
    for name, alter in FORGED_WAYS.items():
        with a_visitor(server) as visitor:
            tried_by(visitor, name, alter(provider.authorize(begin(visitor))))
    with a_visitor(server) as eva, a_visitor(server) as mallory:
        query = provider.authorize(begin(eva))
        begin(mallory)
        tried_by(mallory, "code and state of another browser", query)
        own = provider.authorize(begin(mallory))
        tried_by(mallory, "code of another browser", query | {"state": own["state"]})
        with a_visitor(server) as nobody:
            tried_by(nobody, "a browser that has begun nothing", query)
    with a_visitor(server) as altered_cookie:
        query = provider.authorize(begin(altered_cookie))
        cookie = altered_cookie.http.cookies["keywright-company"]
        altered_cookie.http.cookies.clear()
        altered_cookie.http.cookies["keywright-company"] = cookie[:-4] + "AAAA"
        tried_by(altered_cookie, "altered cookie", query)
    for path, document in (
        ("/token", (200, b"[]", {})),
        ("/token", (200, b'{"id_token": 7}', {})),
        ("/token", (200, b"x" * 600_000, {})),
        ("/token", (302, b"", {"location": f"{provider.issuer}/elsewhere"})),
        ("/token", (200, b"{" * 100_000, {})),
        ("/userinfo", (200, b'{"sub": "another", "groups": ["admins"]}', {})),
    ):
        provider.documents, provider.claims["groups"] = {path: document}, []
        with a_visitor(server) as visitor:
            tried_by(visitor, f"{path} {document[1][:20]!r}", provider.authorize(begin(visitor)))
    assert believed == []
    assert tried >= 25
    assert (len(server.sql("SELECT token_hash FROM sessions")), users(server)) == before
    assert {"/elsewhere", "/mine"} & set(provider.asked) == set()
    # A control: the same provider, browser and claims are accepted if nothing is forged.
    provider.documents, provider.claims["groups"] = {}, ["desk"]
    sign_in(server, provider).http.close()


def test_an_answer_is_used_once(server: RunningServer, provider: Provider) -> None:
    with a_visitor(server) as visitor:
        query = provider.authorize(begin(visitor))
        cookie = visitor.http.cookies["keywright-company"]
        assert come_back(visitor, query).status_code == 303
        # The browser returns, and is signed in.
        assert come_back(visitor, query).headers["location"] == "/admin/"
        visitor.post("/sign-out")
        assert come_back(visitor, query).headers["location"] == "/admin/sign-in"
        visitor.http.cookies["keywright-company"] = cookie
        assert FAILED in said(come_back(visitor, query))
        assert not visitor.is_signed_in()


def test_a_provider_that_is_not_what_it_should_be_is_not_used(provider: Provider) -> None:
    good, path = provider.configuration(), "/.well-known/openid-configuration"
    altered = {
        "other issuer": good | {"issuer": "https://login.example.org"},
        "token endpoint without TLS": good | {"token_endpoint": "http://login.example.org/token"},
        "a header": good | {"authorization_endpoint": f"{provider.issuer}/a?b\r\nset-cookie: c"},
        "keys of a file": good | {"jwks_uri": "file:///etc/passwd"},
        "no token endpoint": {"issuer": provider.issuer},
        "oversized": good | {"x": "x" * 600_000},
    }
    wrong = {name: (200, json.dumps(document).encode()) for name, document in altered.items()}
    wrong |= {"no JSON": (200, b"<html>"), "an error": (500, b"{}"), "moved": (302, b"")}
    believed = []
    for name, (status, body) in wrong.items():
        provider.documents = {path: (status, body, {"location": f"{provider.issuer}/elsewhere"})}
        try:
            believed.append((name, Client().discover(provider.issuer)))
        except NotBelieved:
            continue
    assert believed == []
    assert "/elsewhere" not in provider.asked
    provider.documents = {}
    assert Client().discover(provider.issuer).issuer == provider.issuer
    with pytest.raises(NotBelieved, match="cannot be reached"):
        Client().discover("https://127.0.0.1:9")


# --- what sign-ins do ----------------------------------------------------------------------------


def test_keys_are_rotated(server: RunningServer, provider: Provider) -> None:
    sign_in(server, provider).http.close()
    for key in (RSAKey.generate_key(2048, {"kid": "second"}), ECKey.generate_key("P-256", {"kid": "third"})):
        provider.key, provider.keys = key, [*provider.keys[-1:], key]
        sign_in(server, provider).http.close()


def test_who_loses_the_group_loses_the_session_and_the_role_follows_the_group(
    server: RunningServer, provider: Provider
) -> None:
    with sign_in(server, provider, sub="kim", email="kim@example.com", groups=["staff"]) as kim:
        query = "SELECT ends_at - created_at FROM sessions ORDER BY created_at DESC, ends_at LIMIT 1"
        assert server.sql(query) == [(3600,)]
        assert users(server)["kim@example.com"][0] == "reader"
        # An hour later, the page redirects to the provider, and back to itself.
        change(server, "UPDATE sessions SET ends_at = created_at WHERE user_id = (SELECT max(id) FROM users)")
        moved = kim.get("/licenses?status=sold")
        assert urlsplit(moved.headers["location"]).path == "/admin/sign-in/company"
        way = begin(kim, moved.headers["location"].removeprefix("/admin"))
        back = come_back(kim, provider.authorize(way))
        assert back.headers["location"] == "/admin/licenses?status=sold"
        sign_in(server, provider, groups=["helpers"]).http.close()
        assert users(server)["kim@example.com"][0] == "support"
        provider.claims["groups"] = ["all"]
        with a_visitor(server) as other:
            answer = come_back(other, provider.authorize(begin(other)))
            assert (answer.status_code, "has no access" in said(answer)) == (403, True)
        assert not kim.is_signed_in()
        assert details(server, "user.sign_in_refused")["reason"] == "no role"


def test_a_password_is_worth_nothing_where_an_account_is_linked_until_an_administrator_sets_a_new_one(
    server: RunningServer, provider: Provider
) -> None:
    make_users(server, "ada", "dora")
    [(dora,)] = server.sql("SELECT id FROM users WHERE name = 'dora'")
    decide(server, ChangeUser(**asked(user_id=dora, email="Dora@example.com")))
    change(server, "UPDATE users SET email = 'dora@example.com' WHERE name = 'ada'")
    with Visitor(server, **{"X-Forwarded-For": "100.250.0.1"}) as before:
        before.sign_in("dora")
        with sign_in(server, provider, sub="dora-9", email="dora@example.com", groups=["helpers"]) as after:
            assert users(server)["dora"] == ("support", "dora-9")
            assert users(server)["ada"] == ("administrator", None)
            assert before.get("/account").status_code == 303
            assert after.is_signed_in()
        refused = before.post("/sign-in", name="dora", password=PASSWORD)
        assert "The name or the password is wrong." in said(refused)
    start = StartSession(**asked(user_id=dora, token_hash=b"x" * 32))
    with pytest.raises(UnknownUser):
        decide(server, start)
    decide(server, ChangeUser(**asked(user_id=dora, password_hash="new")))
    assert users(server)["dora"] == ("support", None)


def test_an_unverified_address_neither_links_nor_names_and_a_taken_name_gets_the_subject(
    server: RunningServer, provider: Provider
) -> None:
    make_users(server, "bob")
    change(server, "UPDATE users SET email = 'bob@example.com' WHERE name = 'bob'")
    del provider.claims["email_verified"]
    claims = {"sub": "mallory", "email": "bob@example.com", "preferred_username": "bob"}
    sign_in(server, provider, **claims).http.close()
    assert users(server)["bob"] == ("support", None)
    assert users(server)["bob (mallory)"] == ("support", "mallory")
    assert server.sql("SELECT email FROM users WHERE subject = 'mallory'") == [(None,)]


def test_the_last_administrator_with_a_password_stays(server: RunningServer, provider: Provider) -> None:
    make_users(server, "ada")
    with sign_in(server, provider, sub="root", groups=["admins"], email="root@example.com") as root:
        [(ada,)] = server.sql("SELECT id FROM users WHERE name = 'ada'")
        refused = root.post(f"/users/{ada}/disable")
        assert refused.status_code == 409
        assert "password" in said(refused)
        [(own,)] = server.sql("SELECT id FROM users WHERE subject = 'root'")
        root.post(f"/users/{own}/disable")
        assert not root.is_signed_in()
    with a_visitor(server) as visitor:
        answer = come_back(visitor, provider.authorize(begin(visitor)))
        assert (answer.status_code, visitor.is_signed_in()) == (403, False)


def test_roles_may_come_from_a_claim_in_a_claim_or_from_the_information_about_the_user(
    server: RunningServer, provider: Provider
) -> None:
    provider.claims = {"sub": "una-1"}
    provider.information = {"sub": "una-1", "groups": ["admins"]}
    sign_in(server, provider).http.close()
    assert server.sql("SELECT role FROM users WHERE subject = 'una-1'") == [("administrator",)]


def test_what_was_typed_is_kept_on_the_way_to_the_provider_and_back(
    server: RunningServer, provider: Provider
) -> None:
    with sign_in(server, provider) as eva:
        assert eva.form_token
        change(server, "UPDATE sessions SET ends_at = created_at")
        page = eva.post("/customers/new", name="Larch & Söhne")
        assert "what you have typed is kept" in said(page)
        kept = '{"path":"/admin/customers/new","fields":[["name","Larch & Söhne"]]}'
        moved = eva.post("/sign-in/company", kept=kept)
        assert moved.status_code == 200
        address = moved.headers["refresh"].partition("url=")[2]
        page = come_back(eva, provider.authorize(address))
        assert ('value="Larch &amp; Söhne"' in page.text, eva.is_signed_in()) == (True, True)


def test_a_provider_is_set_up_in_the_pages_and_its_secret_is_shown_to_nobody(
    provider: Provider, database: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    form: dict[str, Any] = {"oidc_issuer": provider.issuer, "oidc_client_id": CLIENT}
    form |= {"oidc_scopes": "openid email", "oidc_roles_claim": "realm.roles", "oidc_check_minutes": "30"}
    form |= {"oidc_administrators": "", "oidc_support": "desk", "oidc_readers": ""}
    with running(tmp_path_factory.mktemp("pages") / "data", database, **NO_LIMITS) as server:
        make_users(server, "ada")
        with Visitor(server) as ada:
            ada.sign_in("ada")
            wrong = ada.post("/settings/company", **form | {"oidc_issuer": "http://login.example.org"})
            assert "It must be an https address" in said(wrong)
            silent = ada.post("/settings/company", **form | {"oidc_issuer": "https://127.0.0.1:9"})
            assert "The provider cannot be used: the provider cannot be reached" in said(silent)
            saved = ada.post("/settings/company", **form, oidc_client_secret=SECRET)
            assert saved.status_code == 303, said(saved)
            ada.post("/settings/company", **form | {"oidc_support": "desk, helpers"})
            assert look_up(server, list_stored)["oidc_client_secret"] == SECRET
            page = ada.get("/settings")
            assert f"{server.base_url}/admin{CALLBACK}" in page.text
            assert "geheim" not in page.text + ada.get("/events").text
            with sign_in(server, provider, realm={"roles": ["desk"]}) as eva:
                assert eva.is_signed_in()
            with a_visitor(server) as visitor:
                assert "Sign in with your company" in said(visitor.get("/sign-in"))
            # A secret is only sent for the client ID that it was entered for.
            ada.post("/settings/company", **form | {"oidc_client_id": "another"})
            assert "oidc_client_secret" not in look_up(server, list_stored)


def test_two_servers_share_a_sign_in(server: RunningServer, provider: Provider) -> None:
    names = ("database_url", "trusted_proxies")
    settings: dict[str, Any] = {
        name: value for name, value in server.settings.items() if name in names or name.startswith("oidc_")
    }
    settings["public_url"] = server.base_url
    with running(server.data_dir, **settings) as second, a_visitor(server) as visitor:
        query = provider.authorize(begin(visitor))
        answer = visitor.http.get(f"{second.base_url}/admin{CALLBACK}?{urlencode(query)}")
        assert answer.status_code == 303
        assert visitor.is_signed_in()


def test_the_way_to_the_provider_has_pkce_state_and_nonce_and_leads_back_to_this_server(
    server: RunningServer,
) -> None:
    with a_visitor(server) as visitor:
        first, second = (parse_qs(urlsplit(begin(visitor)).query) for _ in range(2))
    assert first["redirect_uri"] == [f"{server.base_url}/admin{CALLBACK}"]
    assert first["scope"] == ["openid profile email"]
    for name in ("state", "nonce", "code_challenge"):
        assert len(first[name][0]) == 43
        assert first[name] != second[name]
