"""A database that the first release has filled is upgraded while a server of that release goes on: the
migration is killed in the middle, a backup is restored elsewhere, and the migration comes to its end.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import delete

from benchmarks.installations import key_of
from keywright.db.migrate import HEAD
from keywright.db.schema import activations
from tests.databases import a_postgres_url
from tests.faults.altered import altering_command
from tests.faults.first_release import REVISION, FirstRelease
from tests.faults.judge import INNOCENT, judge_calls
from tests.faults.load import Load, Programs, run_load
from tests.forking import Forked, command, fork
from tests.makers import SECRET
from tests.proving import IS_LONG, record, size
from tests.server import NO_LIMITS, TIMEOUT, RunningServer, environment, wait_until
from tools.postgres import binaries

pytestmark = pytest.mark.timeout(0 if IS_LONG else 900)
LICENSES, KILLS = size(2_000, 200_000), size(2, 10)
PROGRAMS = Programs(careful=2, plain=2)
_VERSION = "SELECT version_num FROM alembic_version"
_TABLES = ("licenses", "activations", "events")


class Upgrade:
    """A database of the first release, and what happens to it."""

    def __init__(self, folder: Path, url: str, old: FirstRelease) -> None:
        self.folder, self.url = folder, url
        # It reads its modules meanwhile.
        command()
        self.old, self.settings = old, {"secret": SECRET.decode()}
        self.data = folder / "data"
        self.data.mkdir(mode=0o700)
        self.old.fill(LICENSES, self.data, {"database_url": url, **self.settings})

    def server(self, name: str, *, is_old: bool) -> RunningServer:
        """A server on the database, of the first release or of this one."""
        limits = {one: 0 for one in NO_LIMITS if one != "bad_request_limit"}
        (self.folder / name).mkdir(mode=0o700)
        given: dict[str, Any] = {"database_url": self.url, **self.settings, **limits}
        return (
            RunningServer(self.folder / name, program=self.old.program, **given)
            if is_old
            else RunningServer(self.folder / name, **given)
        )

    def start_migrating(self, *alterations: str) -> Forked:
        """A process of this release that migrates, and serves then."""
        *_, script, names = altering_command(*alterations)
        return fork(
            [names, "serve", "--data-dir", str(self.data), "--port", "0"],
            output=self.folder / "migrating.log",
            folder=self.folder,
            environment=environment(database_url=self.url, **self.settings),
            script=script,
        )

    def kill_migration(self, server: RunningServer, revision: int) -> None:
        """Kill one when it has got to this revision; nothing of it is there then."""
        process = self.start_migrating(f"standing still at {revision}")
        status = psutil.Process(process.pid).status
        wait_until(lambda: process.poll() is not None or status() == psutil.STATUS_STOPPED, "the middle")
        process.send_signal(signal.SIGKILL)
        assert process.wait(TIMEOUT) == -signal.SIGKILL, (self.folder / "migrating.log").read_text()
        assert server.sql(_VERSION) == [(REVISION,)]

    def migrate_beside(self, old: RunningServer, load: Load) -> float:
        """Back up as the old release does, kill migrations, and let one come to its end while the old server
        goes on, also with the new schema; returns how long the last one took, in seconds.
        """
        place = {"database_url": self.url, **self.settings}
        self.old.run("backup", str(self.folder / "backup"), "--data-dir", str(self.data), **place)
        for revision in random.sample(range(17, 37), KILLS):
            self.kill_migration(old, revision)
        load.wait_for_successes()
        began = time.monotonic()
        # With the name of what alters nothing that matters here.
        migrating = self.start_migrating("sleeping by select")
        wait_until(lambda: old.sql(_VERSION) == [(HEAD,)], "the end of the migration")
        seconds = time.monotonic() - began
        load.wait_for_successes()
        migrating.send_signal(signal.SIGTERM)
        assert migrating.wait(TIMEOUT) == 0
        return seconds


def rows_of(server: RunningServer) -> dict[str, tuple[int, int]]:
    """How many rows the large tables have, and the sum of their IDs, of all up to now."""
    return {
        name: server.sql(f"SELECT count(*), coalesce(sum(id), 0) FROM {name}")[0]  # noqa: S608
        for name in _TABLES
    }


def count_lost(server: RunningServer, before: dict[str, tuple[int, int]], ends: dict[str, int]) -> int:
    """How many of the rows from before are gone."""
    lost = 0
    for name, (count, sum_of_ids) in before.items():
        query = f"SELECT count(*), coalesce(sum(id), 0) FROM {name} WHERE id <= ?"  # noqa: S608
        ((now, sum_now),) = server.sql(query, ends[name])
        lost += max(count - now, int(sum_now != sum_of_ids))
    return lost


@pytest.fixture
def url(database: str, tmp_path: Path) -> Iterator[str]:
    if database == "sqlite":
        yield f"sqlite:///{tmp_path}/data/keywright.db"
        return
    with a_postgres_url(empty=True) as url:
        yield url


@pytest.fixture
def elsewhere(database: str, tmp_path: Path) -> Iterator[str]:
    if database == "sqlite":
        yield f"sqlite:///{tmp_path}/restored/keywright.db"
        return
    with a_postgres_url(empty=True) as url:
        yield url


@pytest.fixture
def upgrade(
    database: str,
    url: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Upgrade:
    if database == "postgresql":
        monkeypatch.setenv("PATH", str(binaries()), prepend=":")
    return Upgrade(tmp_path, url, FirstRelease(tmp_path_factory))


def test_an_upgrade_beside_the_first_release_loses_nothing(
    database: str, elsewhere: str, upgrade: Upgrade
) -> None:
    keys = [key_of(number) for number in range(0, LICENSES, LICENSES // 20)]
    old = upgrade.server("old", is_old=True)
    try:
        before = rows_of(old)
        ends = {name: old.sql(f"SELECT max(id) FROM {name}")[0][0] for name in _TABLES}  # noqa: S608
        with run_load(old, keys, PROGRAMS, rest=0.03) as load:
            seconds = upgrade.migrate_beside(old, load)
        found = Counter(
            label for (label,) in old.sql("SELECT label FROM activations WHERE label LIKE 'call-%'")
        )
        assert judge_calls(load.journal, found) == INNOCENT
        failed = Counter(one.status for one in load.answers if one.status != 200)
        figures = {
            "licenses": LICENSES,
            "migrations killed": KILLS,
            "calls": len(load.journal),
            "failed calls": failed.total(),
            "rows lost": count_lost(old, before, ends),
        }
    finally:
        old.stop()
    new = upgrade.server("new", is_old=False)
    try:
        new.assert_consistent()
    finally:
        new.stop()
    figures["rows lost"] += lost_in_backup(upgrade, elsewhere, before, ends)
    record("R31", database, figures, {"seconds to migrate": seconds})
    assert (figures["rows lost"], failed.keys() - {0, 503}) == (0, set())
    # The control: a row that is gone is found.
    with new.storage() as storage, storage.write() as tx:
        tx.connection.execute(delete(activations).where(activations.c.id == ends["activations"]))
    altered = count_lost(new, before, ends)
    record("R31", f"control: a row deleted, {database}", {"rows lost": altered})
    assert altered == 1


def lost_in_backup(
    upgrade: Upgrade, url: str, before: dict[str, tuple[int, int]], ends: dict[str, int]
) -> int:
    """Restore the old release's backup elsewhere, which migrates it, and count what is not there."""
    (upgrade.folder / "restored").mkdir(mode=0o700)
    other = RunningServer(upgrade.folder / "restored", database_url=url, **upgrade.settings)
    other.stop()
    other.cli("restore", str(upgrade.folder / "backup"), "--overwrite")
    other.assert_consistent()
    return count_lost(other, before, ends)
