"""A backup or a restore that is broken off at any moment leaves either the old state or the new one."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy.exc import SQLAlchemyError

from keywright.core.errors import KeywrightError, StoreError
from keywright.db import database_path, open_storage
from keywright.maintenance.doctor import examine
from keywright.registry import open_executor
from tests.backups import back_up, check_backup, restore_backup
from tests.databases import a_postgres_url, execute, postgres
from tests.faults.installations import SESSIONS
from tests.makers import KEY_RING, activate, create
from tests.proving import record, size
from tests.server import wait_until
from tests.storage.test_copy import contents
from tools.postgres import binaries

KILLS = size(5, 250)
LICENSES = 300
#: Starts processes that have imported everything already, so that they are killed while they do something.
_PROCESSES = get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.backups"])

Contents = dict[str, list[dict[str, Any]]]


class Place(NamedTuple):
    """An installation and its contents; a backup of another one, and its contents."""

    url: str
    before: Contents
    file: Path
    backed_up: Contents


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """pg_dump and pg_restore of the server's version are there."""
    monkeypatch.setenv("PATH", f"{binaries()}:{os.environ['PATH']}")


def fill(url: str, name: str) -> Contents:
    """Make an installation with licenses of this name; return its contents."""
    with closing(open_storage(url, KEY_RING)) as storage:
        keys = [f"{name}-{number}" for number in range(LICENSES)]
        open_executor(storage).execute([create(key) for key in keys])
        open_executor(storage).execute([activate(key) for key in keys])
        return contents(storage)


class Places:
    """Makes places, each with a copy of the same installation."""

    def __init__(self, database: str, folder: Path) -> None:
        self._is_sqlite = database == "sqlite"
        self._folder = folder
        self._numbers = iter(range(1_000_000))
        self.file = folder / "new.tar"
        source, self._template = self._new(), self._new()
        self.backed_up = fill(source, "NEW")
        back_up(source, self.file)
        self.before = fill(self._template, "OLD")

    @contextmanager
    def one(self) -> Iterator[Place]:
        url = self._new(self._template)
        try:
            yield Place(url, self.before, self.file, self.backed_up)
        finally:
            self._remove(url)

    def _new(self, template: str | None = None) -> str:
        if not self._is_sqlite:
            name = template and template.rpartition("/")[2]
            return postgres().url(postgres().create_database(name or "template1"))
        folder = self._folder / f"place-{next(self._numbers)}"
        if template:
            shutil.copytree(Path(template.removeprefix("sqlite:///")).parent, folder)
        return f"sqlite:///{folder}/keywright.db"

    def _remove(self, url: str) -> None:
        path = database_path(url)
        if path is None:
            postgres().drop_database(url.rpartition("/")[2])
        else:
            shutil.rmtree(path.parent)


@pytest.fixture
def places(database: str, tmp_path: Path) -> Places:
    return Places(database, tmp_path)


def state_of(place: Place) -> str:
    """``old`` or ``new`` if the database is sound and holds exactly that; otherwise what is wrong."""
    if database_path(place.url) is None:
        # The server takes a moment to notice that a client was killed.
        query = f"SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND {SESSIONS}"  # noqa: S608
        wait_until(lambda: not execute(place.url, query), "the end of the session")
    try:
        with closing(open_storage(place.url, KEY_RING)) as storage:
            found, findings = contents(storage), list(examine(storage, lambda _: None))
            # A restore notes beside it that the clock was right.
            found["checkpoints"] = [row for row in found["checkpoints"] if row["name"] != "clock_believed_at"]
    except (KeywrightError, SQLAlchemyError, sqlite3.Error) as problem:
        return f"unusable: {problem}"
    if findings:
        return f"unsound: {findings[0].what}"
    return {True: "old", False: "neither"}[found == place.before] if found != place.backed_up else "new"


def are_kept_files_complete(place: Place) -> bool:
    """Whether every file that keeps the old database, if there is one, holds all of it."""
    path = database_path(place.url)
    kept = [] if path is None else list(path.parent.glob("*.before-restore-*"))
    for one in kept:
        with closing(open_storage(f"sqlite:///{one}", KEY_RING)) as storage:
            if contents(storage) != place.before:
                return False
    return True


