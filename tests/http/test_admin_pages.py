"""All pages: headers, error messages, files, and the log."""

import gzip
import json
import re
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import httpx
import pytest

from keywright.core.fields import EXAMPLE_KEY, EXAMPLE_TOKEN
from keywright.http.admin.app import STATIC_FOLDER
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.render import StaticFiles
from tests.http.admin_browser import PASSWORD, Visitor, make_users, said, title
from tests.http.admin_odd import PROGRAM
from tests.http.asking import Client
from tests.makers import all_errors
from tests.server import NO_LIMITS, RunningServer, running, wait_until
from tests.tables import each_row
from tests.unit.test_errors import an_error

PAGES = STATIC_FOLDER.parent
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    place = tmp_path_factory.mktemp("pages") / "data"
    with running(place, program=PROGRAM, log_level="debug", **NO_LIMITS) as server:
        make_users(server)
        yield server


@pytest.fixture
def stranger(server: RunningServer) -> Iterator[Visitor]:
    with Visitor(server) as stranger:
        yield stranger


def assert_page(answer: httpx.Response) -> None:
    """Check that the response is one of our pages, with the common headers."""
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert len(re.findall("<h1>", answer.text)) == 1
    assert len(re.findall("<main ", answer.text)) == 1
    # Nothing that the content security policy would block.
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?! src=\"/admin/static/)", answer.text)


@each_row(
    ("path", "status", "heading"),
    [
        ("/account", 200, "My account"),
        ("/no/such/page", 404, "There is no such page"),
        ("/odd/gone/7", 404, "There is no such page"),
        ("/odd/gone/seven", 404, "There is no such page"),
        ("/sign-out", 405, "This page does not accept this kind of request"),
        ("/odd/refused", 409, "Nothing was changed"),
        ("/odd/away", 503, "Please try again in a moment"),
        ("/odd/broken", 500, "Something went wrong"),
        ("/account/", 404, "There is no such page"),
    ],
)
def test_errors_are_pages_with_the_menu_for_who_is_signed_in(
    ada: Visitor, path: str, status: int, heading: str
) -> None:
    answer = ada.get(path)
    assert (answer.status_code, title(answer)) == (status, heading)
    assert_page(answer)
    assert "Main menu" in answer.text
    assert "SECRET" not in answer.text
    assert answer.headers.get("retry-after") == ("1" if status == 503 else None)


def test_errors_are_plain_pages_for_who_is_not(stranger: Visitor) -> None:
    for path, status, heading in (
        ("/sign-in", 200, "Sign in"),
        ("/no/such/page", 404, "There is no such page"),
        ("/sign-out", 405, "This page does not accept this kind of request"),
    ):
        answer = stranger.get(path)
        assert (answer.status_code, title(answer)) == (status, heading)
        assert_page(answer)
        assert "Main menu" not in answer.text
    assert stranger.get("/setup").status_code == 303


def test_a_refusal_says_its_sentence(ada: Visitor) -> None:
    assert "Another license already has this key." in said(ada.get("/odd/refused"))


def test_what_cannot_be_done_here_says_what_can(ada: Visitor) -> None:
    assert ada.get("/sign-out").headers["allow"] == "POST"
    assert ada.http.delete("/admin/account").headers["allow"] == "GET, HEAD"


def test_somebody_who_may_not_is_told_what_they_may(carol: Visitor) -> None:
    for answer in (carol.get("/odd/administer"), carol.post("/odd/administer")):
        assert (answer.status_code, title(answer)) == (403, "Your role does not allow this")
        assert "A reader can view" in said(answer)
        assert_page(answer)


def test_what_our_program_asks_is_answered_with_a_text(ada: Visitor, stranger: Visitor) -> None:
    ours = {"X-Requested-With": "keywright"}
    answer = ada.get("/odd/refused", **ours)
    assert (answer.status_code, answer.text) == (409, "Another license already has this key.")
    # Not the sign-in page, which would be inserted into the requesting page.
    answer = stranger.get("/odd", **ours)
    assert (answer.status_code, answer.headers["content-type"]) == (401, "text/plain; charset=utf-8")


@contextmanager
def without(server: RunningServer, table: str) -> Iterator[None]:
    """Rename a table of the database during the block."""
    with closing(sqlite3.connect(server.data_dir / "keywright.db", isolation_level=None)) as connection:
        connection.execute(f"ALTER TABLE {table} RENAME TO gone")
        try:
            yield
        finally:
            connection.execute(f"ALTER TABLE gone RENAME TO {table}")


