"""An upgrade of an SQLite database is killed again and again, while it copies and while it migrates: every
copy can be used, two at most are kept, and the database is the old one or the new one.
"""

import random
import shutil
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from keywright.db.migrate import HEAD, read_file_state
from tests.faults.altered import LATER, altering_command
from tests.forking import Forked, fork
from tests.makers import SECRET, make_sqlite_file, url_of
from tests.proving import record, size
from tests.server import TIMEOUT, environment, wait_until

KILLS = size(20, 200)
#: Bytes in the database, so that to copy and to migrate it takes a while.
_CHUNK, _CHUNKS = 1_000_000, 30
#: How long after the copy has begun, or was finished, the process is killed at the latest, in seconds.
_LATEST = 0.1


def make_large_database(folder: Path) -> None:
    folder.mkdir()
    make_sqlite_file(url_of(folder))
    with closing(sqlite3.connect(folder / "keywright.db")) as connection:
        chunks = [(1, number, b"x" * _CHUNK) for number in range(_CHUNKS)]
        connection.executemany("INSERT INTO job_file_chunks VALUES (?, ?, ?)", chunks)
        connection.commit()


def is_usable(copy: Path) -> bool:
    with closing(sqlite3.connect(f"file:{copy}?mode=ro", uri=True)) as connection:
        is_whole = connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
        chunks = connection.execute("SELECT count(*) FROM job_file_chunks").fetchone()
    return is_whole and chunks == (_CHUNKS,) and read_file_state(copy).revision == HEAD


class Upgrades:
    """Upgrades of one database to a later schema."""

    def __init__(self, folder: Path) -> None:
        self.data, self._folder = folder / "data", folder
        self.database, self.backups = self.data / "keywright.db", self.data / "backups"
        self.draft = self.backups / ".keywright.db.copy"
        *_, self._script, self._alteration = altering_command("with a slow later schema")
        make_large_database(self.data)
        self._before = shutil.copy(self.database, folder / "before.db")

    def start(self) -> Forked:
        return fork(
            [self._alteration, "init", "--data-dir", str(self.data)],
            output=self._folder / "log",
            folder=self._folder,
            environment=environment(secret=SECRET.decode()),
            script=self._script,
        )

    def copies(self) -> list[Path]:
        return [*self.backups.glob("keywright-schema-*")]

    def kill_while_copying(self) -> bool:
        """Kill one at a random moment of its copy; returns whether it had not ended."""
        for one in self.copies():
            one.unlink()
        return self._kill_when(self.draft.exists)

    def kill_while_migrating(self) -> bool:
        """Kill one at a random moment of its migration; returns whether it had not ended."""
        log, began = Path(f"{self.database}-wal"), time.time_ns()

        def is_migrating() -> bool:
            with suppress(FileNotFoundError):
                return log.stat().st_size > 0 and log.stat().st_mtime_ns >= began
            return False

        return self._kill_when(is_migrating)

    def _kill_when(self, is_under_way: Callable[[], bool]) -> bool:
        process = self.start()
        wait_until(lambda: is_under_way() or process.poll() is not None, "an upgrade that is under way")
        time.sleep(random.uniform(0, _LATEST))
        process.send_signal(signal.SIGKILL)
        return process.wait(TIMEOUT) == -signal.SIGKILL

    def begin_again(self) -> None:
        """Take back a migration that was finished."""
        for end in ("-wal", "-shm"):
            Path(f"{self.database}{end}").unlink(missing_ok=True)
        shutil.copy(self._before, self.database)


def test_every_copy_is_usable_whenever_an_upgrade_is_killed(tmp_path: Path) -> None:
    upgrades, counted = Upgrades(tmp_path), Counter[str]()
    while counted["upgrades killed"] < KILLS:
        if counted["upgrades killed"] % 2:
            was_killed = upgrades.kill_while_migrating()
        else:
            was_killed = upgrades.kill_while_copying()
        counted["left part of a copy"] += upgrades.draft.exists()
        counted["upgrades killed"] += was_killed
        counted["copies kept"] = max(counted["copies kept"], len(upgrades.copies()))
        counted["unusable copies"] += sum(not is_usable(one) for one in upgrades.copies())
        revision = read_file_state(upgrades.database).revision
        assert revision in (HEAD, LATER)
        if revision == LATER:
            upgrades.begin_again()
    record("R16", "sqlite", {name: counted[name] for name in ("upgrades killed", "unusable copies")})
    print(dict(counted))
    assert counted["unusable copies"] == 0
    assert counted["copies kept"] in (1, 2)
    assert counted["left part of a copy"] > 0
    # It takes away what was left.
    assert upgrades.start().wait(TIMEOUT) == 0
    assert read_file_state(upgrades.database).revision == LATER
    assert not upgrades.draft.exists()