# --- kills ----------------------------------------------------------------------------------------


def do_restore(place: Place) -> None:
    restore_backup(place.file, place.url, is_overwriting=True)


def do_backup(place: Place) -> None:
    back_up(place.url, place.file, is_overwriting=True)


def run_and_kill(work: Callable[[Place], None], place: Place, moment: float | None) -> float:
    """Do it in another process, which is killed after so many seconds; return the seconds that it lived."""
    process = _PROCESSES.Process(target=work, args=(place,))
    process.start()
    began = time.monotonic()
    process.join(moment)
    process.kill()
    process.join()
    lived = time.monotonic() - began
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    process.close()
    return lived


def moments(work: Callable[[Place], None], places: Places) -> Iterator[float]:
    """Random moments, in seconds, within the time that the work takes here."""
    with places.one() as place:
        run_and_kill(work, place, None)
    with places.one() as place:
        whole = run_and_kill(work, place, None)
    for _ in range(KILLS):
        # Not a wait for a condition: the moment must not depend on the progress of the work.
        yield random.uniform(0, 1.3 * whole)


def _is_back(place: Place) -> bool:
    try:
        restore_backup(place.file, place.url, is_overwriting=True)
    except StoreError as fault:
        if "is in use" not in str(fault):
            raise
        return False
    return True


def test_a_killed_restore_leaves_the_old_or_the_new(places: Places, database: str) -> None:
    states = []
    for moment in moments(do_restore, places):
        with places.one() as place:
            run_and_kill(do_restore, place, moment)
            states.append(state_of(place))
            assert are_kept_files_complete(place)
            # It can be done again as soon as the database has noticed the end of the session.
            wait_until(partial(_is_back, place), "the end of the killed session")
            assert state_of(place) == "new"
    found = {one: states.count(one) for one in ("old", "new")}
    record(
        "R16",
        database,
        counted={
            "restores killed": len(states),
            "left the old state": found["old"],
            "left the new state": found["new"],
            "left something else": len(states) - sum(found.values()),
        },
    )
    assert set(states) <= {"old", "new"}


def test_a_killed_backup_leaves_the_old_file_or_the_new_one(places: Places, database: str) -> None:
    before = places.file.read_bytes()
    is_new, broken = 0, 0
    for moment in moments(do_backup, places):
        places.file.write_bytes(before)
        with places.one() as place:
            run_and_kill(do_backup, place, moment)
        try:
            check_backup(places.file)
        except KeywrightError:
            broken += 1
        is_new += places.file.read_bytes() != before
    record(
        "R16",
        database,
        counted={"backups killed": KILLS, "had their name": is_new, "left a broken file": broken},
    )
    assert broken == 0


#: The system calls after which a restore may have left something on the disk.
_STEPS = "openat,rename,renameat,link,linkat,unlink,unlinkat,rmdir,fsync,fdatasync,ftruncate,pwrite64"
_RESTORE = """
import sys
from pathlib import Path
from tests.backups import restore_backup
print("begins", flush=True)
restore_backup(Path(sys.argv[1]), sys.argv[2], is_overwriting=True)
"""


def strace(place: Place, *options: str) -> "subprocess.CompletedProcess[str]":
    """A restore under strace."""
    command = ["strace", "-qq", *options, sys.executable, "-c", _RESTORE, str(place.file), place.url]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])


def steps_of(places: Places, log: Path) -> list[tuple[str, int]]:
    """The steps of a restore: each system call, with its number among the calls of its kind."""
    with places.one() as place:
        strace(place, f"--trace=write,{_STEPS}", f"--output={log}")
    seen: Counter[str] = Counter()
    steps, has_begun = [], False
    for line in log.read_text().splitlines():
        name = line.partition("(")[0]
        has_begun = has_begun or "begins" in line
        seen[name] += 1
        if has_begun and name != "write":
            steps.append((name, seen[name]))
    return steps