def test_a_database_that_does_not_answer_is_a_page_too(ada: Visitor) -> None:
    with without(ada.server, "sessions"):
        for path in ("/account", "/odd", "/"):
            answer = ada.get(path)
            assert (answer.status_code, title(answer)) == (503, "Please try again in a moment")
            assert_page(answer)
    assert ada.is_signed_in()


def test_a_change_that_cannot_be_made_is_a_page_with_the_menu(ada: Visitor) -> None:
    fields = {"password": PASSWORD, "new_password": "another password", "repeated": "another password"}
    form_token = ada.form_token
    with without(ada.server, "events"):
        answer = ada.post("/account/password", csrf_token=form_token, **fields)
        assert (answer.status_code, title(answer)) == (503, "Please try again in a moment")
        assert "Main menu" in answer.text
    with Visitor(ada.server) as again:
        again.sign_in("ada")


def test_a_page_that_cannot_even_say_why_is_short(ada: Visitor) -> None:
    answer = ada.get("/odd/half")
    assert (answer.status_code, title(answer)) == (500, "Something went wrong")


def test_texts_of_others_are_escaped(ada: Visitor) -> None:
    """All texts except those in quoted attributes; tests/browser/test_payloads.py tries payloads."""
    assert "Odd &lt;script&gt;" in ada.get("/account").text
    templates = "".join(one.read_text() for one in PAGES.rglob("*.html"))
    assert set(re.findall(r"(\S+)\s*\|\s*safe\b", templates)) == {
        'aria-current="page"\'',
        'class="muted">—</span>\'',
    }
    assert "autoescape" not in templates


def test_a_file_comes_in_pieces_with_its_name(ada: Visitor) -> None:
    answer = ada.get("/odd/file")
    assert answer.text == "0,3\n1,3\n2,3\n"
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''licenses%20%C3%BC.csv"
    assert answer.headers["cache-control"] == "no-store"


