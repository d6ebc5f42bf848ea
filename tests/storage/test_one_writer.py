"""One lock file: whoever writes, in whichever process, is alone. The others are real processes."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from keywright.core.errors import StoreBusy
from keywright.db import sqlite
from keywright.db.sqlite import SqliteStorage
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import LicenseFilter
from keywright.registry import open_executor
from tests.makers import KEY, KEY_RING, a_license, create, open_or_make

pytestmark = pytest.mark.tier("ordinary")

ROOT = Path(__file__).parents[2]
ANY = LicenseFilter()

#: Every process opens the database, waits for a line, and says what it did in lines of its own.
OPEN = """
import sys
from pathlib import Path
from keywright.registry import open_executor
from keywright.core.errors import StoreBusy
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import LicenseFilter
from tests.makers import a_license, open_or_make, create
def say(*words):
    print(*words, flush=True)
storage = open_or_make(Path(sys.argv[1]))
say("open")
sys.stdin.readline()
"""
HOLD = """
with storage.write() as tx:
    license_store.save_new_licenses(tx, [a_license(id=99, key="never committed")])
    say("holding")
    sys.stdin.readline()
"""
TRY_THEN_WAIT = """
try:
    with storage.write(wait=0):
        say("came between")
except StoreBusy:
    say("busy")
with storage.write() as tx:
    say("sees", license_store.count_licenses(tx, LicenseFilter()))
storage.close()
"""
CREATE_MANY = """
for n in range(50):
    (made,) = open_executor(storage).execute([create(f"{sys.argv[2]} {n}")])
    say(made.license.id)
storage.close()
"""


class Process:
    """Another process with the same database."""

    def __init__(self, storage: SqliteStorage, program: str, *arguments: str) -> None:
        folder = str(storage.path.parent)
        self._process = subprocess.Popen(
            [sys.executable, "-c", OPEN + program, folder, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def __enter__(self) -> Self:
        assert self.says() == "open"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def go(self) -> None:
        """Let it go on."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def says(self) -> str:
        """The next line that it says."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[SqliteStorage]:
    with closing(open_or_make(tmp_path)) as storage:
        yield storage


@pytest.mark.parametrize("is_lock_file_removed", [False, True])
def test_another_process_is_refused_at_once_or_waits_until_the_first_is_done(
    storage: SqliteStorage, is_lock_file_removed: bool
) -> None:
    with Process(storage, TRY_THEN_WAIT) as other:
        with storage.write() as tx:
            if is_lock_file_removed:
                # SQLite's own lock still stands between the two.
                Path(f"{storage.path}.lock").unlink()
            other.go()
            assert other.says() == "busy"
            license_store.save_new_licenses(tx, [a_license()])
        assert other.says() == "sees 1"


def test_the_lock_of_a_killed_process_is_free_and_its_work_undone(storage: SqliteStorage) -> None:
    with Process(storage, HOLD) as other:
        other.go()
        assert other.says() == "holding"
        with pytest.raises(StoreBusy), storage.write(wait=0):
            pass
        other.kill()
        with storage.write(wait=0) as tx:
            assert license_store.count_licenses(tx, ANY) == 0


def test_readers_go_on_while_another_process_writes(storage: SqliteStorage) -> None:
    with storage.write() as tx:
        license_store.save_new_licenses(tx, [a_license()])
    with Process(storage, HOLD) as other:
        other.go()
        assert other.says() == "holding"
        with storage.read() as tx:
            assert set(license_store.find_licenses(tx, [KEY, "never committed"])) == {KEY}


def test_no_number_is_given_twice_by_two_processes_at_once(storage: SqliteStorage) -> None:
    with Process(storage, CREATE_MANY, "first") as first, Process(storage, CREATE_MANY, "second") as second:
        first.go()
        second.go()
        numbers = [int(process.says()) for process in (first, second) for _ in range(50)]
    assert sorted(numbers) == list(range(1, 101))
    assert open_executor(storage).execute([create()])[0].license.id == 101


def test_two_objects_in_one_process_exclude_each_other_too(storage: SqliteStorage, tmp_path: Path) -> None:
    with closing(open_or_make(tmp_path)) as other:
        with storage.write(), pytest.raises(StoreBusy), other.write(wait=0):
            pass
        with other.write(wait=0):
            pass


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """This process can open nothing while the block runs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull) as lowest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest.fileno() + 1, hard))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                os.open(os.devnull, os.O_RDONLY)
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_process_without_descriptors_left_still_reads_and_writes(storage: SqliteStorage) -> None:
    with storage.write(), storage.read():
        pass
    with no_descriptors_left():
        with storage.write() as tx:
            license_store.save_new_licenses(tx, [a_license()])
        with storage.read() as tx:
            assert set(license_store.find_licenses(tx, [KEY])) == {KEY}


def test_a_lock_file_that_was_removed_is_made_again(storage: SqliteStorage, tmp_path: Path) -> None:
    lock = Path(f"{storage.path}.lock")
    for _ in range(3):
        with storage.write():
            lock.unlink()
            with closing(open_or_make(tmp_path)) as other, pytest.raises(StoreBusy), other.write(wait=False):
                pass
        with storage.write():
            assert lock.exists()


def test_closing_a_storage_gives_its_descriptors_back(tmp_path: Path) -> None:
    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    with closing(open_or_make(tmp_path)):
        pass
    before = opened()
    for _ in range(3):
        with closing(open_or_make(tmp_path)) as storage, storage.write():
            pass
    assert opened() == before


def test_opening_a_database_that_is_up_to_date_waits_for_nobody(
    storage: SqliteStorage, tmp_path: Path
) -> None:
    with storage.write(), closing(open_or_make(tmp_path)) as other, other.read() as tx:
        assert license_store.count_licenses(tx, ANY) == 0


def test_making_the_tables_and_closing_the_log_wait_for_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LOCK_TIMEOUT", 0.05)
    with closing(sqlite.SqliteStorage(tmp_path / "keywright.db", KEY_RING)) as storage:
        with storage.write_lock(), pytest.raises(StoreBusy):
            open_or_make(tmp_path)
        assert not storage.path.exists()
        other = open_or_make(tmp_path)
        with other.write():
            pass
        with storage.write(), pytest.raises(StoreBusy):
            other.close()
        other.close()


def test_a_block_that_fails_gives_the_lock_back(storage: SqliteStorage, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), storage.write():
        _ = 1 / 0
    with closing(open_or_make(tmp_path)) as other, other.write(wait=0):
        pass
