"""Second factors: setting one up, signing in with it, requiring one, losing it."""

import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import httpx
import pyotp
import pytest

from keywright.http.pages.passwords import SIGN_IN_LIMITS
from keywright.identity import second_factors, store
from tests.http.admin_browser import PASSWORD, Visitor, look_up, make_users, said, title
from tests.server import NO_LIMITS, RunningServer, running

_SECRET = re.compile(r'name="secret" value="([A-Z2-7]{32})"')
_TICKET = re.compile(r'name="ticket" value="([^"]+)"')
_CODES = re.compile(r'<code id="codes">([^<]+)</code>')
PAGE = "/account/second-factor"
_ADDRESSES = itertools.count(1)


def a_visitor(server: RunningServer) -> Visitor:
    """A browser with its own address, because attempts are limited per address."""
    return Visitor(server, **{"X-Forwarded-For": f"198.51.100.{next(_ADDRESSES)}"})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(
        tmp_path_factory.mktemp("factors") / "data", trusted_proxies="127.0.0.1", **NO_LIMITS
    ) as server:
        make_users(server)
        yield server


@pytest.fixture
def name(server: RunningServer) -> str:
    """A new support user."""
    ((number,),) = server.sql("SELECT count(*) FROM users")
    make_users(server, f"user-{number}")
    return f"user-{number}"


@pytest.fixture
def visitor(server: RunningServer) -> Iterator[Visitor]:
    with a_visitor(server) as visitor:
        yield visitor


