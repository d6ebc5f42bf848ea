"""Signing in and out, sessions, and the first administrator."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from html import unescape
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from keywright.db import run_write
from keywright.identity import sessions
from keywright.identity.model import Role
from keywright.identity.store import delete_session, save_seen
from tests.http.admin_browser import PASSWORD, ROLES, Visitor, asked, look_up, make_users, opened, said, title
from tests.http.conftest import assert_clean
from tests.server import RunningServer, running, wait_until

DATABASES = ("sqlite",)

WRONG = "The name or the password is wrong."


@pytest.fixture
def visitor(server: RunningServer) -> Iterator[Visitor]:
    make_users(server)
    with Visitor(server) as visitor:
        yield visitor


def events_of(server: RunningServer, name: str) -> int:
    return int(server.sql("SELECT count(*) FROM events WHERE name = ?", name)[0][0])


@pytest.mark.smoke
@pytest.mark.parametrize("name", ROLES)
def test_who_knows_the_password_is_let_in(visitor: Visitor, name: str) -> None:
    before = events_of(visitor.server, "user.signed_in")
    visitor.sign_in(name)
    assert visitor.http.get(visitor.get("/").headers["location"]).status_code == 200
    page = said(visitor.get("/account"))
    assert name in page
    assert ROLES[name].value in page
    assert events_of(visitor.server, "user.signed_in") == before + 1


def test_nobody_sees_a_page_without_a_session(visitor: Visitor) -> None:
    assert visitor.get("").headers["location"] == "/admin/"
    for path in ("/", "/account"):
        answer = visitor.get(path)
        assert answer.status_code == 303
        assert urlsplit(answer.headers["location"]).path == "/admin/sign-in"


@pytest.mark.parametrize("name", ["ada", "nobody at all", "ADA", "", "a\u202eb", "x" * 5000])
def test_a_wrong_password_and_an_unknown_name_get_the_same_answer(visitor: Visitor, name: str) -> None:
    before = events_of(visitor.server, "user.sign_in_refused")
    answer = visitor.post("/sign-in", name=name, password="not the password")
    assert (answer.status_code, title(answer)) == (403, "Sign in")
    assert WRONG in said(answer)
    assert 'type="password" value=""' in answer.text
    assert not visitor.is_signed_in()
    assert events_of(visitor.server, "user.sign_in_refused") == before + 1


def test_the_cookie_is_for_the_pages_of_this_host_only(visitor: Visitor) -> None:
    answer = visitor.post("/sign-in", name="ada", password=PASSWORD)
    (cookie,) = [one for one in answer.headers.get_list("set-cookie") if one.startswith("keywright=")]
    parts = {part.strip().lower() for part in cookie.split(";")[1:]}
    # Without Max-Age, so it ends with the browser.
    assert parts == {"httponly", "path=/admin", "samesite=lax"}


def test_under_tls_the_cookie_is_bound_to_the_host(tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("tls") / "data"
    with running(place, trusted_proxies="127.0.0.1") as server:
        make_users(server, "ada")
        with Visitor(server, **{"X-Forwarded-Proto": "https"}) as visitor:
            page = visitor.get("/sign-in")
            visitor.http.cookies.clear()
            # The client does not send a Secure cookie over a plain connection, so set it in the header.
            first = read_cookie(page.headers.get_list("set-cookie"))
            token = re.search(r'name="csrf_token" value="([0-9a-f]+)"', page.text)
            assert token is not None
            form = {"csrf_token": token[1], "name": "ada", "password": PASSWORD}
            answer = visitor.http.post(
                "/admin/sign-in", data=form, headers={"Cookie": f"__Host-keywright={first}"}
            )
            assert answer.status_code == 303
            second = read_cookie(answer.headers.get_list("set-cookie"))
            assert second != first
            there = visitor.get("/account", Cookie=f"__Host-keywright={second}")
            assert there.status_code == 200
            # Without TLS, the session is not valid.
            plain = {"X-Forwarded-Proto": "http", "Cookie": f"keywright={second}"}
            assert visitor.get("/account", **plain).status_code == 200
            mixed = {"X-Forwarded-Proto": "http", "Cookie": f"__Host-keywright={second}"}
            assert visitor.get("/account", **mixed).status_code == 303


def read_cookie(headers: list[str]) -> str:
    (cookie,) = [one for one in headers if one.startswith("__Host-keywright=")]
    parts = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert parts == {"httponly", "path=/", "samesite=lax", "secure"}
    return cookie.partition("=")[2].partition(";")[0]


def test_a_password_is_masked_and_left_to_the_browsers_password_manager(visitor: Visitor) -> None:
    page = visitor.get("/sign-in").text
    (field,) = [one for one in re.findall(r"<input[^>]*>", page) if 'name="password"' in one]
    assert ('type="password"' in field, 'autocomplete="current-password"' in field) == (True, True)
    assert "onpaste" not in page


def test_a_stranger_cannot_say_that_the_connection_is_encrypted(visitor: Visitor) -> None:
    answer = visitor.get("/sign-in", **{"X-Forwarded-Proto": "https"})
    assert "secure" not in answer.headers["set-cookie"].lower()


def test_a_token_from_before_is_worth_nothing_after_signing_in(visitor: Visitor) -> None:
    planted = "a-token-that-another-person-knows"
    visitor.http.cookies.set("keywright", planted, domain="127.0.0.1", path="/admin")
    visitor.sign_in("ada")
    assert visitor.token != planted
    with Visitor(visitor.server) as attacker:
        attacker.http.cookies.set("keywright", planted, domain="127.0.0.1", path="/admin")
        assert not attacker.is_signed_in()


def test_every_sign_in_has_a_token_of_its_own(visitor: Visitor) -> None:
    visitor.sign_in("ada")
    first = visitor.token
    visitor.post("/sign-out")
    visitor.sign_in("ada")
    assert visitor.token != first


def test_signing_out_ends_the_session_for_whoever_has_the_token(visitor: Visitor) -> None:
    visitor.sign_in("ada")
    with Visitor(visitor.server) as thief:
        thief.http.cookies.set("keywright", visitor.token, domain="127.0.0.1", path="/admin")
        assert thief.is_signed_in()
        answer = visitor.post("/sign-out")
        assert answer.headers["location"] == "/admin/sign-in"
        assert "You are signed out." in said(visitor.get("/sign-in"))
        assert not thief.is_signed_in()
    assert not visitor.is_signed_in()
    assert visitor.get("/sign-out").status_code == 405


def end_session_of(visitor: Visitor) -> None:
    """Let the session expire."""
    with opened(visitor.server) as storage:
        session = sessions.hash_session_token(visitor.token)
        run_write(storage, lambda tx: delete_session(tx, session))


def hidden(answer: httpx.Response, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', answer.text)
    return "" if found is None else unescape(found[1])


def test_a_form_that_was_sent_too_late_is_kept_for_after_the_sign_in(visitor: Visitor) -> None:
    visitor.sign_in("bob")
    form = {"key": "A-KEY-TYPED-LATE", "status": "active", "times_activated_max": "31"}
    visitor.get("/licenses/new")
    end_session_of(visitor)
    refused = visitor.post("/licenses/new", **form)
    assert refused.status_code == 403
    assert "Sign in; what you have typed is kept." in said(refused)
    again = {"name": "bob", "kept": hidden(refused, "kept")}
    assert visitor.post("/sign-in", **again, password="wrong").status_code == 403
    offered = visitor.post("/sign-in", **again, password=PASSWORD)
    assert "has not been sent yet" in said(offered)
    assert 'action="/admin/licenses/new"' in offered.text
    sent = {name: hidden(offered, name) for name in (*form, "csrf_token")}
    answer = visitor.http.post("/admin/licenses/new", data=sent)
    assert answer.status_code == 303
    assert visitor.server.sql("SELECT count(*) FROM licenses WHERE times_activated_max = 31") == [(1,)]


def test_a_form_of_another_site_or_with_a_password_is_not_kept(visitor: Visitor) -> None:
    visitor.sign_in("bob")
    visitor.get("/licenses/new")
    end_session_of(visitor)
    for path, fields in (
        ("/licenses/new", {"csrf_token": "x"}),
        ("/account/password", {"password": "x"}),
        ("/users/new", {"password": "x"}),
        ("/licenses/new", {"key": "x" * 9_000}),
    ):
        answer = visitor.post(path, **fields)
        assert answer.headers["location"] == "/admin/sign-in", path
    assert "Your session has expired" in said(visitor.get("/sign-in"))


def test_what_is_kept_leads_nowhere_else(visitor: Visitor) -> None:
    for path in ("https://evil.example/admin/x", "/admin/../x", "/admin/sign-out", "//evil.example/x"):
        kept = json.dumps({"path": path, "fields": [["a", "b"]]})
        answer = visitor.post("/sign-in", name="bob", password=PASSWORD, kept=kept)
        assert answer.status_code == 303, path
        visitor.post("/sign-out")


def test_a_session_lasts_a_working_day(visitor: Visitor) -> None:
    session = sessions.hash_session_token(visitor.sign_in("bob").token)
    query = "SELECT ends_at - created_at FROM sessions WHERE token_hash = ?"
    assert visitor.server.sql(query, session) == [(10 * 3600,)]


@pytest.mark.parametrize(("minutes", "is_over"), [(119, False), (121, True)])
def test_a_session_ends_after_two_hours_without_use(visitor: Visitor, minutes: int, is_over: bool) -> None:
    session = sessions.hash_session_token(visitor.sign_in("bob").token)
    unused_since = asked()["context"].now - timedelta(minutes=minutes)
    with opened(visitor.server) as storage:
        run_write(storage, partial(save_seen, token_hash=session, now=unused_since))
    assert visitor.is_signed_in() is not is_over


def test_it_is_noted_when_a_session_was_used_but_not_by_a_page_that_asks_by_itself(visitor: Visitor) -> None:
    long_ago = asked()["context"].now - timedelta(minutes=5)

    def is_noted(one: Visitor) -> bool:
        now = asked()["context"].now
        found = look_up(one.server, lambda tx: sessions.find_signed_in(tx, one.token, now))
        return bool(found.session.last_seen_at > long_ago)

    with Visitor(visitor.server) as away, opened(visitor.server) as storage:
        for one, name in ((away, "bob"), (visitor, "carol")):
            session = sessions.hash_session_token(one.sign_in(name).token)
            run_write(storage, partial(save_seen, token_hash=session, now=long_ago))
        assert away.get("/overview/counted", **{"X-Requested-With": "keywright"}).status_code == 200
        assert visitor.is_signed_in()
        # The last-seen time is saved later.
        wait_until(lambda: is_noted(visitor), "who is there to be noted")
        assert not is_noted(away)


@pytest.mark.parametrize(
    ("wish", "way"),
    [
        ("/admin/account", "/admin/account"),
        ("/admin/licenses?status=sold&cursor=a%2Bb", "/admin/licenses?status=sold&cursor=a%2Bb"),
        ("https://evil.example/admin/", "/admin/"),
        ("//evil.example/admin/", "/admin/"),
        ("/\\evil.example", "/admin/"),
        ("/admin/../../evil", "/admin/"),
        ("/admin//evil.example", "/admin/"),
        ("/admin/x\r\nSet-Cookie: a=b", "/admin/"),
        ("/administrator", "/admin/"),
        ("/wp-json/lmfwc/v2/licenses", "/admin/"),
        ("/admin/sign-out", "/admin/"),
        ("javascript:alert(1)", "/admin/"),
        ("", "/admin/"),
    ],
)
def test_after_signing_in_comes_the_page_that_was_wanted_if_it_is_ours(
    visitor: Visitor, wish: str, way: str
) -> None:
    fields = {"name": "carol", "password": PASSWORD, "next": wish}
    assert visitor.post("/sign-in", **fields).headers["location"] == way


def test_who_is_sent_to_sign_in_comes_back(visitor: Visitor) -> None:
    sent = visitor.get("/account?tab=2").headers["location"]
    assert parse_qs(urlsplit(sent).query) == {"next": ["/admin/account?tab=2"]}
    assert 'name="next" value="/admin/account?tab=2"' in visitor.http.get(sent).text


def test_who_is_signed_in_already_need_not_do_it_again(visitor: Visitor) -> None:
    visitor.sign_in("ada")
    assert visitor.get("/sign-in?next=/admin/account").headers["location"] == "/admin/account"


def test_attempts_are_limited_by_address_and_by_name(tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("limits") / "data"
    with running(place, trusted_proxies="127.0.0.1") as server:
        make_users(server, "ada", "bob")
        # One address with many names.
        with Visitor(server, **{"X-Forwarded-For": "192.0.2.1"}) as one:
            statuses: list[int] = []
            while 429 not in statuses and len(statuses) < 200:
                name = f"name{len(statuses)}"
                statuses.append(one.post("/sign-in", name=name, password="wrong").status_code)
            assert statuses[:10] == [403] * 10
            assert statuses[-1] == 429
        with Visitor(server, **{"X-Forwarded-For": "192.0.2.1"}) as one:
            # Occasionally another attempt is allowed, and this may be it.
            last = one.post("/sign-in", name="ada", password=PASSWORD)
            while last.status_code == 303 and len(statuses) < 200:
                one.http.cookies.clear()
                statuses.append(one.post("/sign-in", name="name", password="wrong").status_code)
                last = one.post("/sign-in", name="ada", password=PASSWORD)
            assert (last.status_code, title(last)) == (429, "Too many attempts")
            assert 1 <= int(last.headers["retry-after"]) <= 60
            assert re.search(rf"Please wait {last.headers['retry-after']} seconds?\.", said(last))
            assert not one.is_signed_in()
        # One name from many addresses.
        statuses = []
        for number in range(200):
            if 429 in statuses:
                break
            with Visitor(server, **{"X-Forwarded-For": f"198.51.100.{number}"}) as another:
                statuses.append(another.post("/sign-in", name="bob", password="wrong").status_code)
        assert statuses[:19] == [403] * 19
        assert statuses[-1] == 429
        with Visitor(server, **{"X-Forwarded-For": "192.0.2.99"}) as honest:
            honest.sign_in("ada")


def test_there_is_no_default_account(new: RunningServer) -> None:
    assert new.count("users") == 0
    with Visitor(new) as visitor:
        page = visitor.get("/sign-in")
        assert "keywright user link" in said(page)
        assert 'type="password"' not in page.text
        for name in ("admin", "root", "keywright"):
            assert visitor.post("/sign-in", name=name, password=name).status_code == 403


@pytest.fixture
def new(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A new server."""
    with running(tmp_path_factory.mktemp("new") / "data") as server:
        yield server
        assert_clean(server)
        assert "CANARY" not in server.log