def test_the_files_of_the_pages_may_be_kept_for_good(stranger: Visitor) -> None:
    page = stranger.get("/sign-in").text
    names = re.findall(r'(?:href|src)="/admin(/static/[^"]+)"', page)
    assert sorted(re.sub(r"\.[0-9a-f]{12}\.", ".", name) for name in names) == [
        "/static/admin.css",
        "/static/admin.js",
        "/static/look.css",
        "/static/mark.svg",
    ]
    for name in names:
        answer = stranger.get(name)
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["vary"] == "accept-encoding"
        assert answer.headers["x-content-type-options"] == "nosniff"
        plain = stranger.get(name, **{"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.content == answer.content
        assert stranger.get(name, **{"If-None-Match": answer.headers["etag"]}).status_code == 304
        # A file of another release is not found.
        assert stranger.get(re.sub(r"\.[0-9a-f]{12}\.", ".000000000000.", name)).status_code == 404


def test_the_files_of_the_pages_are_small() -> None:
    files = StaticFiles(STATIC_FOLDER)._files
    sizes = {name: len(gzip.decompress(file.compressed)) for name, file in files.items()}
    small = {re.sub(r"\.[0-9a-f]{12}\.", ".", name): size for name, size in sizes.items()}
    assert small["admin.css"] <= 32 * 1024
    assert small["admin.js"] + small["find.js"] <= 20 * 1024
    assert sum(len(file.compressed) for file in files.values()) <= 16 * 1024


def test_no_page_asks_another_host_for_anything(ada: Visitor, stranger: Visitor) -> None:
    pages = [ada.get("/account"), stranger.get("/sign-in"), ada.get("/odd/refused")]
    files = [stranger.get(name) for name in re.findall(r'"/admin(/static/[^"]+)"', pages[0].text)]
    for answer in (*pages, *files):
        # The names of formats are not addresses.
        found = set(re.findall(r"https?://[^\s\"'()<>]+", answer.text))
        assert all(one.startswith("http://www.w3.org/") for one in found)
        assert not re.search(r"@import|url\((?![\"']?data:)", answer.text)


def test_every_error_has_a_sentence_for_people() -> None:
    for kind in all_errors():
        if kind.__name__ in ("ConfigurationError", "StoreError", "WorkerFailed"):
            continue
        status, heading, sentence = message_for(an_error(kind))
        assert 400 <= status <= 503
        assert heading[0].isupper()
        assert heading[-1] not in "."
        assert re.fullmatch(r"[A-Z].*\.", sentence)
        assert "{" not in sentence
        assert EXAMPLE_KEY not in sentence
        assert EXAMPLE_TOKEN not in sentence


def test_the_log_has_a_line_a_page_and_no_secret_in_it(ada: Visitor, stranger: Visitor) -> None:
    server = ada.server
    before = len(server.log)
    stranger.post("/sign-in", name="CANARY", password="CANARY", next="/admin/CANARY")
    stranger.get("/CANARY")
    stranger.get("/sign-in?next=/admin/CANARY")
    stranger.get("/setup?token=CANARY")
    ada.get("/odd?q=CANARY")
    ada.get("/odd/broken")
    ada.post("/odd/form", text="CANARY")
    wrong = {"password": "CANARY wrong", "new_password": "CANARY", "repeated": "CANARY"}
    assert ada.post("/account/password", **wrong).status_code == 422
    # The line is written after the response.
    wait_until(lambda: '"/admin/account/password"' in server.log[before:], "its line")
    log = server.log[before:]
    lines = [json.loads(line) for line in log.splitlines()]
    routes = [line["route"] for line in lines if line["event"] == "request"]
    assert {"/admin/odd", "/admin/sign-in", "/admin/setup", "none", "/admin/account/password"} <= {*routes}
    for secret in ("CANARY", ada.token, ada.form_token, stranger.token, "SECRET"):
        assert secret not in log
        assert secret not in server.log


def test_nothing_of_the_pages_is_loaded_before_somebody_comes(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = tmp_path_factory.mktemp("lazy") / "data"
    program = (
        "import atexit, sys; from keywright.cli import main\n"
        "heavy = ('jinja2', 'keywright.http.admin.app', 'argon2')\n"
        "loaded = lambda: [one for one in heavy if one in sys.modules]\n"
        "atexit.register(lambda: print('loaded:', loaded(), flush=True))\n"
        "main(sys.argv[1:])"
    )
    with running(place, program=(sys.executable, "-P", "-c", program)) as server:
        with Client(server, server.api_key()) as vendor:
            assert vendor.get("licenses/validate/none").status == 404
        server.stop()
        assert "loaded: []" in server.log
        server.start()
        assert httpx.get(f"{server.base_url}/admin/sign-in").status_code == 200
        server.stop()
        assert "loaded: ['jinja2', 'keywright.http.admin.app']" in server.log


def test_pages_do_not_hold_up_each_other_or_the_calls(ada: Visitor) -> None:
    with Client(ada.server, ada.server.api_key()) as vendor:
        key = vendor.license()
        path = f"/odd/slow?until={time.time() + 5}"
        slow = [threading.Thread(target=ada.get, args=(path,)) for _ in range(3)]
        for one in slow:
            one.start()
        for _ in range(20):
            assert vendor.get(f"licenses/validate/{key}").status == 200
        assert any(one.is_alive() for one in slow)
        for one in slow:
            one.join()
    # All three threads slept, and requests waited.
    assert ada.get("/odd").status_code == 200


def test_too_many_who_wait_are_told_so(ada: Visitor) -> None:
    # Until then, nothing progresses.
    moment = time.time() + 5
    request = (
        f"GET /admin/odd/slow?until={moment} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Cookie: keywright={ada.token}\r\n\r\n"
    ).encode()
    with ExitStack() as stack:
        crowd = [
            stack.enter_context(socket.create_connection(("127.0.0.1", ada.server.port))) for _ in range(150)
        ]
        for one in crowd:
            one.sendall(request)
        answers = [one.makefile("rb").read() for one in crowd]
    statuses = [int(answer[9:12]) for answer in answers]
    assert set(statuses) == {200, 503}
    assert statuses.count(200) >= 100
    assert all(b"retry-after: 1" in one for one in answers if one[9:12] == b"503")
    assert ada.get("/odd").status_code == 200


def test_a_page_under_way_is_made_before_the_server_ends(tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("leaving") / "data"
    with running(place, program=PROGRAM, **NO_LIMITS) as server:
        make_users(server, "ada")
        with Visitor(server) as ada:
            ada.sign_in("ada")
            texts: list[str] = []
            slow = threading.Thread(
                target=lambda: texts.append(ada.get(f"/odd/slow?until={time.time() + 2}").text)
            )
            slow.start()
            with Visitor(server) as other:
                other.get("/sign-in")
            assert server.stop() == 0
            slow.join()
        assert texts == ["at last"]
        assert "Traceback" not in server.log
