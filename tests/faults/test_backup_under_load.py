"""A backup taken under load shows a state that existed: with everything that had been acknowledged when it
began, and nothing that was asked for after its end.
"""

import os
import shutil
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from keywright.core.errors import KeywrightError
from keywright.db import database_path, open_storage
from keywright.maintenance.doctor import examine
from keywright.registry import open_executor
from tests.databases import a_postgres_url, execute
from tests.faults.installations import KEY_RING, SECRET
from tests.faults.load import Call, run_load
from tests.makers import create
from tests.proving import record, size
from tests.server import KEYWRIGHT, NO_LIMITS, RunningServer, environment, running
from tools.postgres import binaries

BACKUPS = size(2, 50)
#: How many careless ones.
COPIES = 10
KEYS = [f"CANARY-{number}" for number in range(4)]


class State(NamedTuple):
    """What a restored database holds."""

    #: How often each label is there, and how many activations each license has and counts, by its key.
    labels: Counter[str]
    activations: Counter[str]
    counters: dict[str, int]
    findings: int


class Taken(NamedTuple):
    """A copy, when it was begun and ended (``time.monotonic``), and what came out of it."""

    state: State
    began: float
    ended: float


class Verdict(NamedTuple):
    """What is wrong with a copy: labels of calls, and keys."""

    #: It was acknowledged before the copy was begun, and is not there.
    missing: list[str]
    #: It was asked for after the copy's end, and is there.
    later: list[str]
    #: It was acknowledged before something else that is there was asked for, and is not there.
    torn: list[str]
    #: The license does not count its activations; or the copy has one of them that came later, by what the
    #: program was told, than one that it does not have.
    miscounted: list[str]
    out_of_order: list[str]


def judge_copy(journal: Sequence[Call], taken: Taken) -> Verdict:
    """The verdict on a copy. No call was deactivated, so each was told the license's counter after it."""
    labels = taken.state.labels
    done = [call for call in journal if call.is_acknowledged]
    absent = [call for call in done if call.label not in labels]
    asked_at = {call.label: call.answers[0].started_at for call in journal if call.answers}
    newest = max((asked_at[one] for one in labels), default=0.0)
    return Verdict(
        missing=[call.label for call in absent if call.answers[-1].ended_at < taken.began],
        later=[label for label in labels if asked_at[label] > taken.ended],
        torn=[call.label for call in absent if call.answers[-1].ended_at < newest],
        miscounted=[key for key in KEYS if taken.state.counters[key] != taken.state.activations[key]],
        out_of_order=[
            call.label
            for call in done
            if (call.label in labels) != (counter_of(call) <= taken.state.counters[call.key])
        ],
    )


def counter_of(call: Call) -> int:
    """The counter that came with the acknowledgement."""
    reply = call.answers[-1].reply
    assert reply is not None
    return int(reply.data["timesActivated"])


# --- installations, and copies of them ------------------------------------------------------------


@contextmanager
def a_place(database: str, folder: Path) -> Iterator[dict[str, Any]]:
    """The settings of a place for an installation, where nothing is."""
    with ExitStack() as stack:
        url = f"sqlite:///{folder}/keywright.db"
        if database == "postgresql":
            url = stack.enter_context(a_postgres_url(empty=True))
        folder.mkdir(parents=True)
        stack.callback(shutil.rmtree, folder)
        yield {"data_dir": folder, "database_url": url, "secret": SECRET}


@contextmanager
def serve_licenses(database: str, folder: Path) -> Iterator[RunningServer]:
    """A server with the licenses of ``KEYS``, without limits."""
    with a_place(database, folder) as place:
        with closing(open_storage(place["database_url"], KEY_RING)) as storage:
            open_executor(storage).execute([create(key) for key in KEYS])
        with running(place.pop("data_dir"), **place, **NO_LIMITS) as server:
            yield server


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[RunningServer]:
    with serve_licenses(database, tmp_path / "data") as server:
        yield server


