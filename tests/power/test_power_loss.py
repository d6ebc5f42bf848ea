"""R4: what was acknowledged survives the loss of power; the database is whole, and nothing is half done.

Real commands run over the real statements on a disk that forgets (see ``disk`` and ``survivors``). At every
crash point the files that survived are opened by the standard library's SQLite, and compared with what the
callers had been told; at one in a hundred, and at the first of each sort, Keywright itself opens them, its
doctor examines them, and something more is changed.
"""

import math
import random
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from keywright.db import sqlite
from tests.makers import open_or_make
from tests.power.crashes import Expected, Judge, sort_of
from tests.power.disk import Disk, Operation
from tests.power.driver import Driver, driven_by
from tests.power.ledger import State, state_of
from tests.power.life import BATCHES, Life
from tests.power.recovery import DATABASE, examine, lay_out, scratch
from tests.power.survivors import WEATHERS, Files, Platter, survivors
from tests.proving import record, size

POINTS = size(1_000, 100_000)
LIVES = max(2, math.ceil(POINTS / 2_000))
#: How often the power fails a second time.
SECOND_TIMES = size(100, 2_000)
CONTROL_POINTS = size(150, 3_000)

LAX = {"PRAGMA synchronous=FULL": "PRAGMA synchronous=NORMAL"}
CARELESS = {"PRAGMA synchronous=FULL": "PRAGMA synchronous=OFF"}
WITHOUT_LOG = {"PRAGMA journal_mode=WAL": "PRAGMA journal_mode=DELETE"}


@pytest.mark.parametrize("number", range(1, LIVES + 1))
def test_what_was_acknowledged_survives_the_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    has_short_log = number % 2 == 0
    if has_short_log:
        # The log is made shorter whenever it begins again, as it otherwise is after a long reading only.
        monkeypatch.setattr(sqlite, "_MAX_WAL_BYTES", 64 * 1024)
    life = Life(tmp_path / "data", number)
    judge = Judge(tmp_path / "evidence", number)
    judge.crash(life, math.ceil(POINTS / LIVES))
    counted = {"activations acknowledged": life.acknowledged, "checkpoints": checkpoints(life.operations)}
    record("R4", "sqlite", counted=judge.counted | counted)
    # How many there are depends on how tokens fill pages.
    assert checkpoints(life.operations) >= 3
    assert beginnings(life.operations) >= 2
    assert {
        "create keywright.db",
        "delete keywright.db-journal",
        "create keywright.db-wal",
        "write keywright.db-wal",
        "sync keywright.db-wal",
        "sync folder",
        "write keywright.db",
        "sync keywright.db",
        "delete keywright.db-wal",
    } <= judge.sorts.keys()
    assert ("truncate keywright.db-wal" in judge.sorts) == has_short_log
    assert judge.is_satisfied, judge.counted


def checkpoints(operations: list[Operation]) -> int:
    """How often the log was moved into the database."""
    return sum(one.kind == "sync" and one.name == "keywright.db" for one in operations)


def beginnings(operations: list[Operation]) -> int:
    """How often the log began at its beginning, in a new file or over what was moved."""
    return sum(one.kind == "write" and one.name.endswith("-wal") and not one.offset for one in operations)


def test_power_may_fail_again_while_the_database_recovers(tmp_path: Path) -> None:
    life, rng = Life(tmp_path / "data", 1), random.Random(1)
    judge = Judge(tmp_path / "evidence", 1)
    # Before that, the tables are being made, and making them goes on.
    begins_at = life.commits[0].done_at
    for position in rng.choices(range(begins_at, len(life.operations)), k=math.ceil(SECOND_TIMES / 20)):
        files = survivors(Platter(life.operations[:position]), rng.choice(list(WEATHERS)), rng)
        operations, begun_at, state = recovery(files)
        points = rng.choices(range(begun_at + 1, len(operations) + 1), k=20)
        judge.crash_at(points, operations, Expected([state]))
    record("R4", "sqlite", counted=judge.counted)
    assert judge.is_satisfied, judge.counted


def recovery(files: Files) -> tuple[list[Operation], int, State]:
    """Open these files as Keywright does, and close them again: all that the disk saw, how much of it was
    there before, and what the database said.
    """
    with scratch() as folder:
        lay_out(files, folder)
        disk = Disk(folder)
        begun_at = len(disk.operations)
        with driven_by(Driver(disk)), closing(open_or_make(folder)) as storage, storage.write():
            pass
        disk.unregister()
        with closing(sqlite3.connect(folder / DATABASE)) as connection:
            return disk.operations, begun_at, state_of(connection)


def test_a_database_that_was_being_made_can_be_made_afterwards(tmp_path: Path) -> None:
    operations = Life(tmp_path / "data", 1, batches=8).operations
    rng = random.Random(1)
    # Until the first page of a table is in the log.
    end = [sort_of(one) for one in operations].index("write keywright.db-wal") + 3
    with scratch() as folder:
        for position in range(1, end):
            platter = Platter(operations[:position])
            for weather in ("all is kept", "each by itself"):
                lay_out(survivors(platter, weather, rng), folder)
                assert examine(folder, None) == [], f"{weather} after {sort_of(operations[position - 1])}"


# --- controls: the same must be found wrong where something is wrong ------------------------------


def crashes(tmp_path: Path, what: str, replaced: Mapping[str, str]) -> dict[str, int]:
    """The figures of a Keywright whose database is told something else."""
    # Without a log, who reads would keep others from writing.
    has_readers = replaced != WITHOUT_LOG
    life = Life(tmp_path / "data", 1, batches=BATCHES // 2, replaced=replaced, has_readers=has_readers)
    judge = Judge(tmp_path / "evidence", 1, has_doctor=False)
    judge.crash(life, CONTROL_POINTS)
    counted = judge.counted | {"activations acknowledged": life.acknowledged}
    record("R4", f"control: {what}", counted=counted)
    assert not judge.is_satisfied
    return counted


def test_without_a_sync_of_each_commit_acknowledged_activations_are_lost(tmp_path: Path) -> None:
    counted = crashes(tmp_path, "synchronous=NORMAL", LAX)
    assert counted["acknowledged changes missing"] > 0
    assert counted["acknowledged activations missing"] > 0
    # It is lax, but it is not wrong: what is there, is as it was once.
    assert (counted["changes half done"], counted["corrupt databases"]) == (0, 0)


def test_without_a_log_acknowledged_activations_are_lost(tmp_path: Path) -> None:
    """The old pages that were put aside come back: deleting them was not synced."""
    counted = crashes(tmp_path, "journal_mode=DELETE, synchronous=FULL", WITHOUT_LOG)
    assert counted["acknowledged activations missing"] > 0
    assert (counted["changes half done"], counted["corrupt databases"]) == (0, 0)


def test_without_any_sync_databases_are_corrupt(tmp_path: Path) -> None:
    counted = crashes(tmp_path, "synchronous=OFF", CARELESS)
    assert counted["corrupt databases"] > 0
    assert counted["acknowledged changes missing"] > 0
