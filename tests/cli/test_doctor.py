"""``keywright doctor`` and ``keywright copy``: their output and status."""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

from keywright import __version__
from keywright.cli import status
from keywright.config.sources import read_settings
from keywright.db import look_at
from keywright.db.migrate import HEAD, read_state
from keywright.maintenance import upgrade
from keywright.maintenance.clock import believing
from tests.cli.conftest import Keywright
from tests.databases import a_postgres_url, from_afar
from tests.server import running
from tests.storage.test_migrations import LATER, NEXT, use_scripts

DATABASES = ("sqlite",)


def test_a_sound_database_is_reported_as_such(used: Keywright) -> None:
    said = used("doctor")
    assert said.startswith("Looked at 1 license and 1 activation in ")
    assert said.endswith(": no problems found.\n")
    assert used.json("doctor") == {
        "is_well": True,
        "licenses": 1,
        "activations": 1,
        "findings": [],
        "warnings": [],
    }


def test_a_risky_connection_is_a_warning_and_not_a_fault(keywright: Keywright) -> None:
    with a_postgres_url(empty=True) as url:
        far = from_afar(url)
        keywright("init", "--database-url", far)
        warning, verdict = keywright("doctor", "--database-url", far).splitlines()
        assert warning.startswith(
            "Warning: the connection to 127.1 (database_url) is not protected by verified TLS"
        )
        assert "sslmode=verify-full" in warning
        assert verdict.endswith(": no problems found.")
        assert keywright.json("doctor", "--database-url", far)["warnings"] == [
            warning.removeprefix("Warning: ")
        ]


def test_a_fault_is_reported_with_status_1_until_it_is_repaired(used: Keywright) -> None:
    with closing(sqlite3.connect(used.data_dir / "keywright.db")) as connection:
        connection.execute("UPDATE licenses SET times_activated = 2")
        connection.commit()
    done = used.run("doctor", "--data-dir", str(used.data_dir))
    assert done.status == 1
    wrong, summary = done.out.splitlines()
    assert wrong == (
        "License 1 has an activation count of 2, but 1 active activation. Run `keywright doctor --repair`."
    )
    assert summary.endswith(": problems found, see above.")
    done = used.run("doctor", "--json", "--data-dir", str(used.data_dir))
    assert done.status == 1
    found = json.loads(done.out)
    assert [(one["code"], one["license_id"]) for one in found["findings"]] == [("counter.wrong", 1)]
    repaired, _ = used("doctor", "--repair").splitlines()
    assert repaired == "License 1 has an activation count of 2, but 1 active activation. Repaired."
    assert used.json("doctor")["is_well"] is True
    assert used.json("license", "show", "A")["events"][0]["name"] == "license.recounted"


def test_everything_is_copied_to_another_database(used: Keywright) -> None:
    with a_postgres_url(empty=True) as url:
        said = used("copy", url)
        assert re.search(r"^  licenses +1$", said, re.MULTILINE)
        assert "sessions" not in said
        assert "Copied everything to postgresql://…@" in said
        assert "keywright@" not in said
        there = ("--database-url", url)
        assert used.json("license", "show", "A", *there)["timesActivated"] == 1
        assert used.json("doctor", *there)["is_well"] is True
        assert "the target database already contains" in used.refused("copy", url)


def test_a_disabled_webhook_is_a_warning_and_a_wrong_clock_until_a_person_says_that_it_is_right(
    used: Keywright,
) -> None:
    used("webhook", "add", "https://crm.example.com/secret", "--event", "*")
    with closing(sqlite3.connect(used.data_dir / "keywright.db")) as connection:
        connection.execute(believing(datetime(2020, 1, 1, tzinfo=UTC)))
        connection.execute("UPDATE webhook_endpoints SET disabled_at = 0, disabled_reason = 'gone'")
        connection.commit()
    webhook, clock, verdict = used("doctor").splitlines()
    assert webhook.startswith("Warning: the webhook 1 (crm.example.com) was disabled at ")
    assert "the last moment known to be right was 2020-01-01 00:00:00 UTC" in clock
    assert verdict.endswith(": no problems found.")
    assert used("doctor", "--confirm-clock").startswith("Servers now trust clocks that show ")
    assert used.json("doctor")["warnings"] == [webhook.removeprefix("Warning: ")]


# --- before an upgrade ----------------------------------------------------------------------------


