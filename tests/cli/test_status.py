"""`keywright status` says whether the server runs, and how busy it is."""

import json
import subprocess
from pathlib import Path

from tests import forking
from tests.http.asking import Client
from tests.server import RunningServer, environment, running, wait_until


def status(data_dir: Path, *options: str, **settings: object) -> tuple[int, str]:
    done = subprocess.run(
        [forking.command(), "status", "--data-dir", str(data_dir), *options],
        env=environment(**settings),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_a_server_that_runs_is_ready_and_one_that_was_stopped_is_not_running(tmp_path: Path) -> None:
    with running(tmp_path / "data", metrics_address="127.0.0.1:0") as server:
        metrics_address = server.log.partition("metrics are at ")[2].partition("/")[0]
        with Client(server) as program:
            program.validate("UNKNOWN")
        code, text = status(tmp_path / "data", "--json", metrics_address=metrics_address)
        shown = json.loads(text)
        assert (code, shown["server"], shown["address"]) == (0, "ready", server.base_url)
        assert (shown["waiting_calls"], shown["unfinished_jobs"]) == (0, 0)
        assert shown["unknown_keys_since_start"] == 1
        assert shown["memory"].endswith("MB")
        assert shown["database_version"].startswith("sqlite 3.")
        assert (shown["last_backup"], shown["last_backup_failed"]) == (None, None)
        assert "calls per second" not in status(tmp_path / "data")[1]
        server.stop()
        code, text = status(tmp_path / "data", metrics_address=metrics_address)
        assert code == 1
        assert "server" in text
        assert "not running" in text
        assert "no answer" in text


def test_the_server_of_another_installation_is_not_asked(tmp_path: Path) -> None:
    with running(tmp_path / "one") as one, running(tmp_path / "other") as other:
        other.kill()
        # The settings name the address of the one that runs.
        code, text = status(tmp_path / "other", "--json", port=one.port)
        shown = json.loads(text)
        assert (code, shown["server"], shown["address"]) == (1, "not running", None)
        assert not list((tmp_path / "other").glob("*server*"))
        assert status(tmp_path / "one", port=other.port)[0] == 0


def test_two_servers_on_one_file_are_told_of_and_both_are_shown(tmp_path: Path) -> None:
    with running(tmp_path / "data") as one:
        assert "uses this SQLite file" not in one.log
        with running(tmp_path / "elsewhere", database_url=one.database_url, secret=secret_of(one)) as two:
            assert (
                f"another server uses this SQLite file (127.0.0.1:{one.port}): each counts limits" in two.log
            )
            shown = json.loads(status(tmp_path / "data", "--json")[1])
            assert shown["server"] == "ready"
            assert {*shown["address"].split(", ")} == {one.base_url, two.base_url}


def secret_of(server: RunningServer) -> str:
    return (server.data_dir / "secret").read_text().strip()


def test_backups_have_a_line_and_one_that_failed_has_its_reason(tmp_path: Path) -> None:
    settings = {"backup_daily_at": "00:00", "backup_command": "echo no such bucket >&2; exit 4"}
    with running(tmp_path / "data", **settings) as server:
        wait_until(lambda: server.sql("SELECT 1 FROM events WHERE name = 'backup.failed'"), "an event")
        shown = json.loads(status(tmp_path / "data", "--json")[1])
        assert shown["last_backup"] is None
        assert shown["last_backup_failed"].endswith("was written, but backup_command failed (status 4).")
        server.cli("backup", str(tmp_path / "by-hand.tar"))
        assert json.loads(status(tmp_path / "data", "--json")[1])["last_backup"] is not None
