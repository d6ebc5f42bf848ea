"""Keywright itself is killed under load, again and again; what it said is in the database."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.installations import Database, SqliteFile, Store, rounds
from tests.faults.judge import assert_right, judge_calls
from tests.faults.load import Call, Load, Programs, assert_answers_in_shape, run_load
from tests.histories import faulty
from tests.http.asking import Client
from tests.proving import IS_LONG, record
from tests.server import KEYWRIGHT, RunningServer, running

#: A busy machine takes its time for every start.
pytestmark = pytest.mark.timeout(900)

KILLS = 20
PROGRAMS = Programs(careful=6, plain=6)
#: When it is killed, in seconds after it is ready.
SOONEST, LATEST = 0.05, 1.5


@pytest.fixture
def store(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    if database == "sqlite":
        store: Store = SqliteFile(tmp_path / "keywright.db")
    else:
        store = Database(request.getfixturevalue("postgres"))
    yield store
    store.assert_sound()


@pytest.fixture
def keywright(store: Store, tmp_path: Path) -> Iterator[RunningServer]:
    """A Keywright on ``store``; in the long form, each start is one of a new process."""
    program = ("sh", "-c", 'exec "$0" "$@"', KEYWRIGHT) if IS_LONG else (KEYWRIGHT,)
    with running(tmp_path / "data", program=program, **store.settings()) as server:
        yield server


def kill(server: RunningServer, load: Load, kills: int) -> float:
    """Kill it that often under this load, and start it again; the longest time until it was ready, in
    seconds.

    The moments are spread, and most of them are soon: much happens only once in a server's life.
    """
    parts = [number / (kills - 1) for number in range(kills)]
    readiness = []
    for part in random.sample(parts, kills):
        # This is no wait for something: when it happens must have nothing to do with what goes on.
        time.sleep(SOONEST + (LATEST - SOONEST) * part**3)
        server.kill()
        killed_at = time.monotonic()
        server.start()
        with Client(server) as program:
            assert program.get("/readyz").status == 200
        readiness.append(time.monotonic() - killed_at)
    load.wait_for_successes()
    return max(readiness)


def write_down(part: str, store: Store, journal: list[Call], *, kills: int, longest: float) -> None:
    verdict = judge_calls(journal, store.labels())
    counted = {
        "kills": kills,
        "calls": len(journal),
        "answers cut off or not let in": sum(not one.status for call in journal for one in call.answers),
        "acknowledged": sum(call.is_acknowledged for call in journal),
        "acknowledged and missing": len(verdict.missing),
        "doubled": len(verdict.doubled),
    }
    record("R3", part, counted, {"seconds until ready": round(longest, 2)})


@rounds(50)
def test_nothing_acknowledged_is_missing_when_the_server_is_killed(
    keywright: RunningServer, store: Store, database: str, round_number: int
) -> None:
    with run_load(keywright, store.keys, PROGRAMS) as load:
        longest = kill(keywright, load, KILLS)
        journal = load.finish()
    write_down(database, store, journal, kills=KILLS, longest=longest)
    assert sum(call.is_acknowledged for call in journal) > KILLS
    assert_answers_in_shape(journal)
    assert_right(journal, store)


def test_a_server_that_answers_before_it_commits_is_found(
    store: Store, database: str, tmp_path: Path
) -> None:
    kills = 3
    program = faulty.program(faulty.answering_before_the_commit)
    with running(tmp_path / "data", program=program, **store.settings()) as server:
        with run_load(server, store.keys, PROGRAMS) as load:
            longest = kill(server, load, kills)
            journal = load.finish()
        server.kill()
    part = f"control: answers before the commit, {database}"
    write_down(part, store, journal, kills=kills + 1, longest=longest)
    assert judge_calls(journal, store.labels()).missing
