"""A user's account page: role, sessions and password."""

import re
from collections.abc import Iterator

import pytest

from tests.http.admin_browser import PASSWORD, Visitor, make_users, said
from tests.server import RunningServer

DATABASES = ("sqlite",)

NEW = "another CANARY password"


@pytest.fixture
def visitor(server: RunningServer, request: pytest.FixtureRequest) -> Iterator[Visitor]:
    """A user for this test only."""
    name = f"user{abs(hash(request.node.nodeid))}"
    make_users(server, name)
    with Visitor(server, **{"User-Agent": "Mozilla/5.0 (Windows NT 10.0) Firefox/140.0"}) as visitor:
        visitor.name = name
        yield visitor.sign_in(name)


def elsewhere(visitor: Visitor) -> Visitor:
    return Visitor(visitor.server, **{"User-Agent": "curl/8 <b>"}).sign_in(visitor.name)


def change(visitor: Visitor, old: str, new: str, repeated: str) -> int:
    fields = {"password": old, "new_password": new, "repeated": repeated}
    return visitor.post("/account/password", **fields).status_code


def test_it_says_who_i_am_and_where(visitor: Visitor) -> None:
    with elsewhere(visitor):
        page = said(visitor.get("/account"))
    assert f"Name {visitor.name} Role reader" in page
    assert "A reader can view" in page
    assert "here" in page
    assert "Firefox on Windows" in page
    assert "curl/8 <b>" in page
    assert page.count("127.0.0.1") == 2


def test_the_form_token_and_the_cookie_are_not_the_same(visitor: Visitor) -> None:
    assert visitor.token not in visitor.get("/account").text


@pytest.mark.smoke
def test_a_new_password_ends_every_other_session(visitor: Visitor) -> None:
    with elsewhere(visitor) as other:
        assert change(visitor, PASSWORD, NEW, NEW) == 303
        assert "Your password was changed." in said(visitor.get("/account"))
        assert not other.is_signed_in()
    with Visitor(visitor.server) as again:
        assert again.post("/sign-in", name=visitor.name, password=PASSWORD).status_code == 403
        again.sign_in(visitor.name, NEW)


def test_a_new_password_needs_the_old_one_and_a_good_one(visitor: Visitor) -> None:
    for old, new, repeated, complaint in (
        ("wrong", NEW, NEW, "This is not your password."),
        (PASSWORD, "short", "short", "A password must have at least 12 characters."),
        (PASSWORD, f"{visitor.name}-1234567", f"{visitor.name}-1234567", "This password is easy to guess"),
        (PASSWORD, NEW, f"{NEW} ", "The two passwords are different."),
        (PASSWORD, "x" * 1025, "x" * 1025, "A password must have at most 1,024 characters."),
    ):
        fields = {"password": old, "new_password": new, "repeated": repeated}
        answer = visitor.post("/account/password", **fields)
        assert (answer.status_code, complaint in said(answer)) == (422, True)
        assert NEW not in answer.text
    elsewhere(visitor).http.close()


def test_spaces_belong_to_a_password(visitor: Visitor) -> None:
    spaced = "  two spaces before  "
    assert change(visitor, PASSWORD, spaced, spaced) == 303
    with Visitor(visitor.server) as again:
        assert again.post("/sign-in", name=visitor.name, password=spaced.strip()).status_code == 403
        again.sign_in(visitor.name, spaced)


def test_whoever_found_an_open_browser_cannot_guess_for_long(visitor: Visitor) -> None:
    statuses: list[int] = []
    while 429 not in statuses and len(statuses) < 200:
        statuses.append(change(visitor, "a guess", NEW, NEW))
    assert statuses[:10] == [422] * 10
    assert statuses[-1] == 429
    assert change(visitor, PASSWORD, NEW, NEW) == 429


def test_signing_out_everywhere_else_leaves_this_session(visitor: Visitor) -> None:
    with elsewhere(visitor) as one, elsewhere(visitor) as another:
        answer = visitor.post("/account/sessions/end")
        assert answer.headers["location"] == "/admin/account"
        assert not one.is_signed_in()
        assert not another.is_signed_in()
    page = said(visitor.get("/account"))
    assert "You are signed out everywhere else." in page
    assert "Sign out everywhere else" not in page


def scheme(visitor: Visitor) -> str:
    """The color schemes of the page."""
    (found,) = re.findall('<meta name="color-scheme" content="([^"]*)">', visitor.get("/account").text)
    return str(found)


def test_the_colors_are_kept_without_a_program_in_the_browser(visitor: Visitor) -> None:
    assert scheme(visitor) == "light dark"
    for theme in ("dark", "light"):
        answer = visitor.post("/theme", theme=theme, next="/admin/account?x=1")
        assert answer.headers["location"] == "/admin/account?x=1"
        assert scheme(visitor) == theme
    visitor.post("/theme", theme="><script>", next="https://evil.example")
    assert scheme(visitor) == "light"
    visitor.post("/theme", theme="system")
    assert scheme(visitor) == "light dark"


def test_pages_speak_what_the_browser_asks_for_until_the_user_chooses(visitor: Visitor) -> None:
    visitor.http.headers["accept-language"] = "de-AT,en;q=0.5"
    page = visitor.get("/account").text
    assert '<html lang="de"' in page
    assert "Mein Konto" in said(visitor.get("/account"))
    assert visitor.post("/account/language", language="en").status_code == 303
    page = said(visitor.get("/account"))
    assert "Your language was saved." in page
    assert "My account" in page
    assert visitor.post("/account/language", language="").status_code == 303
    assert "Ihre Sprache ist gespeichert." in said(visitor.get("/account"))
    assert visitor.post("/account/language", language="tlh").status_code == 422
