"""The page about the system: its state, backups and the doctor."""

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from filelock import FileLock

from keywright import __version__
from keywright.core.crypto import KeyRing
from keywright.db import migrate
from keywright.db.migrate import HEAD
from keywright.licensing.licenses.model import CreateLicense, Status
from keywright.maintenance.backup import Backup
from keywright.maintenance.clock import believing
from tests.databases import a_postgres_url
from tests.http import admin_altered
from tests.http.admin_browser import Visitor, asked, decide, make_users, said
from tests.http.conftest import assert_clean
from tests.server import RunningServer, running, wait_until
from tools.postgres import binaries

_FILE = re.compile(r"keywright-\d{8}-\d{6}\.tar")


@pytest.fixture(scope="module")
def server(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with pg_dump on PATH, and one license."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{binaries()}{os.pathsep}{os.environ['PATH']}")
        with running(tmp_path_factory.mktemp("system") / "data", database) as server:
            make_users(server)
            decide(server, CreateLicense(**asked(key="CANARY-IN-BACKUP", status=Status.ACTIVE)))
            yield server
            server.assert_consistent()
    assert_clean(server)


def events_of(visitor: Visitor, name: str) -> list[tuple[str, str]]:
    """The actors and details of the events with this name."""
    return visitor.server.sql("SELECT actor, details FROM events WHERE name = ? ORDER BY id", name)


def is_over(visitor: Visitor, kind: str) -> bool:
    """Whether the script in the browser would stop polling."""
    return "data-done" in visitor.get(f"/system/tasks/{kind}").text


def a_backup(ada: Visitor) -> str:
    """Make a backup; return its file name."""
    before, made = files(ada), len(events_of(ada, "backup.made"))
    assert ada.post("/system/backup").headers["location"] == "/admin/system"
    assert "A backup is being made." in said(ada.get("/system"))
    wait_until(lambda: len(events_of(ada, "backup.made")) > made, "a backup")
    return next(one for one in files(ada) if one not in before)


def files(visitor: Visitor) -> list[str]:
    """The files that the page lists."""
    return list(dict.fromkeys(_FILE.findall(visitor.get("/system").text)))


def test_it_says_what_runs_here_and_how_it_is(ada: Visitor, database: str) -> None:
    page = said(ada.get("/system"))
    kind = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[database]
    assert f"Keywright {__version__}" in page
    assert re.search(rf"Database {kind} \d+\.[\d.]+ Database size [\d.]+ [kM]B Schema version {HEAD}", page)
    assert f"Data directory {ada.server.data_dir}" in page
    assert re.search(r"Calls per second [\d.]+ in the last \d+ s, [\d,]+ in total", page)
    assert re.search(r"Waiting at the desk \d+ at most 4,096", page)
    assert re.search(r"Memory \d+\.\d MB Uptime \d+ (s|min)", page)
    assert "Signed in 1 session" in page
    wait_until(lambda: "The search index is up to date." in said(ada.get("/system")), "the search")


def test_calls_are_counted(ada: Visitor) -> None:
    def calls() -> int:
        found = re.search(r"([\d,]+) in total", said(ada.get("/system")))
        assert found is not None
        return int(found[1].replace(",", ""))

    before = calls()
    for _ in range(7):
        httpx.get(f"{ada.server.base_url}/wp-json/lmfwc/v2/licenses/validate/NO-SUCH-KEY")
    assert calls() == before + 7


def test_a_backup_is_made_kept_and_given_out(ada: Visitor) -> None:
    name = a_backup(ada)
    path = ada.server.data_dir / "backups" / name
    with closing(Backup(path)) as backup:
        signed_by = KeyRing((ada.server.data_dir / "secret").read_text().strip().encode())
        backup.read(None, lambda *_: None, signed_by=signed_by)
        assert backup.manifest.contents.licenses == 1
        assert not backup.manifest.has_secret
    assert path.stat().st_mode & 0o077 == 0
    page = said(ada.get("/system"))
    assert "The backup contains everything as it was at" in page
    assert "It does not include the secret" in page
    assert re.search(rf"{name} [\d.]+ [kM]B", page)
    actor, details = events_of(ada, "backup.made")[-1]
    assert actor.startswith("user:")
    assert json.loads(details) == {"file": name, "size": path.stat().st_size}

    answer = ada.post(f"/system/backups/{name}/fetch")
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert answer.content == path.read_bytes()
    assert answer.headers["content-type"] == "application/x-tar"
    assert name in answer.headers["content-disposition"]
    assert events_of(ada, "backup.fetched")[-1] == (actor, f'{{"file":"{name}"}}')
    assert b"CANARY-IN-BACKUP" not in answer.content

    assert f"Delete the backup {name}?" in said(ada.get(f"/system/backups/{name}/delete"))
    ada.post(f"/system/backups/{name}/delete")
    assert f"The backup {name} was deleted." in said(ada.get("/system"))
    assert not path.exists()
    assert events_of(ada, "backup.deleted")[-1] == (actor, f'{{"file":"{name}"}}')


