"""Forms: the server accepts only complete ones that its own pages sent."""

from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest

from tests.http.admin_browser import Visitor, make_users, said, title
from tests.http.admin_odd import PROGRAM
from tests.http.conftest import assert_clean
from tests.server import NO_LIMITS, RunningServer, running
from tests.tables import each_row

NOT_FROM_HERE = "This form is no longer valid"
NOT_READABLE = "The request is not valid"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    place = tmp_path_factory.mktemp("forms") / "data"
    with running(place, program=PROGRAM, body_limit=4096, **NO_LIMITS) as server:
        make_users(server)
        yield server
        assert_clean(server)


def test_a_form_of_ours_counts(bob: Visitor) -> None:
    answer = bob.post("/odd/form", id_=["7", "8", "7"], text=" a\r\nb ")
    assert answer.text == repr((["7", "8", "7"], "a\nb", " a\nb "))


def test_a_form_without_its_token_does_not(bob: Visitor, server: RunningServer) -> None:
    with Visitor(server) as carol:
        carol.sign_in("carol")
        others = carol.form_token
    for token in ("", "x", "ü", others, bob.form_token[:-1], bob.form_token.upper()):
        answer = bob.post("/odd/form", csrf_token=token)
        assert (answer.status_code, title(answer)) == (403, NOT_FROM_HERE)
    assert bob.http.post("/admin/odd/form", data={"text": "x"}).status_code == 403
    assert bob.http.post("/admin/odd/form").status_code == 403


def test_a_program_of_our_page_may_say_the_token_in_a_header(bob: Visitor) -> None:
    right, wrong = {"X-CSRF-Token": bob.form_token}, {"X-CSRF-Token": "x"}
    assert bob.http.post("/admin/odd/form", data={"text": "x"}, headers=right).status_code == 200
    assert bob.http.post("/admin/odd/form", data={"text": "x"}, headers=wrong).status_code == 403


@each_row(
    ("headers", "is_ours"),
    [
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": ""}, False),
        ({"Origin": "http://127.0.0.1"}, False),
        ({"Origin": "http://127.0.0.1:1"}, False),
        ({"Origin": "http://127.0.0.1.evil.example"}, False),
        ({"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Host": "keys.example", "Origin": "https://keys.example"}, True),
        ({"Host": "keys.example", "Origin": "https://KEYS.example"}, True),
        ({"Host": "keys.example:8443", "Origin": "https://keys.example:8443"}, True),
        ({"Host": "keys.example:8443", "Origin": "https://keys.example"}, False),
        ({"Host": "keys.example:443", "Origin": "https://keys.example"}, True),
        # A proxy that forwards the host without its port.
        ({"Host": "keys.example", "Origin": "https://keys.example:8443"}, True),
        ({"Host": "[::1]:8000", "Origin": "http://[::1]:8000"}, True),
        # An old browser sends no such headers; then only the token counts.
        ({}, True),
    ],
)
def test_a_form_of_another_site_does_not_count(bob: Visitor, headers: dict[str, str], is_ours: bool) -> None:
    form = {"csrf_token": bob.form_token, "text": "x"}
    answer = bob.http.post("/admin/odd/form", data=form, headers=headers)
    # The client sends a cookie only to its host; the test's Host header is for the server.
    assert (answer.status_code, title(answer)) == ((200, "") if is_ours else (403, NOT_FROM_HERE))


def test_signing_in_is_guarded_in_the_same_way(server: RunningServer) -> None:
    with Visitor(server) as stranger:
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            answer = stranger.post("/sign-in", headers=headers, name="ada", password="x")
            assert title(answer) == NOT_FROM_HERE
        assert title(stranger.post("/sign-in", csrf_token="", name="ada", password="x")) == NOT_FROM_HERE
        stranger.get("/sign-in")
        stranger.http.cookies.clear()
        without_cookie = stranger.post("/sign-in", name="ada", password="x", csrf_token="0" * 64)
        assert title(without_cookie) == NOT_FROM_HERE


@each_row(
    ("body", "kind", "status"),
    [
        (b"text=%FF", "application/x-www-form-urlencoded", 400),
        ("text=ü".encode(), "application/x-www-form-urlencoded", 400),
        (b"text=%00", "application/x-www-form-urlencoded", 400),
        (b"%00=text", "application/x-www-form-urlencoded", 400),
        (b"text=%ED%A0%80", "application/x-www-form-urlencoded", 400),
        (b"&".join([b"id=1"] * 1001), "application/x-www-form-urlencoded", 413),
        (b"a&" * 1001, "application/x-www-form-urlencoded", 400),
        (b"x=" + b"y" * 4096, "application/x-www-form-urlencoded", 413),
        (b'{"text": "x"}', "application/json", 400),
        (b"--x\r\n\r\n--x--", "multipart/form-data; boundary=x", 400),
        (b"text=x", "text/plain", 400),
        (b"text=x", "", 400),
    ],
)
def test_what_is_no_form_is_refused_in_words(bob: Visitor, body: bytes, kind: str, status: int) -> None:
    headers = {"Content-Type": kind, "X-CSRF-Token": bob.form_token}
    answer = bob.http.post("/admin/odd/form", content=body, headers=headers)
    assert (answer.status_code, title(answer)) == (status, NOT_READABLE)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_a_compressed_form_and_a_query_that_is_none_are_refused_too(bob: Visitor) -> None:
    headers = {"Content-Encoding": "gzip", "X-CSRF-Token": bob.form_token}
    answer = bob.http.post("/admin/odd/form", content=b"x", headers=headers)
    assert (answer.status_code, title(answer)) == (415, NOT_READABLE)
    for query in ("q=%FF", "q=%00", "q=" + "&q=" * 1001):
        answer = bob.get(f"/odd?{query}")
        assert (answer.status_code, title(answer)) == (400, NOT_READABLE)
    assert bob.get(f"/odd?{urlencode({'q': 'ü b'})}").text.startswith("ü b ")


def test_what_must_be_confirmed_is_asked_first(bob: Visitor) -> None:
    asks = bob.get("/odd/confirm")
    assert title(asks) == "Really <b>?"
    assert "It goes. Delete it Cancel" in said(asks)
    assert 'name="thing" value="&#34;&gt;&lt;i&gt;"' in asks.text
    done = bob.post("/odd/confirm", thing="ü<b>")
    assert (done.status_code, done.headers["location"]) == (303, "/admin/account")
    assert "Gone: ü<b>." in said(bob.get("/account"))


def test_a_note_that_somebody_else_wrote_is_not_shown(bob: Visitor) -> None:
    forged = bob.http.build_request("GET", "/admin/account")
    for note in ("MHRydXN0IG1l.0123", "MHRydXN0IG1l.", "%%%", "", "x" * 3000, quote("0trust me.") + ".x"):
        forged.headers["Cookie"] = f"keywright={bob.token}; keywright_said={note}"
        assert "trust me" not in bob.http.send(forged).text
