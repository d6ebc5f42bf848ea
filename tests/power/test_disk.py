"""The simulated disk keeps what it was told to keep, and may lose, tear or mix up everything else."""

import random
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import apsw
import pytest

from tests.power.disk import Disk, Operation
from tests.power.life import Life
from tests.power.survivors import SECTOR, WEATHERS, Files, Platter, survivors

OLD, NEW = b"old." * SECTOR, b"new!" * SECTOR
PAGE = len(OLD)


def create(name: str = "file", file: int = 1) -> Operation:
    return Operation("create", name, file)


def write(data: bytes, offset: int = 0, file: int = 1) -> Operation:
    return Operation("write", "file", file, offset, data)


def sync(file: int = 1) -> Operation:
    return Operation("sync", "file", file)


SYNC_FOLDER = Operation("sync folder")
#: A file that is safe, with something in it.
SAFE = (create(), write(OLD), sync(), SYNC_FOLDER)


def fates(*operations: Operation, is_cut: bool = False) -> list[Files]:
    """What may be left after these operations, in every weather and often."""
    platter = Platter(operations)
    return [
        survivors(platter, weather, random.Random(seed), is_cut=is_cut)
        for weather in WEATHERS
        for seed in range(60)
    ]


def contents(*operations: Operation, is_cut: bool = False) -> set[bytes]:
    """What may be in the file."""
    return {bytes(files["file"]) for files in fates(*operations, is_cut=is_cut)}


def test_what_was_synced_is_always_there() -> None:
    assert contents(*SAFE) == {OLD}
    assert contents(*SAFE, write(NEW), sync()) == {NEW}


def test_what_was_not_synced_is_sometimes_there() -> None:
    found = contents(*SAFE, write(NEW))
    assert {OLD, NEW} < found


def test_a_sync_is_of_one_file() -> None:
    assert {OLD, NEW} < contents(*SAFE, write(NEW), sync(file=2))


def test_a_later_write_may_be_there_without_an_earlier_one() -> None:
    found = contents(*SAFE, write(NEW), write(NEW, PAGE))
    assert {OLD, NEW, OLD + NEW, NEW + NEW} < found


def test_a_torn_write_has_sectors_that_were_written_and_others_that_were_not() -> None:
    found = contents(*SAFE, write(NEW))
    assert NEW[:SECTOR] + OLD[SECTOR:] in found
    assert OLD[:-SECTOR] + NEW[-SECTOR:] in found
    assert OLD[:SECTOR] + NEW[SECTOR : 2 * SECTOR] + OLD[2 * SECTOR :] in found


def test_a_torn_write_may_leave_garbage_in_whole_sectors() -> None:
    sectors = {
        content[start : start + SECTOR]
        for content in contents(*SAFE, write(NEW))
        for start in range(0, PAGE, SECTOR)
    }
    assert len(sectors - {OLD[:SECTOR], NEW[:SECTOR]}) > 10


def test_a_torn_write_touches_nothing_beside_it() -> None:
    start, end = 700, 1500
    found = contents(*SAFE, write(NEW[: end - start], start))
    assert len(found) > 10
    assert all((one[:start], one[end:]) == (OLD[:start], OLD[end:]) for one in found)


def test_power_that_is_lost_in_the_middle_of_a_write_tears_it() -> None:
    platter = Platter([*SAFE, write(NEW)])
    found = {
        bytes(survivors(platter, "all is kept", random.Random(seed), is_cut=True)["file"])
        for seed in range(60)
    }
    assert len(found) > 10
    assert NEW[:SECTOR] + OLD[SECTOR:] in found


def test_a_truncation_that_was_not_synced_may_have_happened_or_not() -> None:
    cut = Operation("truncate", "file", 1, SECTOR)
    assert contents(*SAFE, cut) == {OLD, OLD[:SECTOR]}
    assert contents(*SAFE, cut, sync()) == {OLD[:SECTOR]}


def test_a_file_may_be_longer_without_what_belongs_there() -> None:
    found = contents(*SAFE, write(NEW, PAGE))
    assert any(len(one) > PAGE and not any(one[PAGE:]) for one in found)


def test_a_new_file_is_safe_only_after_its_folder_was_synced() -> None:
    assert {len(files) for files in fates(create(), write(NEW), sync())} == {0, 1}
    assert {len(files) for files in fates(create(), write(NEW), sync(), SYNC_FOLDER)} == {1}


def test_a_deleted_file_may_be_there_again_until_its_folder_was_synced() -> None:
    deleted = Operation("delete", "file", 1)
    assert {bytes(files.get("file", b"")) for files in fates(*SAFE, deleted)} == {b"", OLD}
    assert fates(*SAFE, deleted, SYNC_FOLDER)[0] == {}


def test_a_file_that_took_the_name_of_a_deleted_one_has_nothing_of_it() -> None:
    again = (Operation("delete", "file", 1), create(file=2), write(NEW, file=2), sync(file=2))
    assert contents(*SAFE, *again, SYNC_FOLDER) == {NEW}
    assert {bytes(files.get("file", b"none")) for files in fates(*SAFE, *again)} == {OLD, NEW, b"none"}


def test_the_same_seed_leaves_the_same() -> None:
    assert fates(*SAFE, write(NEW), write(NEW, PAGE)) == fates(*SAFE, write(NEW), write(NEW, PAGE))


# --- under SQLite ---------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    (tmp_path / "disk").mkdir()
    disk = Disk(tmp_path / "disk")
    yield disk
    disk.unregister()


def connect_to(disk: Disk) -> apsw.Connection:
    connection = apsw.Connection(str(disk.folder / "a.db"), vfs=disk.vfs_name)
    connection.execute("PRAGMA journal_mode=WAL; CREATE TABLE t (x)").fetchall()
    return connection


def test_every_change_of_every_file_is_recorded(tmp_path: Path) -> None:
    life = Life(tmp_path / "data", 1, batches=40)
    left = survivors(Platter(life.operations), "all is kept", random.Random())
    files = {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()}
    assert files.pop("keywright.db.lock") == b""
    assert left == files


def test_a_log_in_use_is_recorded_too_and_shared_memory_is_not(disk: Disk) -> None:
    with closing(connect_to(disk)) as connection:
        connection.execute("INSERT INTO t VALUES (1)")
        left = survivors(Platter(disk.operations), "all is kept", random.Random())
        assert (disk.folder / "a.db-shm").exists()
        assert left == {name: (disk.folder / name).read_bytes() for name in ("a.db", "a.db-wal")}


def test_the_folder_is_synced_with_a_new_log_and_not_when_a_log_is_deleted(disk: Disk) -> None:
    connect_to(disk).close()
    said = [(one.kind, one.name) for one in disk.operations]
    assert (("sync", "a.db-wal"), ("sync folder", "")) in pairwise(said)
    assert said[-1] == ("delete", "a.db-wal")


def test_what_is_there_already_is_safe(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(OLD)
    disk = Disk(tmp_path)
    assert fates(*disk.operations) == [{"file": OLD}] * len(WEATHERS) * 60
    disk.unregister()


def test_sqlite_counts_on_the_system_for_what_it_counts_on_this_disk_for(disk: Disk) -> None:
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
    with closing(connect_to(disk)):
        path = str(disk.folder / "a.db")
        promised = apsw.VFSFile("unix", path, flags).xDeviceCharacteristics()
        assert disk.xOpen(path, flags).xDeviceCharacteristics() & ~promised == 0