def link(server: RunningServer) -> str:
    found = re.search(r"/admin(/setup\?token=\S+)", server.cli("user", "link"))
    assert found is not None
    return found[1]


def test_the_link_makes_the_first_administrator_who_is_signed_in_then(new: RunningServer) -> None:
    with Visitor(new) as visitor:
        way = link(new)
        token = way.partition("=")[2]
        assert visitor.get(way).status_code == 200
        # Opening the link creates no user.
        assert new.count("users") == 0
        fields = {"token": token, "name": " grace ", "new_password": PASSWORD, "repeated": PASSWORD}
        for wrong, complaint in (
            ({"new_password": "short", "repeated": "short"}, "at least 12 characters"),
            ({"new_password": "grace-1234567", "repeated": "grace-1234567"}, "easy to guess"),
            ({"repeated": "another password"}, "are different"),
            ({"name": ""}, "must have 1 to 200 characters"),
        ):
            answer = visitor.post("/setup", **fields | wrong)
            assert (answer.status_code, complaint in said(answer)) == (422, True)
        answer = visitor.post("/setup", **fields)
        assert answer.headers["location"] == "/admin/"
        assert "Welcome, grace." in said(visitor.get("/account"))
        # It is shown once.
        assert "Welcome" not in said(visitor.get("/account"))
        assert new.sql("SELECT name, role FROM users") == [("grace", Role.ADMINISTRATOR.value)]


def test_the_link_is_good_once_and_only_as_it_is(new: RunningServer) -> None:
    way = link(new)
    with Visitor(new) as visitor:
        for wrong in (way[:-4] + "0000", "/setup", "/setup?token=", way.replace("token=", "token=0")):
            answer = visitor.get(wrong)
            assert (answer.status_code, title(answer)) == (403, "This link is no longer valid")
        token = way.partition("=")[2]
        fields = {"name": "grace", "new_password": PASSWORD, "repeated": PASSWORD}
        assert visitor.post("/setup", token=token[:-4] + "0000", **fields).status_code == 403
        assert new.count("users") == 0
        make_users(new, "ada")
        for late in (visitor.get(way), visitor.post("/setup", token=token, **fields)):
            assert late.headers["location"] == "/admin/sign-in"
        assert "already set up" in said(visitor.get("/sign-in"))
        assert new.sql("SELECT name FROM users") == [("ada",)]