def test_before_an_upgrade_it_shows_what_is_pending_and_changes_nothing(
    used: Keywright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending, size = f"{LATER} (Notes.)", (used.data_dir / "keywright.db").stat().st_size
    free = used.json("doctor", "--before-upgrade")["free"]
    assert used.json("doctor", "--before-upgrade") == {
        "schema": HEAD,
        "pending": [],
        "size": size,
        "is_compatible": True,
        "database_version": f"sqlite {sqlite3.sqlite_version}",
        "last_backup": None,
        "unfinished": {"job": 0, "mail": 0, "webhook": 0, "shop event": 0},
        "free": pytest.approx(free, abs=10**9),
        "needed": 0,
        "warnings": [],
        "obstacles": [],
    }
    assert "nothing: the schema is current" in used("doctor", "--before-upgrade")
    use_scripts(tmp_path / "scripts", NEXT, monkeypatch)
    assert used.json("doctor", "--before-upgrade")["pending"] == [pending]
    said = used("doctor", "--before-upgrade")
    assert pending in said
    assert re.search(r"the previous version +works on the new schema\n", said)
    assert said.endswith("Warning: there is no backup to return to. Run `keywright backup` first.\n")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2 * size - 1))
    done = used.run("doctor", "--before-upgrade", "--data-dir", str(used.data_dir))
    assert done.status == 1
    last = done.out.splitlines()[-1]
    assert last.startswith("Problem: not enough free disk space for a copy of the database")
    assert look_at(f"sqlite:///{used.data_dir}/keywright.db", read_state).revision == HEAD
    # The separate step says the same, and what it did.
    done = used.run("init", "--data-dir", str(used.data_dir))
    assert done.status == 0
    assert [line.partition(" ")[0] for line in done.err.splitlines()] == ["saved", "migrating", "migrated"]
    assert pending in done.err


def test_before_an_upgrade_it_names_what_is_better_done_first_and_nothing_else(
    used: Keywright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used("backup", str(tmp_path / "backup.tar"))
    use_scripts(tmp_path / "scripts", NEXT, monkeypatch)
    lines = used("doctor", "--before-upgrade").splitlines()
    assert lines[-1] == "Nothing prevents the upgrade."
    assert [line for line in lines if line.startswith(("Warning", "Problem"))] == []
    with closing(sqlite3.connect(used.data_dir / "keywright.db")) as connection:
        connection.execute("UPDATE checkpoints SET last_id = 86400 WHERE name = 'backup_made_at'")
        job = ("export", "running", "{}", 0, 0, 0, 1, 1)
        columns = "kind, state, parameters, done, refused, position, created_at, created_by"
        connection.execute(f"INSERT INTO jobs ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", job)  # noqa: S608
        connection.commit()
    servers = [("http://127.0.0.1:8000", "0.8.0"), ("http://[::1]:1", None), ("http://new", __version__)]
    monkeypatch.setattr(status, "list_versions", lambda _: servers)
    found = used.json("doctor", "--before-upgrade")
    runs = "Stop it before you replace its program, parts of which it loads only when needed."
    named = [
        f"a server of version 0.8.0 runs at http://127.0.0.1:8000, which works on the new schema. {runs}",
        f"a server of version unknown runs at http://[::1]:1, which works on the new schema. {runs}",
    ]
    assert found["warnings"] == [
        "the last backup is of 1970-01-02 00:00:00 UTC. Returning to it would lose all later changes.",
        "1 job not finished. Wait for it to end, or cancel it on the page Jobs.",
        *named,
    ]
    assert (found["unfinished"]["job"], found["obstacles"]) == (1, [])
    # Servers that the new schema would break are in the way.
    monkeypatch.setattr(upgrade, "OLDEST_COMPATIBLE", LATER)
    done = used.run("doctor", "--before-upgrade", "--json", "--data-dir", str(used.data_dir))
    refused = [one.replace("works on the new", "refuses the new") for one in named]
    assert (done.status, json.loads(done.out)["obstacles"]) == (1, refused)


def test_before_an_upgrade_other_machines_and_an_older_postgresql_are_named(
    keywright: Keywright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_postgres_url(empty=True) as url:
        keywright("init", "--database-url", url)
        use_scripts(tmp_path / "scripts", NEXT, monkeypatch)
        monkeypatch.setattr(upgrade, "_TESTED", 99)
        with psycopg.connect(url, application_name="keywright"):
            found = keywright.json("doctor", "--before-upgrade", "--database-url", url)
        assert found["database_version"].startswith("postgresql 1")
        assert found["warnings"] == [
            "there is no backup to return to. Run `keywright backup` first.",
            "Keywright is tested with PostgreSQL 99. Test the upgrade on a restored backup first.",
            "hosts connected to the database: 127.0.0.1. Upgrade their servers, too.",
        ]
        assert "free" not in found


def test_before_an_upgrade_a_database_of_a_newer_version_and_another_secret_are_refused(
    used: Keywright, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYWRIGHT_SECRET", "another secret of 32 characters.")
    assert "secret" in used.refused("doctor", "--before-upgrade")
    monkeypatch.delenv("KEYWRIGHT_SECRET")
    with closing(sqlite3.connect(used.data_dir / "keywright.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9000'")
        connection.execute("UPDATE installation SET oldest_compatible_revision = '9000'")
        connection.commit()
    assert "was made by a newer Keywright" in used.refused("doctor", "--before-upgrade")


def test_a_server_that_runs_tells_its_version(used: Keywright) -> None:
    with running(used.data_dir) as server:
        found = status.list_versions(read_settings({"data_dir": used.data_dir}))
        assert found == [(server.base_url, __version__)]


def test_where_there_is_no_database_there_is_nothing_to_upgrade(nowhere: Keywright) -> None:
    assert "there is no database to upgrade in " in nowhere.refused("doctor", "--before-upgrade")
    assert not nowhere.data_dir.exists()
