"""The overview page."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from keywright.identity.model import Permissions
from keywright.licensing.licenses.model import Status
from keywright.maintenance.backup import note_backup
from keywright.provisioning.policies.model import CreatePolicy
from tests.http import admin_altered
from tests.http.admin_altered import MAY_COUNT
from tests.http.admin_browser import Visitor, asked, decide, make_users, said
from tests.http.admin_licenses import activate, follow, make
from tests.http.asking import Client
from tests.server import NO_LIMITS, RunningServer, running, wait_until


@pytest.fixture(scope="module")
def server(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A new server; the tests below build on each other."""
    with running(tmp_path_factory.mktemp("overview") / "data", database, **NO_LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def visitors(ada: Visitor, bob: Visitor, carol: Visitor) -> dict[str, Visitor]:
    return {"ada": ada, "bob": bob, "carol": carol}


def test_a_new_installation_says_what_to_do_next(visitors: dict[str, Visitor]) -> None:
    """And links to nothing that is not allowed."""
    links = {
        "ada": {"/api-keys": 2, "/policies": 2, "/licenses/new": 1},
        "bob": {"/api-keys": 0, "/licenses/new": 1},
        "carol": {"/api-keys": 0, "/licenses/new": 0},
    }
    for name, expected in links.items():
        answer = visitors[name].get("/overview")
        assert answer.status_code == 200
        assert "Getting started" in said(answer)
        for path, times in expected.items():
            # One of them in the menu.
            assert answer.text.count(f'href="/admin{path}"') == times, (name, path)
    assert "Only administrators create" in said(visitors["bob"].get("/overview"))
    assert "Their figures will appear here" in said(visitors["carol"].get("/overview"))


def test_what_is_done_already_is_ticked_off(server: RunningServer, visitors: dict[str, Visitor]) -> None:
    assert "done" not in said(visitors["ada"].get("/overview"))
    server.api_key(Permissions.READ_WRITE)
    recipe = {"name": "Hex", "charset": "0123456789ABCDEF", "chunks": 4, "chunk_length": 5}
    decide(server, CreatePolicy(**asked(**recipe)))
    assert said(visitors["ada"].get("/overview")).count(" done ") == 2


def test_what_does_not_go_on_is_said_and_leads_to_the_page_that_says_more(
    server: RunningServer, visitors: dict[str, Visitor]
) -> None:
    assert "Needs attention" not in said(visitors["ada"].get("/overview"))
    with server.storage() as storage:
        note_backup(server.database_url, storage.key_ring, datetime.now(UTC) - timedelta(hours=30))
    link = '<li><a href="/admin/system">The last backup is too old.</a></li>'
    answers = {name: visitors[name].get("/overview").text for name in visitors}
    assert {name: link in text for name, text in answers.items()} == {
        "ada": True,
        "bob": False,
        "carol": False,
    }
    assert {"<li>The last backup is too old.</li>" in answers[name] for name in ("bob", "carol")} == {True}
    with server.storage() as storage:
        note_backup(server.database_url, storage.key_ring, datetime.now(UTC))
    assert "Needs attention" not in said(visitors["ada"].get("/overview"))


def test_the_figures_are_of_this_moment_and_lead_to_the_licenses(
    server: RunningServer, visitors: dict[str, Visitor]
) -> None:
    now = asked()["context"].now
    full = make(server, times_activated_max=1)
    activate(server, full)
    make(server, status=Status.SOLD)
    make(server, expires_at=now + timedelta(days=3))
    follow(server)
    answer = visitors["carol"].get("/overview")
    text = said(answer)
    for words in (
        "Licenses 3",
        "Activations 1",
        "Sold 1",
        "Active 2",
        "No free place 1",
        "Never activated 2",
        "Expire within 30 days 1",
    ):
        assert words in text, words
    assert "Getting started" not in text
    assert "Licenses counted at" not in text
    for query in ("status=sold", "places=full", "places=unused", "expiring=30&amp;sort=expires"):
        assert f'href="/admin/licenses?{query}"' in answer.text
    make(server, status=Status.SOLD)
    assert "Sold 2" in said(visitors["carol"].get("/overview"))


def test_who_was_refused_at_the_limit_is_shown(server: RunningServer, visitors: dict[str, Visitor]) -> None:
    license = make(server, times_activated_max=1)
    with Client(server) as program:
        assert program.ask("GET", f"licenses/activate/{license.key}").status == 200
        for _ in range(3):
            assert program.ask("GET", f"licenses/activate/{license.key}").status != 200
    wait_until(lambda: server.count("limit_refusals"), "the refusals to be kept")
    answer = visitors["carol"].get("/overview")
    assert "refused 3 times" in said(answer)
    assert f'href="/admin/licenses/{license.id}"' in answer.text
    assert license.key not in answer.text


def test_old_figures_say_of_when_they_are_until_others_are_counted(tmp_path: Path) -> None:
    program, may_count = admin_altered.altered(admin_altered.count_when_told), tmp_path / MAY_COUNT
    may_count.touch()
    with running(tmp_path / "data", program=program) as server, Visitor(server) as carol:
        make_users(server)
        make(server)
        assert "Licenses 1" in said(carol.sign_in("carol").get("/overview"))
        wait_until(lambda: "data-done" in carol.get("/overview/counted").text, "recent figures")
        may_count.unlink()
        make(server)
        wait_until(lambda: "a new count is running" in said(carol.get("/overview")), "the figures to be old")
        answer = carol.get("/overview")
        assert re.search(r"Licenses counted at .+? UTC ; a new count is running\.", said(answer))
        assert "Licenses 1" in said(answer)
        assert 'data-refresh="/admin/overview/counted"' in answer.text
        # It is asked again and again, and says nothing to whoever listens.
        assert carol.get("/overview/counted").text.strip() == ""
        may_count.touch()
        wait_until(lambda: "data-done" in carol.get("/overview/counted").text, "the figures")
        wait_until(lambda: "Licenses 2" in said(carol.get("/overview")), "the new figures")


def test_what_happened_last_is_told_in_plain_words(
    server: RunningServer, visitors: dict[str, Visitor]
) -> None:
    license = make(server)
    visitors["bob"].post(f"/licenses/{license.id}/disable")
    assert f'href="/admin/licenses/{license.id}"' in visitors["carol"].get("/overview").text
    visitors["bob"].post(f"/licenses/{license.id}/delete")
    text = said(visitors["carol"].get("/overview"))
    assert f"License changed license {license.id} by bob Status: active → , now disabled" in text
    assert f"deleted license {license.id} by bob" in text
    assert f"License created license {license.id} by tests at the terminal" in text
    answer = visitors["carol"].get("/overview")
    assert license.key not in answer.text
    assert f'href="/admin/licenses/{license.id}"' not in answer.text