class App:
    """An app that shows codes: each code once, regardless of the time."""

    def __init__(self, secret: str) -> None:
        self.secret, self._totp = secret, pyotp.TOTP(secret)
        self._last = 0

    def code(self) -> str:
        step = max(int(datetime.now(UTC).timestamp()) // 30 - 1, self._last + 1)
        self._last = step
        return str(self._totp.generate_otp(step))


def set_up(visitor: Visitor) -> tuple[App, list[str]]:
    """Set up a second factor for the signed-in user; return the app and the recovery codes."""
    (secret,) = _SECRET.findall(visitor.get(PAGE).text)
    app = App(secret)
    answer = visitor.post(f"{PAGE}/enable", secret=secret, code=app.code())
    assert answer.status_code == 200, said(answer)
    (codes,) = _CODES.findall(answer.text)
    return app, codes.split()


def begin(visitor: Visitor, name: str, wish: str = "") -> httpx.Response:
    """Enter name and password."""
    return visitor.post("/sign-in", name=name, password=PASSWORD, next=wish)


def enter(visitor: Visitor, answer: httpx.Response, code: str) -> httpx.Response:
    """Enter the code into the form."""
    wish = re.search(r'name="next" value="([^"]*)"', answer.text)
    ticket = _TICKET.search(answer.text)
    assert wish is not None
    assert ticket is not None, said(answer)
    return visitor.post("/sign-in/code", ticket=ticket[1], next=unescape(wish[1]), code=code)


def names(server: RunningServer, user: str) -> list[str]:
    """The names of events about the user, in order."""
    found = server.sql("SELECT name, details FROM events WHERE license_id = 0 ORDER BY id")
    return [name for name, details in found if details and f'"{user}"' in details]


def test_a_second_factor_is_set_up_and_asked_for(server: RunningServer, visitor: Visitor, name: str) -> None:
    visitor.sign_in(name)
    page = visitor.get(PAGE)
    assert title(page) == "Set up a second factor"
    assert "<svg" in page.text
    assert f"otpauth://totp/Keywright%20127.0.0.1:{name}?secret=" in unescape(page.text)
    before = visitor.token
    app, codes = set_up(visitor)
    assert len(codes) == second_factors.RECOVERY_CODES
    assert visitor.token != before
    assert "you enter a code from your app" in said(visitor.get("/account"))
    with a_visitor(server) as another:
        answer = begin(another, name, "/admin/account")
        assert (answer.status_code, title(answer)) == (200, "Enter your code")
        assert 'autocomplete="one-time-code"' in answer.text
        assert not another.is_signed_in()
        before = another.token
        done = enter(another, answer, app.code())
        assert (done.status_code, done.headers["location"]) == (303, "/admin/account")
        assert another.token != before
        assert another.is_signed_in()
    assert names(server, name)[-2:] == ["user.second_factor_enabled", "user.signed_in"]


def test_codes_of_the_app_and_recovery_codes_sign_in_once(
    server: RunningServer, visitor: Visitor, name: str
) -> None:
    app, codes = set_up(visitor.sign_in(name))
    new = _CODES.findall(visitor.post(f"{PAGE}/codes", code=app.code()).text)[0].split()
    assert visitor.post(f"{PAGE}/codes", code="000000").status_code == 422
    with a_visitor(server) as another:
        code, answer = app.code(), begin(another, name)
        for wrong in ("000000", "", codes[0]):
            refused = enter(another, answer, wrong)
            assert (refused.status_code, "This code is wrong, or was used" in said(refused)) == (403, True)
        assert enter(another, answer, code).status_code == 303
    with a_visitor(server) as third:
        assert enter(third, begin(third, name), code).status_code == 403
        assert enter(third, begin(third, name), new[0].upper()).status_code == 303
        assert "9 codes left" in said(third.get("/account"))
        assert "Recovery codes left 9" in said(third.get(PAGE))
        third.post("/sign-out")
        assert enter(third, begin(third, name), new[0]).status_code == 403
    assert names(server, name).count("user.code_refused") == 6
    written = server.log + repr(server.sql("SELECT * FROM events"))
    assert [one for one in (app.secret, *codes, *new) if one in written] == []


def test_the_password_alone_opens_nothing(server: RunningServer, visitor: Visitor, name: str) -> None:
    app, _ = set_up(visitor.sign_in(name))
    with a_visitor(server) as another, a_visitor(server) as thief:
        answer = begin(another, name)
        assert another.get("/licenses").status_code == 303
        # A ticket is bound to its browser.
        ticket = _TICKET.search(answer.text)
        assert ticket is not None
        thief.get("/sign-in")
        stolen = thief.post("/sign-in/code", ticket=ticket[1], code=app.code())
        assert (stolen.status_code, stolen.headers["location"]) == (303, "/admin/sign-in")
        assert another.post("/sign-in/code", ticket="", code=app.code()).status_code == 303
        assert not another.is_signed_in()


def test_codes_are_guessed_no_more_often_than_passwords(
    server: RunningServer, visitor: Visitor, name: str
) -> None:
    set_up(visitor.sign_in(name))
    with a_visitor(server) as another:
        answer = begin(another, name)
        statuses = [enter(another, answer, "000000").status_code for _ in range(SIGN_IN_LIMITS["code"] + 4)]
    assert 429 in statuses
    assert statuses.count(403) <= SIGN_IN_LIMITS["code"] + 1


def test_who_guesses_codes_keeps_the_owner_out_of_nothing(
    server: RunningServer, visitor: Visitor, name: str
) -> None:
    """Neither from a browser used before, nor from any other with a recovery code."""
    app, codes = set_up(visitor.sign_in(name))
    visitor.post("/sign-out")
    with a_visitor(server) as thief, a_visitor(server) as another:
        answer = begin(thief, name)
        while enter(thief, answer, "000000").status_code != 429:
            pass
        assert enter(another, begin(another, name), codes[0]).status_code == 303
        assert enter(visitor, begin(visitor, name), app.code()).status_code == 303


def test_it_is_turned_off_with_password_and_code(server: RunningServer, visitor: Visitor, name: str) -> None:
    _, codes = set_up(visitor.sign_in(name))
    answer = visitor.post(f"{PAGE}/disable", password="wrong", code=codes[0])
    assert (answer.status_code, "This is not your password." in said(answer)) == (422, True)
    answer = visitor.post(f"{PAGE}/disable", password=PASSWORD, code="000000")
    assert (answer.status_code, "This code is wrong" in said(answer)) == (422, True)
    before = visitor.token
    # A wrong password has not consumed the recovery code.
    assert visitor.post(f"{PAGE}/disable", password=PASSWORD, code=codes[0]).status_code == 303
    assert visitor.token != before
    assert "Your second factor was turned off." in said(visitor.get("/account"))
    with a_visitor(server) as another:
        another.sign_in(name)


def test_an_administrator_turns_a_lost_one_off_but_not_their_own(
    server: RunningServer, visitor: Visitor, name: str
) -> None:
    set_up(visitor.sign_in(name))
    ((number,),) = server.sql("SELECT id FROM users WHERE name = ?", name)
    ((own,),) = server.sql("SELECT id FROM users WHERE name = 'ada'")
    with a_visitor(server) as ada, a_visitor(server) as bob:
        ada.sign_in("ada")
        assert f"{name} second factor" in said(ada.get("/users"))
        assert title(ada.get(f"/users/{number}/second-factor/off")).startswith("Turn off the second factor")
        assert ada.post(f"/users/{own}/second-factor/off").status_code == 403
        assert bob.sign_in("bob").post(f"/users/{number}/second-factor/off").status_code == 403
        assert ada.post(f"/users/{number}/second-factor/off").status_code == 303
    assert not visitor.is_signed_in()
    visitor.sign_in(name)
    found = server.sql("SELECT actor FROM events WHERE name = 'user.second_factor_disabled' ORDER BY id")
    assert found[-1] == (f"user:{own}",)


def test_a_form_with_another_secret_is_not_taken(server: RunningServer, visitor: Visitor, name: str) -> None:
    visitor.sign_in(name)
    assert visitor.post(f"{PAGE}/enable", secret="AAAA", code="123456").status_code == 303
    assert not look_up(server, store.list_users_with_factor) & {
        number for (number,) in server.sql("SELECT id FROM users WHERE name = ?", name)
    }


@pytest.mark.parametrize(
    ("demanded", "bound", "free"), [("all", "carol", None), ("administrators", "ada", "bob")]
)
def test_who_has_to_have_one_can_do_nothing_before(
    tmp_path: Path, demanded: str, bound: str, free: str | None
) -> None:
    with running(tmp_path / "data", require_second_factor=demanded, **NO_LIMITS) as server:
        make_users(server)
        with Visitor(server) as visitor:
            visitor.sign_in(bound)
            for path in ("/", "/licenses", "/account", "/users", "/licenses/1"):
                answer = visitor.get(path)
                assert (answer.status_code, answer.headers["location"]) == (303, f"/admin{PAGE}"), path
            assert visitor.post("/account/sessions/end").headers["location"] == f"/admin{PAGE}"
            page = visitor.get(PAGE)
            assert "A second factor is required" in said(page)
            assert 'href="/admin/licenses"' not in page.text
            visitor.get("/sign-in")
            set_up(visitor)
            assert visitor.get("/licenses").status_code == 200
        if free is not None:
            with Visitor(server) as other:
                assert other.sign_in(free).get("/licenses").status_code == 200