def test_what_is_no_backup_is_not_given_out(ada: Visitor) -> None:
    (ada.server.data_dir / "backups").mkdir(exist_ok=True)
    (ada.server.data_dir / "backups" / "notes.txt").write_text("mine")
    for name in ("notes.txt", "keywright-20260101-000000.tar", "..%2Fsecret", "..", "%2e%2e%2fsecret"):
        for path in (f"/system/backups/{name}/fetch", f"/system/backups/{name}/delete"):
            assert ada.post(path).status_code == 404, path
    assert (ada.server.data_dir / "backups" / "notes.txt").exists()
    assert (ada.server.data_dir / "secret").exists()
    assert "notes.txt" not in ada.get("/system").text


def test_nothing_is_begun_while_something_is_being_done(ada: Visitor) -> None:
    wait_until(lambda: is_over(ada, "backup") and is_over(ada, "examination"), "the last one")
    folder = ada.server.data_dir / "tasks"
    folder.mkdir(exist_ok=True)
    with FileLock(folder / "lock"):
        for path in ("/system/backup", "/system/examine"):
            assert ada.post(path).headers["location"] == "/admin/system"
            assert "A backup or a check is already running." in said(ada.get("/system"))


def test_what_a_server_did_not_see_end_nobody_knows(ada: Visitor) -> None:
    for kind in ("backup", "examination"):
        wait_until(lambda: is_over(ada, kind), "the last one")  # noqa: B023
        file = ada.server.data_dir / "tasks" / f"{kind}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f'{{"kind":"{kind}","state":"running","started_at":"2026-01-15T12:30:45Z"}}')
        assert "The server stopped during the last" in said(ada.get("/system"))
        assert is_over(ada, kind)
        file.unlink()


