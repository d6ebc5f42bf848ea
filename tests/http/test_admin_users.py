"""The pages about users: roles, passwords and sessions."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import httpx
import pytest

from keywright.identity import sessions
from keywright.identity.model import ChangeUser, InviteUser, Role
from tests.http.admin_browser import PASSWORD, Visitor, asked, decide, make_users, said, title
from tests.http.conftest import assert_clean
from tests.server import NO_LIMITS, RunningServer, running

DATABASES = ("sqlite",)

NEW = "quite another CANARY password"


def id_of(server: RunningServer, name: str) -> int:
    ((number,),) = server.sql("SELECT id FROM users WHERE name = ?", name)
    return int(number)


@contextmanager
def a_user(ada: Visitor, name: str) -> Iterator[tuple[int, Visitor]]:
    """A signed-in reader."""
    make_users(ada.server, name)
    with Visitor(ada.server) as visitor:
        yield id_of(ada.server, name), visitor.sign_in(name)


def last_event(ada: Visitor, name: str) -> tuple[str, str]:
    """The actor and details of the last event with this name."""
    query = "SELECT actor, details FROM events WHERE name = ? ORDER BY id DESC LIMIT 1"
    ((actor, details),) = ada.server.sql(query, name)
    return actor, details


def invite(ada: Visitor, name: str, role: str = "support") -> str:
    """Create a user; return the path of the link, below /admin."""
    return link_in(ada.post("/users/new", name=name, role=role))


def link_in(answer: httpx.Response) -> str:
    found = re.search(r'id="link">[^<]*/admin(/invitation\?token=[\w-]+)<', answer.text)
    assert found is not None, said(answer)
    return found[1]


def accept(visitor: Visitor, link: str, password: str = NEW) -> httpx.Response:
    visitor.get(link)
    token = link.partition("=")[2]
    return visitor.post("/invitation", token=token, new_password=password, repeated=password)


@pytest.mark.smoke
def test_a_new_user_sets_the_password_with_a_link_that_works_once(ada: Visitor) -> None:
    link = invite(ada, "nora")
    number = id_of(ada.server, "nora")
    assert last_event(ada, "user.created") == (
        f"user:{id_of(ada.server, 'ada')}",
        f'{{"user_id":{number},"user":"nora","role":"support"}}',
    )
    token = link.partition("=")[2]
    assert token not in str(ada.server.sql("SELECT * FROM invitations"))
    with Visitor(ada.server) as nora:
        assert "You are invited as nora" in said(nora.get(link))
        assert accept(nora, link, "short").status_code == 422
        assert accept(nora, link, "nora-1234567").status_code == 422
        assert accept(nora, link).headers["location"] == "/admin/sign-in"
        nora.sign_in("nora", NEW)
        assert "Role support" in said(nora.get("/account"))
        again = accept(nora, link, "another good password")
        assert (again.status_code, title(again)) == (403, "This link is no longer valid")
    assert "nora support" in said(ada.get("/users"))


def test_a_link_ends_after_three_days_with_another_one_and_with_the_user(ada: Visitor) -> None:
    first = invite(ada, "nick", "reader")
    number = id_of(ada.server, "nick")
    second = link_in(ada.post(f"/users/{number}/invite"))
    with Visitor(ada.server) as nick:
        assert nick.get(first).status_code == 403
        assert nick.get(second).status_code == 200
        decide(ada.server, ChangeUser(**asked(user_id=number, is_disabled=True)))
        assert nick.get(second).status_code == 403
        decide(ada.server, ChangeUser(**asked(user_id=number, is_disabled=False)))
        token = sessions.new_session_token()
        long_ago = asked()["context"].now - timedelta(hours=72)
        hash_ = sessions.hash_session_token(token)
        decide(ada.server, InviteUser(**asked(now=long_ago, user_id=number, token_hash=hash_)))
        assert nick.get(f"/invitation?token={token}").status_code == 403
        assert nick.get("/invitation").status_code == 403


def test_what_is_wrong_is_said_and_nobody_is_made(ada: Visitor) -> None:
    before = ada.server.count("users")
    for field, text, complaint in (
        ("name", "", "This field is required."),
        ("name", "ada", "There is already a user with this name."),
        ("name", "a\x7fb", "It must have 1 to 200 characters"),
        ("role", "king", "It must be one of these."),
        ("role", "", "This field is required."),
    ):
        answer = ada.post("/users/new", **{"name": "otto", "role": "reader"} | {field: text})
        assert (answer.status_code, complaint in said(answer)) == (422, True), text
    assert ada.server.count("users") == before


def test_a_role_changes_at_once(ada: Visitor) -> None:
    with a_user(ada, "paula") as (number, paula):
        assert paula.get("/api-keys").status_code == 403
        assert ada.post(f"/users/{number}/role", role="administrator").status_code == 303
        assert "paula now has the role administrator." in said(ada.get(f"/users/{number}"))
        assert paula.get("/api-keys").status_code == 200
        assert last_event(ada, "user.changed")[1] == (
            f'{{"user_id":{number},"user":"paula","role":["reader","administrator"]}}'
        )
        assert ada.post(f"/users/{number}/role", role="king").status_code == 422


def test_a_new_password_ends_the_old_one_and_every_session(ada: Visitor) -> None:
    with a_user(ada, "quentin") as (number, quentin):
        assert ada.post(f"/users/{number}/password", new_password=NEW, repeated=f"{NEW}!").status_code == 422
        assert quentin.is_signed_in()
        assert ada.post(f"/users/{number}/password", new_password=NEW, repeated=NEW).status_code == 303
        assert "quentin has a new password" in said(ada.get(f"/users/{number}"))
        assert not quentin.is_signed_in()
        quentin.sign_in("quentin", NEW)
        assert last_event(ada, "user.changed")[1] == (
            f'{{"user_id":{number},"user":"quentin","is_password_new":true}}'
        )
        assert quentin.post("/sign-out").status_code == 303
        assert quentin.post("/sign-in", name="quentin", password=PASSWORD).status_code == 403


def test_whoever_is_disabled_is_out_until_enabled(ada: Visitor) -> None:
    with a_user(ada, "rosa") as (number, rosa):
        assert "Every session ends at once." in said(ada.get(f"/users/{number}/disable"))
        ada.post(f"/users/{number}/disable")
        page = said(ada.get(f"/users/{number}"))
        assert "rosa was disabled and signed out everywhere." in page
        assert "Can sign in disabled since" in page
        assert not rosa.is_signed_in()
        refused = rosa.post("/sign-in", name="rosa", password=PASSWORD)
        assert (refused.status_code, "or the password is wrong." in said(refused)) == (403, True)
        assert "rosa disabled" in said(ada.get("/users"))
        ada.post(f"/users/{number}/enable")
        assert "rosa may sign in again." in said(ada.get(f"/users/{number}"))
        assert rosa.sign_in("rosa").is_signed_in()


def test_an_administrator_signs_others_out(ada: Visitor) -> None:
    with a_user(ada, "simon") as (number, simon):
        assert "127.0.0.1" in said(ada.get(f"/users/{number}"))
        ada.post(f"/users/{number}/sessions/end")
        page = said(ada.get(f"/users/{number}"))
        assert "simon was signed out everywhere." in page
        assert "Not signed in anywhere." in page
        assert not simon.is_signed_in()
        actor = f"user:{id_of(ada.server, 'ada')}"
        assert last_event(ada, "user.signed_out") == (actor, f'{{"user_id":{number},"user":"simon"}}')


def test_whoever_does_it_to_themselves_stays_here(ada: Visitor) -> None:
    with a_user(ada, "tina") as (number, tina), Visitor(ada.server) as elsewhere:
        decide(ada.server, ChangeUser(**asked(user_id=number, role=Role.ADMINISTRATOR)))
        elsewhere.sign_in("tina")
        tina.post(f"/users/{number}/sessions/end")
        assert "tina was signed out everywhere else." in said(tina.get(f"/users/{number}"))
        assert not elsewhere.is_signed_in()
        answer = tina.post(f"/users/{number}/role", role="reader")
        assert answer.headers["location"] == "/admin/account"
        assert "tina now has the role reader." in said(tina.get("/account"))


def test_one_s_own_password_is_changed_by_who_knows_the_old_one_only(ada: Visitor) -> None:
    """Someone who finds an administrator's browser open must not be able to take over the account."""
    with a_user(ada, "ulla") as (number, ulla), Visitor(ada.server) as elsewhere:
        decide(ada.server, ChangeUser(**asked(user_id=number, role=Role.ADMINISTRATOR)))
        elsewhere.sign_in("ulla")
        page = ulla.get(f"/users/{number}").text
        assert f"/users/{number}/password" not in page
        assert 'name="new_password"' not in page
        # Two links in the frame, one in the text.
        assert page.count('href="/admin/account"') == 3
        answer = ulla.post(f"/users/{number}/password", new_password=NEW, repeated=NEW)
        assert answer.status_code == 403
        assert "Change it under “My account”" in said(answer)
        answer = ulla.post(f"/users/{number}/invite")
        assert (answer.status_code, "/invitation" in answer.text) == (403, False)
        assert elsewhere.is_signed_in()
        assert ulla.post("/sign-out").status_code == 303
        assert ulla.sign_in("ulla", PASSWORD).is_signed_in()
    assert f'action="/admin/users/{number}/password#' in ada.get(f"/users/{number}").text


def test_the_last_administrator_cannot_be_lost(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("last") / "data", **NO_LIMITS) as server:
        make_users(server)
        number = id_of(server, "ada")
        with Visitor(server) as ada:
            ada.sign_in("ada")
            assert "This is you" in said(ada.get(f"/users/{number}/disable"))
            for page in ("role", "disable"):
                answer = ada.post(f"/users/{number}/{page}", role="reader")
                assert answer.status_code == 409
                assert "No other administrator has a password." in said(answer)
            assert ada.get("/users").status_code == 200
    assert_clean(server)
