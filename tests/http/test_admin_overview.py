"""The overview page."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from keywright.licensing.licenses.model import Status
from keywright.maintenance.backup import note_backup
from keywright.provisioning.brand import SaveBrand
from tests.http import admin_altered
from tests.http.admin_altered import MAY_COUNT
from tests.http.admin_browser import Visitor, asked, decide, make_users, said
from tests.http.admin_licenses import activate, follow, make
from tests.http.asking import Client
from tests.makers import create_policy, create_product
from tests.server import NO_LIMITS, RunningServer, running, wait_until


@pytest.fixture(scope="module")
def server(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A new server; the tests below build on each other."""
    with running(tmp_path_factory.mktemp("overview") / "data", database, **NO_LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def visitors(ada: Visitor, bob: Visitor, carol: Visitor) -> dict[str, Visitor]:
    return {"ada": ada, "bob": bob, "carol": carol}


STEPS = {
    "/products/new": "A product",
    "/policies/new?product_id=": "A policy for the product",
    "/connections/new": "Your shop",
    "/settings#address": "The public address",
    "/settings#mail": "A mail server",
    "/portal": "Brand and portal",
    "/users/new": "A colleague",
    "/account/second-factor": "A second factor",
    "/settings#backups": "Daily backups",
    "/products#program": "Your program",
}


def done(visitor: Visitor) -> list[str]:
    """The completed steps of the set-up."""
    text = said(visitor.get("/overview"))
    return [title for title in STEPS.values() if re.search(rf"{title} done", text)]


def test_an_administrator_sees_the_first_steps_and_others_what_they_may_do(
    visitors: dict[str, Visitor],
) -> None:
    page = visitors["ada"].get("/overview").text
    assert [path for path in STEPS if f'<b><a href="/admin{path}">' not in page] == []
    for path in STEPS:
        # The links of steps work.
        assert visitors["ada"].get(path.partition("#")[0]).status_code == 200, path
    for name, may_make in (("bob", True), ("carol", False)):
        answer = visitors[name].get("/overview")
        assert "of 10 done" not in said(answer)
        assert "Their figures will appear here" in said(answer)
        assert ('href="/admin/licenses/new"' in answer.text) == may_make


def test_each_step_has_its_state_as_measured(server: RunningServer, visitors: dict[str, Visitor]) -> None:
    ada = visitors["ada"]
    # Bob and Carol exist.
    assert done(ada) == ["A colleague"]
    [product] = decide(server, create_product(17))
    assert f"/policies/new?product_id={product.id}" in ada.get("/overview").text
    decide(server, create_policy())
    # That policy belongs to no product.
    assert done(ada) == ["A product", "A colleague"]
    decide(server, create_policy(product_id=product.id))
    decide(server, SaveBrand(**asked(name="Larch", color=None, links=())))
    ada.post("/settings/address", public_url="https://keys.example.com", time_zone="UTC")
    ada.post("/settings/backups", backup_daily_at="03:30", backup_keep="14")
    steps = ["A product", "A policy for the product", "The public address", "Brand and portal"]
    assert done(ada) == [*steps, "A colleague", "Daily backups"]
    text = said(ada.get("/overview"))
    assert "6 of 10 done" in text
    assert "The public address done: https://keys.example.com" in text
    assert "Daily backups done: 03:30 UTC" in text
    assert f"/products/{product.id}#program" in ada.get("/overview").text
    ada.post("/settings/address", public_url="", time_zone="UTC")
    assert "The public address" not in done(ada)


def test_the_steps_can_be_put_away_and_brought_back(visitors: dict[str, Visitor]) -> None:
    ada = visitors["ada"]
    ada.post("/settings/start")
    assert "of 10 done" not in said(ada.get("/overview"))
    ada.post("/settings/start", getting_started="yes")
    assert "of 10 done" in said(ada.get("/overview"))
    ada.post("/settings/start")


def test_what_does_not_go_on_is_said_and_leads_to_the_page_that_says_more(
    server: RunningServer, visitors: dict[str, Visitor]
) -> None:
    # Other problems of the same server may also be shown.
    assert "The last backup is too old." not in said(visitors["ada"].get("/overview"))
    with server.storage() as storage:
        note_backup(server.database_url, storage.key_ring, datetime.now(UTC) - timedelta(hours=30))
    link = '<li><a href="/admin/system">The last backup is too old.</a></li>'
    answers = {name: visitors[name].get("/overview").text for name in visitors}
    assert all("Needs attention" in text for text in answers.values())
    assert [name for name, text in answers.items() if link in text] == ["ada"]
    assert {"<li>The last backup is too old.</li>" in answers[name] for name in ("bob", "carol")} == {True}
    with server.storage() as storage:
        note_backup(server.database_url, storage.key_ring, datetime.now(UTC))
    assert "The last backup is too old." not in said(visitors["ada"].get("/overview"))


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
    figures = ("Licenses 3", "Activations 1", "Sold 1", "Active 2", "No free place 1", "Never activated 2")
    assert [one for one in (*figures, "Expire within 30 days 1") if one not in text] == []
    assert "of 10 done" not in text
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
        # It is polled repeatedly, and a screen reader should not read it.
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
    for words in ("License changed {} by bob Status: active → , now disabled", "deleted {} by bob"):
        assert words.format(f"license {license.id}") in text
    page = visitors["carol"].get("/overview").text
    assert (license.key in page, f'href="/admin/licenses/{license.id}"' in page) == (False, False)
