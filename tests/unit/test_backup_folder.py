"""Only files with the names of backups in the backup folder are backups."""

import os
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest

from keywright.background.daily_backup import find_due_time
from keywright.core.errors import NoSuchAddress
from keywright.maintenance.backup.manifest import Backups, read_chunks
from tests.makers import NOW


def test_backups_are_the_files_of_their_names_and_nothing_else(tmp_path: Path) -> None:
    backups = Backups(tmp_path / "backups")
    assert backups.all() == []
    assert backups.size_in_progress() == 0
    path = backups.prepare(NOW)
    assert path == tmp_path / "backups" / "keywright-20260115-123045.tar"
    path.write_bytes(b"x" * 3_000_000)
    os.utime(path, (NOW.timestamp(), NOW.timestamp()))
    (tmp_path / "backups" / "keywright-20250101-000000.tar").write_bytes(b"older")
    (tmp_path / "backups" / "keywright-copy.tar").write_bytes(b"")
    (tmp_path / "backups" / ".keywright-1").mkdir()
    (tmp_path / "backups" / ".keywright-1" / "payload").write_bytes(b"12345")
    assert [one.name for one in backups.all()] == [path.name, "keywright-20250101-000000.tar"]
    assert backups.all()[0][1:] == (3_000_000, NOW, None)
    assert backups.size_in_progress() == 5
    assert backups.find(path.name) == path
    assert [len(one) for one in read_chunks(path)] == [1 << 20, 1 << 20, 3_000_000 - (2 << 20)]
    (tmp_path / "secret").write_text("mine")
    for name in ("", "..", "../secret", "keywright-copy.tar", "keywright-20260101-000000.tar"):
        with pytest.raises(NoSuchAddress):
            backups.find(name)


def test_of_daily_backups_the_newest_are_kept_and_of_others_all(tmp_path: Path) -> None:
    backups = Backups(tmp_path)
    daily = [backups.path_of_daily(NOW - timedelta(days=age)) for age in range(4)]
    for path in (*daily, backups.prepare(NOW), tmp_path / "a-daily.tar"):
        path.write_bytes(b"")
    assert len(backups.all()) == 5
    assert backups.find(daily[3].name) == daily[3]
    assert backups.find_expired(2) == [daily[3], daily[2]]
    assert backups.find_expired(4) == []


@pytest.mark.parametrize(("now", "day"), [("03:29:59", 14), ("03:30:00", 15), ("23:59:59", 15)])
def test_a_daily_backup_is_due_from_its_time_on(now: str, day: int) -> None:
    at = datetime.combine(NOW.date(), time.fromisoformat(now), UTC)
    assert find_due_time(at, time(3, 30)) == datetime(2026, 1, day, 3, 30, tzinfo=UTC)


def test_copies_of_the_database_are_the_files_of_their_names(tmp_path: Path) -> None:
    database = tmp_path / "our.data" / "a.b (1).db"
    copies = Backups(tmp_path / "backups", database)
    assert copies.all() == []
    folder = copies.folder_of_copies
    assert folder == database.parent / "backups"
    folder.mkdir(parents=True)
    names = [f"a.b (1)-schema-{one}-2026011{one[-1]}T000000Z.db" for one in ("0001", "0002")]
    for name in [*names, "a.b (1)-schema-0003.db", "aXb (1)-schema-0001-20260111T000000Z.db", "a.b (1).db"]:
        (folder / name).write_bytes(b"x")
    (folder / "a.b (1)-schema-0003-20260113T000000Z.db").mkdir()
    assert [(one.name, one.schema) for one in copies.all()] == [(names[1], "0002"), (names[0], "0001")]
    assert copies.find(names[0]) == folder / names[0]
    for name in ("a.b (1).db", "../a.b (1).db", "a.b (1)-schema-0003-20260113T000000Z.db"):
        with pytest.raises(NoSuchAddress):
            copies.find(name)
    # The database may be anywhere, next to files of other programs.
    assert Backups(tmp_path / "backups").all() == []
    # Backups and copies are sorted by creation time.
    for name in ("keywright-20260301-000000.tar", "keywright-20260101-000000.tar"):
        (folder / name).touch()
    listed = [one.name for one in Backups(folder, database).all()]
    assert listed == ["keywright-20260301-000000.tar", *names[::-1], "keywright-20260101-000000.tar"]
