"""Backups of an SQLite file: they hold one moment, and a restore leaves nothing of the old database."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest

from keywright.core.errors import StoreError
from keywright.db import open_storage
from keywright.db.sqlite import SqliteStorage, connect
from keywright.registry import open_executor
from tests.backups import back_up, check_backup, restore_backup
from tests.makers import KEY_RING, a_storage, activate, create, url_of
from tests.proving import record
from tests.storage.test_copy import contents

#: So much that it is copied in several steps.
FILLING = 24 << 20
#: Writes, from another process, as often as it can.
WRITER = """
import sys
from pathlib import Path
from keywright.db.sqlite import connect
connection = connect(Path(sys.argv[1]), "rw")
print("ready", flush=True)
while True:
    connection.execute("UPDATE sequences SET last_id = last_id + 1")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def sold(folder: Path) -> Iterator[SqliteStorage]:
    """A database with a license, open."""
    with closing(a_storage(folder)) as storage:
        open_executor(storage).execute([create("A"), activate("A")])
        yield storage


@contextmanager
def constant_writes(path: Path) -> Iterator[None]:
    """Another process writes all the time."""
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        try:
            assert writer.stdout.readline() == b"ready\n"
            yield
        finally:
            writer.kill()


def fill(path: Path) -> None:
    with closing(connect(path, "rw")) as connection:
        row = (
            "INSERT INTO idempotency_records VALUES (randomblob(32), randomblob(32), 200, zeroblob(?), 0, 0)"
        )
        connection.execute(row, (FILLING,))


def test_a_backup_ends_under_constant_writes(
    sold: SqliteStorage, folder: Path, file: Path, tmp_path: Path
) -> None:
    fill(sold.path)
    with constant_writes(sold.path):
        back_up(url_of(folder), file)
        started_over = copy_step_by_step(sold.path, tmp_path / "copy")
    check_backup(file)
    record("R16", "control: a stepwise copy without a transaction", counted={"started over": started_over})
    assert started_over > 0


def copy_step_by_step(path: Path, copy: Path) -> int:
    """The number of times that SQLite started over, until the copy was complete or after 1,000 steps."""
    left: list[int] = []

    def look(_status: int, remaining: int, _total: int) -> None:
        left.append(remaining)
        if len(left) == 1_000:
            raise InterruptedError

    with (
        closing(connect(path, "ro")) as old,
        closing(sqlite3.connect(copy)) as new,
        suppress(InterruptedError),
    ):
        old.backup(new, pages=64, progress=look)
    return sum(now > before for before, now in pairwise(left))


def test_a_backup_includes_the_write_ahead_log(sold: SqliteStorage, folder: Path, file: Path) -> None:
    assert (folder / "keywright.db-wal").stat().st_size > 0
    back_up(url_of(folder), file)
    sold.close()
    restore_backup(file, url_of(folder.parent / "new"))
    with closing(a_storage(folder.parent / "new")) as new:
        assert len(contents(new)["activations"]) == 1


def test_the_log_of_a_removed_database_is_not_applied_to_the_restored_one(
    sold: SqliteStorage, folder: Path, file: Path
) -> None:
    back_up(url_of(folder), file)
    open_executor(sold).execute([create("B")])
    log = (folder / "keywright.db-wal").read_bytes()
    sold.close()
    new = folder.parent / "new"
    new.mkdir()
    (new / "keywright.db-wal").write_bytes(log)
    restore_backup(file, url_of(new))
    with closing(a_storage(new)) as restored:
        assert len(contents(restored)["licenses"]) == 1
    (aside,) = new.glob("keywright.db-wal.before-restore-*")
    assert aside.read_bytes() == log


def test_a_connection_that_is_being_opened_does_not_see_the_old_database(
    sold: SqliteStorage, folder: Path, file: Path
) -> None:
    back_up(url_of(folder), file)
    sold.close()
    where = f"file:{folder}/keywright.db?mode=ro"
    with closing(sqlite3.connect(where, uri=True)) as late:
        restore_backup(file, url_of(folder), is_overwriting=True)
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            late.execute("SELECT * FROM licenses")


def test_another_link_to_the_old_file_keeps_its_content(
    sold: SqliteStorage, folder: Path, file: Path
) -> None:
    back_up(url_of(folder), file)
    sold.close()
    (folder / "mine.db").hardlink_to(folder / "keywright.db")
    restore_backup(file, url_of(folder), is_overwriting=True)
    with closing(open_storage(f"sqlite:///{folder}/mine.db", KEY_RING)) as mine:
        assert len(contents(mine)["licenses"]) == 1


def test_a_refused_restore_leaves_the_file_as_it_was(sold: SqliteStorage, folder: Path, file: Path) -> None:
    back_up(url_of(folder), file)
    file.write_bytes(file.read_bytes()[:-1])
    sold.close()
    before = (folder / "keywright.db").read_bytes()
    with pytest.raises(StoreError, match=r"is cut off|is damaged"):
        restore_backup(file, url_of(folder), is_overwriting=True)
    assert (folder / "keywright.db").read_bytes()[100:] == before[100:]
    with closing(connect(folder / "keywright.db", "ro")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert not list(folder.glob("*restore*"))


def test_a_damaged_database_is_not_backed_up(sold: SqliteStorage, folder: Path, file: Path) -> None:
    for number in range(50):
        open_executor(sold).execute([create(f"license {number}")])
    sold.close()
    path = folder / "keywright.db"
    content = bytearray(path.read_bytes())
    # The pages of the tables, but not those of the schema.
    content[4096 * 4 : 4096 * 8] = bytes(4096 * 4)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is damaged"):
        back_up(url_of(folder), file)
    assert not file.exists()


def test_an_unreadable_file_is_not_replaced_but_can_be_moved_away(
    sold: SqliteStorage, folder: Path, file: Path
) -> None:
    back_up(url_of(folder), file)
    sold.close()
    path = folder / "keywright.db"
    path.write_bytes(b"x" * 8192)
    with pytest.raises(StoreError, match=r"cannot be read .*move it away"):
        restore_backup(file, url_of(folder), is_overwriting=True)
    path.rename(folder / "broken.db")
    restore_backup(file, url_of(folder))
    with closing(open_storage(url_of(folder), KEY_RING)) as restored:
        assert len(contents(restored)["licenses"]) == 1


def test_a_database_of_another_program_is_left_alone(tmp_path: Path, file: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE mine (a)")
    with pytest.raises(StoreError, match="another program"):
        back_up(f"sqlite:///{tmp_path}/other.db", file)
    with closing(a_storage(tmp_path / "ours")):
        back_up(url_of(tmp_path / "ours"), file)
    with pytest.raises(StoreError, match="another program"):
        restore_backup(file, f"sqlite:///{tmp_path}/other.db", is_overwriting=True)


def test_a_symbolic_link_to_the_database_is_followed(
    sold: SqliteStorage, folder: Path, file: Path, tmp_path: Path
) -> None:
    back_up(url_of(folder), file)
    sold.close()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "keywright.db").symlink_to(folder / "keywright.db")
    restore_backup(file, url_of(tmp_path / "linked"), is_overwriting=True)
    assert (tmp_path / "linked" / "keywright.db").is_symlink()
    with closing(a_storage(folder)) as restored:
        assert len(contents(restored)["licenses"]) == 1
