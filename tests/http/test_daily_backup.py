"""The server makes backups according to its settings."""

import json
from pathlib import Path

from tests.server import RunningServer, running, wait_until


def daily(server: RunningServer) -> list[str]:
    return sorted(path.name for path in (server.data_dir / "backups").glob("*-daily.tar"))


def events(server: RunningServer) -> list[str]:
    return [name for (name,) in server.sql("SELECT name FROM events WHERE name LIKE 'backup.%' ORDER BY id")]


def test_a_backup_that_is_due_is_made_once_and_the_oldest_is_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "backups"
    folder.mkdir(parents=True)
    (folder / "keywright-20200101-000000-daily.tar").write_bytes(b"old")
    (folder / "keywright-20200101-000000.tar").write_bytes(b"made by hand")
    with running(tmp_path / "data", backup_daily_at="00:00", backup_keep=1) as server:
        wait_until(lambda: events(server), "a backup")
        wait_until(lambda: len(daily(server)) == 1, "a deletion")
        (made,) = daily(server)
        assert made.endswith("-000000-daily.tar")
        assert "2020" not in made
        assert server.cli("restore", str(folder / made), "--check")
        server.stop()
        server.start()
        server.stop()
        assert events(server) == ["backup.made"]
    assert (folder / "keywright-20200101-000000.tar").exists()


def test_a_backup_that_fails_is_said_in_the_log_and_in_the_events(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "backups").write_text("not a folder")
    with running(tmp_path / "data", backup_daily_at="00:00") as server:
        wait_until(lambda: events(server), "an event")
        assert events(server) == ["backup.failed"]
        ((details,),) = server.sql("SELECT details FROM events WHERE name = 'backup.failed'")
        assert "File exists" in json.loads(details)["reason"]
        assert "the daily backup failed: " in server.log


def test_a_backup_whose_command_fails_says_so_and_is_not_made_again(tmp_path: Path) -> None:
    settings = {"backup_daily_at": "00:00", "backup_command": "echo no such bucket >&2; exit 4"}
    with running(tmp_path / "data", **settings) as server:
        wait_until(lambda: events(server), "an event")
        ((details,),) = server.sql("SELECT details FROM events WHERE name = 'backup.failed'")
        assert json.loads(details)["reason"].endswith("was written, but backup_command failed (status 4).")
        assert len(daily(server)) == 1
        assert server.sql("SELECT last_id FROM checkpoints WHERE name = 'backup_made_at'") == []