def keywright(*arguments: str, **place: Any) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    variables = environment(**place)
    variables["PATH"] = f"{binaries()}:{os.environ['PATH']}"
    command = [KEYWRIGHT, *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def look_at(url: str) -> State:
    """What is there; licenses have their numbers in the order of ``KEYS``."""
    activations = rows(url, "SELECT license_id, label FROM activations")
    counters = dict(rows(url, "SELECT id, times_activated FROM licenses"))
    with closing(open_storage(url, KEY_RING)) as storage:
        findings = len(list(examine(storage, lambda _: None)))
    return State(
        Counter(label for _, label in activations),
        Counter(KEYS[number - 1] for number, _ in activations),
        {key: counters[number] for number, key in enumerate(KEYS, 1)},
        findings,
    )


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    path = database_path(url)
    if path is None:
        return execute(url, query)
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def back_up_and_restore(server: RunningServer, database: str, folder: Path) -> Taken:
    """A backup through the program, restored through the program, in another place."""
    file = folder / "keywright.tar"
    here = {"data_dir": server.data_dir, "database_url": server.database_url, "secret": SECRET}
    began = time.monotonic()
    made = keywright("backup", str(file), **here)
    ended = time.monotonic()
    assert made.returncode == 0, made.stderr
    with a_place(database, folder / "restored") as place:
        done = keywright("restore", str(file), **place)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        file.unlink()
        return Taken(look_at(place["database_url"]), began, ended)


def test_a_backup_under_load_is_a_state_that_existed(
    server: RunningServer, database: str, tmp_path: Path
) -> None:
    with run_load(server, KEYS) as load:
        taken = []
        for _ in range(BACKUPS):
            load.wait_for_successes(20)
            taken.append(back_up_and_restore(server, database, tmp_path))
        load.wait_for_successes(20)
        journal = load.finish()
    verdicts = [judge_copy(journal, one) for one in taken]
    record(
        "R16",
        database,
        counted={
            "backups under load": len(taken),
            "restored": len(verdicts),
            "acknowledged meanwhile": sum(call.is_acknowledged for call in journal),
            **figures(verdicts, taken),
        },
        worst={"seconds a backup took": max(one.ended - one.began for one in taken)},
    )
    assert verdicts == [Verdict([], [], [], [], [])] * BACKUPS
    assert [one.state.findings for one in taken] == [0] * BACKUPS
    # Something was there, and something came afterwards.
    assert all(0 < len(one.state.labels) < len(journal) for one in taken)


def figures(verdicts: Sequence[Verdict], taken: Sequence[Taken]) -> dict[str, int]:
    return {
        "acknowledged before and missing": sum(len(one.missing) for one in verdicts),
        "asked for later and present": sum(len(one.later) for one in verdicts),
        "acknowledged before something present and missing": sum(len(one.torn) for one in verdicts),
        "counters that are not exact": sum(len(one.miscounted) for one in verdicts),
        "present or missing against their number": sum(len(one.out_of_order) for one in verdicts),
        "doctor's findings": sum(one.state.findings for one in taken),
    }


# --- controls: copies that show no state that existed ---------------------------------------------


def test_the_judge_finds_a_plain_copy_of_the_file(tmp_path: Path) -> None:
    copies = []
    with serve_licenses("sqlite", tmp_path / "data") as server, run_load(server, KEYS) as load:
        for number in range(COPIES):
            load.wait_for_successes(3)
            began = time.monotonic()
            # Without its log, as a careless script does it.
            copy = shutil.copy(server.data_dir / "keywright.db", tmp_path / f"{number}.db")
            copies.append((copy, began, time.monotonic()))
        journal = load.finish()
    unreadable, taken = 0, []
    for copy, began, ended in copies:
        try:
            taken.append(Taken(look_at(f"sqlite:///{copy}"), began, ended))
        except (sqlite3.DatabaseError, KeywrightError):
            unreadable += 1
    verdicts = [judge_copy(journal, one) for one in taken]
    found = {"copies": COPIES, "unreadable": unreadable, **figures(verdicts, taken)}
    record("R16", "control: a plain copy of the file, without its log", found)
    assert unreadable or any(one.missing for one in verdicts)


def test_the_judge_finds_tables_that_were_dumped_one_after_the_other(tmp_path: Path) -> None:
    with serve_licenses("postgresql", tmp_path / "data") as server, run_load(server, KEYS) as load:
        began = time.monotonic()
        first = dump_bytes(server.database_url, "--table=licenses")
        load.wait_for_successes(20)
        second = dump_bytes(server.database_url, "--exclude-table=licenses")
        ended = time.monotonic()
        load.wait_for_successes(20)
        journal = load.finish()
    with a_postgres_url(empty=True) as url:
        for dump in (first, second):
            psql = [str(binaries() / "psql"), "--quiet", "--set=ON_ERROR_STOP=1", url]
            subprocess.run(psql, input=dump, check=True, capture_output=True)
        taken = Taken(look_at(url), began, ended)
    verdict = judge_copy(journal, taken)
    record("R16", "control: tables dumped one after the other", figures([verdict], [taken]))
    assert verdict.miscounted
    assert verdict.out_of_order
    assert taken.state.findings


def dump_bytes(url: str, which: str) -> bytes:
    command = [str(binaries() / "pg_dump"), which, url]
    return subprocess.run(command, check=True, capture_output=True).stdout


def test_the_judge_finds_what_came_later_and_what_is_torn(tmp_path: Path) -> None:
    with serve_licenses("sqlite", tmp_path / "data") as server, run_load(server, KEYS) as load:
        moment = time.monotonic()
        load.wait_for_successes(20)
        journal = load.finish()
        whole = look_at(server.database_url)
    # As if the copy had ended before the load did; and one call in its middle were not there.
    verdict = judge_copy(journal, Taken(whole, moment, moment))
    assert verdict.later
    assert (verdict.missing, verdict.torn, verdict.out_of_order) == ([], [], [])
    lost = min((call for call in journal if call.is_acknowledged), key=counter_of)
    labels = Counter({label: 1 for label in whole.labels if label != lost.label})
    verdict = judge_copy(journal, Taken(whole._replace(labels=labels), moment, time.monotonic()))
    assert lost.label in verdict.torn
    assert verdict.out_of_order == [lost.label]