def test_a_restore_killed_at_any_of_its_steps_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    places = Places("sqlite", tmp_path)
    log = tmp_path / "trace"
    if shutil.which("strace") is None or not (steps := steps_of(places, log)):
        pytest.skip("strace cannot be used here")
    chosen = random.sample(steps, min(len(steps), size(3, len(steps))))
    states = []
    for name, number in chosen:
        with places.one() as place:
            strace(place, f"--trace={name}", f"--inject={name}:signal=KILL:when={number}", f"--output={log}")
            states.append(state_of(place))
            assert are_kept_files_complete(place)
    record(
        "R16",
        "sqlite",
        counted={
            "restores killed at a step": len(states),
            "left something else": len(states) - states.count("old") - states.count("new"),
        },
    )
    assert set(states) <= {"old", "new"}, list(zip(chosen, states, strict=True))


def half_a_restore(place: Place) -> None:
    """A careless restore: it writes into the existing database."""
    path = database_path(place.url)
    if path is None:
        execute(place.url, "DELETE FROM activations WHERE license_id > 100")
    else:
        with path.open("r+b") as file:
            file.write(place.file.read_bytes()[4096 : 4096 * 10])
    Path(place.file.parent / "half").touch()
    signal.pause()


def test_the_check_finds_half_a_restore(places: Places, database: str) -> None:
    process_is_half_done = places.file.parent / "half"
    with places.one() as place:
        process = _PROCESSES.Process(target=half_a_restore, args=(place,))
        process.start()
        wait_until(process_is_half_done.exists, "half of it")
        process.kill()
        process.join()
        state = state_of(place)
    found = {"broken off": 1, "found": int(state not in ("old", "new"))}
    record("R16", f"control: a restore into the database that is there, {database}", found)
    assert found["found"] == 1


# --- a full disk ----------------------------------------------------------------------------------

_ON_A_SMALL_DISK = """
import os, sys
from pathlib import Path
from tests.backups import back_up, restore_backup
folder, work, url, file = sys.argv[1:]
try:
    back_up(url, Path(file)) if work == "backup" else restore_backup(Path(file), url)
except Exception as problem:
    print(type(problem).__name__, problem)
print(sorted(os.listdir(folder)))
"""


def run_on_a_small_disk(disk: Path, kib: int, *arguments: str) -> tuple[str, str]:
    """Run the script with a disk of that size, for temporary files, too; return its two lines."""
    disk.mkdir()
    script = f'mount -t tmpfs -o size={kib}k none "$1" && TMPDIR="$1" exec "$0" -c "$2" "$1" "$3" "$4" "$5"'
    words = [sys.executable, str(disk), _ON_A_SMALL_DISK, *arguments]
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no disk can be mounted here: {done.stderr}")
    message, left = done.stdout.splitlines()
    return message, left


@pytest.mark.parametrize(
    ("work", "part"), [("backup", 0.3), ("backup", 0.9), ("backup", 1.5), ("restore", 0.3), ("restore", 0.9)]
)
def test_on_a_full_disk_nothing_is_left_behind(work: str, part: float, tmp_path: Path) -> None:
    disk, data = tmp_path / "disk", tmp_path / "data"
    url = f"sqlite:///{data}/keywright.db"
    fill(url, "FULL")
    kib = int(part * (data / "keywright.db").stat().st_size / 1024)
    file = disk / "full.tar"
    if work == "restore":
        file = tmp_path / "whole.tar"
        back_up(url, file)
        url = f"sqlite:///{disk}/keywright.db"
    message, left = run_on_a_small_disk(disk, kib, work, url, str(file))
    assert message.startswith("StoreError not enough space in "), message
    assert left in ("[]", "['keywright.db.lock']")


def test_a_full_temporary_disk_leaves_postgresql_as_it_was(tmp_path: Path) -> None:
    disk, file = tmp_path / "disk", tmp_path / "whole.tar"
    with a_postgres_url(empty=True) as source, a_postgres_url(empty=True) as target:
        fill(source, "FULL")
        back_up(source, file)
        kib = file.stat().st_size // 2048
        message, left = run_on_a_small_disk(disk, kib, "restore", target, str(file))
        assert message.startswith(f"StoreError not enough space in {disk}"), message
        assert left == "[]"
        tables = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        assert execute(target, tables) == []
