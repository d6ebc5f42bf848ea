"""Attacks without a session, and users who are signed out while they send a form."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import count
from urllib.parse import urlencode

import httpx
import pytest

from keywright.identity.model import ChangeUser, Role
from keywright.identity.sessions import device_mark
from keywright.identity.store import find_user
from tests.http.admin_browser import PASSWORD, Visitor, asked, decide, look_up, make_users, title
from tests.http.admin_odd import PROGRAM
from tests.http.conftest import assert_clean
from tests.server import NO_LIMITS, RunningServer, running, wait_until

pytestmark = pytest.mark.tier("rest")

#: Normalizing this takes a minute.
COSTLY = "\u0301" * 40_000 + "\u0316" * 40_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    place = tmp_path_factory.mktemp("strangers") / "data"
    settings = {"trusted_proxies": "127.0.0.1", **NO_LIMITS}
    with running(place, program=PROGRAM, **settings) as server:
        make_users(server)
        yield server
        assert_clean(server)


@pytest.fixture
def stranger(server: RunningServer) -> Iterator[Visitor]:
    with Visitor(server) as stranger:
        yield stranger


def from_address(server: RunningServer, address: str) -> Visitor:
    return Visitor(server, **{"X-Forwarded-For": address})


# --- what strangers send ----------------------------------------------------------------------------


def test_a_strangers_form_is_short(stranger: Visitor) -> None:
    answer = stranger.post("/sign-in", name="ada", password=COSTLY)
    assert (answer.status_code, title(answer)) == (413, "The request is not valid")


def test_a_password_that_nobody_can_have_is_wrong(server: RunningServer, stranger: Visitor) -> None:
    answer = stranger.post("/sign-in", name="ada", password=PASSWORD + " " * 1025)
    assert (answer.status_code, title(answer)) == (403, "Sign in")
    # A signed-in user can also send such a password.
    with Visitor(server) as bob:
        bob.sign_in("bob")
        fields = {"password": COSTLY, "new_password": "another password", "repeated": "another password"}
        assert bob.post("/account/password", **fields).status_code == 422


def test_an_address_that_is_too_long_is_not_looked_for(stranger: Visitor) -> None:
    assert stranger.get("/" + "x" * 8192).status_code == 414
    assert stranger.get("/sign-in?" + "x" * 8192).status_code == 414
    assert stranger.get("/sign-in?" + "x" * 8000).status_code == 200


# --- keeping others out -----------------------------------------------------------------------------


def test_who_tries_passwords_under_a_name_does_not_keep_out_a_browser_that_is_known(
    server: RunningServer,
) -> None:
    make_users(server, "una")
    numbers = count()

    def another_try(password: str) -> httpx.Response:
        high, low = divmod(next(numbers), 200)
        with from_address(server, f"198.51.{high}.{low}") as another:
            return another.post("/sign-in", name="UNA", password=password)

    with from_address(server, "192.0.2.1") as una:
        una.sign_in("una")
        una.post("/sign-out")
        assert [another_try("wrong").status_code for _ in range(20)] == [403] * 20
        answer = another_try(PASSWORD)
        assert (answer.status_code, title(answer)) == (429, "Too many attempts")
        una.sign_in("una")
        mark = una.http.cookies["keywright-known"]
    # Its failures count, and being known as Una's browser does not help for other names.
    with from_address(server, "192.0.2.9") as browser:
        browser.http.cookies.set("keywright-known", mark, domain="127.0.0.1", path="/admin")
        statuses = [browser.post("/sign-in", name="una", password="wrong").status_code for _ in range(11)]
    assert statuses == [403] * 10 + [429]


def test_a_crowd_that_tries_passwords_keeps_out_no_known_browser_and_no_session(
    server: RunningServer,
) -> None:
    make_users(server, "kim")
    is_over = threading.Event()
    statuses: list[int] = []

    def try_passwords(first: int) -> None:
        with from_address(server, f"10.{first}.0.1") as one:
            one.get("/sign-in")
            for number in count():
                if is_over.is_set():
                    return
                somewhere = {"X-Forwarded-For": f"10.{first}.{number % 250}.1"}
                form = {"name": f"{first}-{number}", "password": "wrong", "headers": somewhere}
                statuses.append(one.post("/sign-in", **form).status_code)

    with from_address(server, "192.0.2.3") as kim:
        kim.sign_in("kim")
        crowd = [threading.Thread(target=try_passwords, args=(number,)) for number in range(15)]
        for one in crowd:
            one.start()
        try:
            for _ in range(3):
                turned_away = statuses.count(503)
                wait_until(lambda: statuses.count(503) > turned_away, "strangers to be turned away")  # noqa: B023
                assert kim.is_signed_in()
                kim.post("/sign-out")
                kim.sign_in("kim")
        finally:
            is_over.set()
            for one in crowd:
                one.join()


def test_what_others_do_at_the_same_address_does_not_keep_out_a_browser_that_is_known(
    server: RunningServer,
) -> None:
    make_users(server, "kit")
    with from_address(server, "192.0.2.4") as kit, from_address(server, "192.0.2.4") as other:
        kit.sign_in("kit")
        kit.post("/sign-out")
        wait_until(lambda: other.post("/sign-in", name="kit", password="wrong").status_code == 429, "a limit")
        kit.sign_in("kit")


def test_what_makes_a_browser_known_is_good_for_one_user_and_one_password(server: RunningServer) -> None:
    make_users(server, "sue", "tim")
    with Visitor(server) as browser:
        mark = browser.sign_in("tim").http.cookies["keywright-known"]

    def mark_of(name: str) -> str:
        user = look_up(server, partial(find_user, name=name))
        return str(look_up(server, partial(device_mark, user=user)))

    assert (mark_of("tim"), mark_of("sue") == mark) == (mark, False)
    tim = look_up(server, partial(find_user, name="tim"))
    decide(server, ChangeUser(**asked(user_id=tim.id, password_hash="another")))
    assert mark_of("tim") != mark


# --- while something is under way -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change_of", "answer"),
    [({"is_disabled": True}, "/admin/sign-in"), ({"role": Role.READER}, "Your role does not allow this")],
)
def test_a_form_counts_only_if_who_sent_it_still_may_when_it_has_come(
    server: RunningServer, change_of: dict[str, object], answer: str
) -> None:
    name = "oda" if "role" in change_of else "uma"
    make_users(server, name)
    number = look_up(server, partial(find_user, name=name)).id
    decide(server, ChangeUser(**asked(user_id=number, role=Role.SUPPORT)))
    licenses = server.count("licenses")
    with Visitor(server) as una:
        una.sign_in(name)
        form = urlencode({"csrf_token": una.form_token, "key": f"KEY-{name}", "status": "active"}).encode()
        head = (
            f"POST /admin/licenses/new HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n"
            f"Cookie: keywright={una.token}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            f"Content-Length: {len(form)}\r\n\r\n"
        ).encode()
        with closing(socket.create_connection(("127.0.0.1", server.port))) as connection:
            connection.sendall(head + form[:10])
            # The server has read the first half once it responds to a later connection.
            assert una.is_signed_in()
            decide(server, ChangeUser(**asked(user_id=number, **change_of)))
            connection.sendall(form[10:])
            assert answer in connection.makefile("rb").read().decode()
    assert server.count("licenses") == licenses


def test_a_file_in_pieces_needs_a_version_of_http_that_knows_them(server: RunningServer) -> None:
    with Visitor(server) as ada:
        ada.sign_in("ada")
        request = (
            f"GET /admin/odd/file HTTP/1.0\r\nHost: x\r\nCookie: keywright={ada.token}\r\n\r\n"
        ).encode()
        with closing(socket.create_connection(("127.0.0.1", server.port))) as connection:
            connection.sendall(request)
            answer = connection.makefile("rb").read().decode()
    assert answer.startswith("HTTP/1.1 505 ")
    assert "proxy_http_version 1.1" in answer