def test_the_doctor_looks_at_everything(ada: Visitor) -> None:
    ada.post("/system/examine")
    assert "The database is being checked." in said(ada.get("/system"))
    wait_until(lambda: events_of(ada, "system.examined"), "the doctor")
    page = said(ada.get("/system"))
    assert "Looked at 1 license and 0 activations" in page
    assert "no problems found." in page
    assert events_of(ada, "system.examined")[-1][1] == '{"outcome":"everything is in order"}'


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Visitor]:
    """Ada at a separate server, without PostgreSQL's programs on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with ada_at(tmp_path / "data") as ada:
        yield ada
        assert_clean(ada.server)


def test_what_the_doctor_finds_is_said_with_what_mends_it(alone: Visitor) -> None:
    server = alone.server
    decide(server, CreateLicense(**asked(key="ODD-LICENSE", status=Status.ACTIVE)))
    with closing(sqlite3.connect(server.data_dir / "keywright.db")) as connection, connection:
        connection.execute("UPDATE licenses SET times_activated = 3, places = 5")
    alone.post("/system/examine")
    wait_until(lambda: events_of(alone, "system.examined"), "the doctor")
    page = said(alone.get("/system"))
    assert "License 1 has an activation count of 3, but 0 active activations." in page
    assert "problems found, see above." in page
    command = f"keywright doctor --repair --data-dir {server.data_dir}"
    assert command in unescape(page)
    assert events_of(alone, "system.examined")[-1][1] == '{"outcome":"something is wrong"}'
    server.cli("doctor", "--repair")
    alone.post("/system/examine")
    wait_until(lambda: len(events_of(alone, "system.examined")) == 2, "the doctor")
    assert "no problems found." in said(alone.get("/system"))


def test_a_time_that_looks_wrong_is_said_until_a_person_confirms_it(alone: Visitor) -> None:
    warning = "The clock of this server looks wrong"
    assert warning not in said(alone.get("/system"))
    with closing(sqlite3.connect(alone.server.data_dir / "keywright.db")) as connection, connection:
        connection.execute(believing(datetime(2020, 1, 1, tzinfo=UTC)))
    assert f"{warning}: the last moment known to be right was 2020-01-01 00:00" in said(alone.get("/system"))
    alone.post("/system/clock")
    assert warning not in said(alone.get("/system"))
    assert len(events_of(alone, "clock.confirmed")) == 1


def test_a_backup_that_cannot_be_made_is_said_and_not_listed(alone: Visitor) -> None:
    (alone.server.data_dir / "backups").write_text("not a folder")
    alone.post("/system/backup")
    assert "The folder for backups cannot be created" in said(alone.get("/system"))
    (alone.server.data_dir / "backups").unlink()
    database = alone.server.data_dir / "keywright.db"
    moved = database.rename(database.with_suffix(".moved"))
    alone.post("/system/backup")
    # No event can be recorded while the database is missing.
    wait_until(lambda: is_over(alone, "backup"), "the end of it")
    moved.rename(database)
    page = said(alone.get("/system"))
    assert "Backup failed:" in page
    assert "there is nothing to back up in" in page
    assert files(alone) == []


@contextmanager
def ada_at(data_dir: Path, database: str = "sqlite", **settings: Any) -> Iterator[Visitor]:
    """Ada at a separate server."""
    with running(data_dir, database, **settings) as server, Visitor(server) as ada:
        make_users(server)
        yield ada.sign_in("ada")


def a_backup_file(ada: Visitor) -> Path:
    file = ada.server.data_dir / "backups" / "keywright-20260101-000000.tar"
    file.parent.mkdir()
    file.write_bytes(b"x")
    return file


def test_no_backup_is_gone_or_given_out_without_a_trace(tmp_path: Path) -> None:
    with ada_at(tmp_path / "data", program=admin_altered.altered(admin_altered.record_no_events)) as ada:
        file = a_backup_file(ada)
        for path in ("fetch", "delete"):
            assert ada.post(f"/system/backups/{file.name}/{path}").status_code == 503
        assert file.exists()


def test_a_backup_that_cannot_be_read_or_deleted_is_said_and_stays(tmp_path: Path) -> None:
    program = admin_altered.altered(admin_altered.deny_access_to_backups)
    with ada_at(tmp_path / "data", program=program) as ada:
        file = a_backup_file(ada)
        name = file.name
        for path, words in (("fetch", "read"), ("delete", "deleted")):
            assert ada.post(f"/system/backups/{name}/{path}").headers["location"] == "/admin/system"
            page = said(ada.get("/system"))
            assert f"The backup {name} cannot be {words}: Permission denied." in page
        assert file.exists()
        assert events_of(ada, "backup.fetched") == []
        # Its deletion failed, so it still exists.
        assert len(events_of(ada, "backup.deleted")) == len(events_of(ada, "backup.kept")) == 1
        assert f"Backup {name} could not be deleted" in said(ada.get("/events"))
        assert_clean(ada.server)


@pytest.mark.parametrize("place", ["data/keywright.db", "elsewhere/our licenses+1.sqlite"])
def test_a_copy_that_an_update_has_left_is_listed_as_what_it_is(tmp_path: Path, place: str) -> None:
    path = tmp_path / place
    path.parent.mkdir()
    with ada_at(tmp_path / "data", database_url=f"sqlite:///{path}") as ada:
        (path.parent / "backups").mkdir()
        copy = path.parent / "backups" / f"{path.stem}-schema-0002-20260115T123045Z{path.suffix}"
        copy.write_bytes(b"a database")
        others = [copy.with_name(f"another{copy.name}"), copy.with_name(f"{copy.name}-wal"), path]
        for other in others:
            other.touch()
        page = said(ada.get("/system"))
        assert f"{copy.name} made before the update from schema 0002" in page
        assert ("the earlier version, in" in page) == (place.startswith("elsewhere"))
        for other in others:
            assert f"{other.name} " not in page.replace(str(path), "")
            assert ada.post(f"/system/backups/{quote(other.name)}/fetch").status_code == 404
            assert ada.post(f"/system/backups/{quote(other.name)}/delete").status_code == 404
        (link,) = re.findall(r'action="/admin(/system/backups/[^"]*)/fetch#backups"', ada.get("/system").text)
        answer = ada.post(f"{link}/fetch")
        assert answer.content == b"a database"
        assert answer.headers["content-type"] == "application/vnd.sqlite3"
        assert f"Delete the backup {copy.name}?" in said(ada.get(f"{link}/delete"))
        ada.post(f"{link}/delete")
        assert [one.exists() for one in (copy, *others)] == [False, True, True, True]
        assert events_of(ada, "backup.deleted")[0][1] == f'{{"file":"{copy.name}"}}'


def test_what_is_known_outlives_the_server_and_copies_of_migrations_are_listed(alone: Visitor) -> None:
    name = a_backup(alone)
    migrate._back_up(alone.server.data_dir / "keywright.db", "0001")
    alone.server.stop()
    alone.server.start(alone.server.port)
    with Visitor(alone.server) as visitor:
        page = said(visitor.sign_in("ada").get("/system"))
    for text in ("Last backup:", name, "made before the update from schema 0001"):
        assert text in page


def test_a_password_in_the_database_url_is_not_shown(tmp_path: Path) -> None:
    with a_postgres_url(empty=True) as url:
        with_password = f"{url}{'&' if '?' in url else '?'}password=CANARY-PASSWORD"
        with ada_at(tmp_path / "data", database_url=with_password) as ada:
            page = ada.get("/system").text
            assert "CANARY-PASSWORD" not in page
            assert (ada.server.data_dir / "secret").read_text().strip() not in page


def test_without_pg_dump_it_is_said_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with ada_at(tmp_path / "data", "postgresql") as ada:
        page = said(ada.get("/system"))
        assert "pg_dump, which is not on the server's PATH" in page
        assert "client programs of PostgreSQL 18 or newer" in page
        ada.post("/system/backup")
        wait_until(lambda: events_of(ada, "backup.failed"), "the failure")
        page = said(ada.get("/system"))
        assert "Backup failed:" in page
        assert "of PostgreSQL's client programs" in page
