"""Keywright is killed under load: no lease, trial or usage that it acknowledged is missing or there twice."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.concurrency.posting import Posted, Program, run_programs
from tests.concurrency.test_leases import make_licenses, run_commands
from tests.faults.installations import rounds
from tests.histories import faulty
from tests.makers import create_policy, create_product
from tests.proving import record
from tests.server import NO_LIMITS, RunningServer, running, wait_until

pytestmark = pytest.mark.timeout(600)
KILLS, PROGRAMS = 5, 16
TERMS = {"max_leases": 10_000, "meters": {"calls": {"limit": 10**9, "per": "license"}}}


class Load:
    """Programs that go on until the end: careful ones repeat a call with its idempotency key until they know
    what became of it, plain ones ask once; each kind has a license.
    """

    def __init__(self, server: RunningServer, *, has_trials: bool) -> None:
        self.keys = make_licenses(server, TERMS, 2)
        run_commands(server, create_product(17), create_policy(product_id=17, terms={"trial": True}))
        self.done = 0
        self.journal: list[Posted] = []
        self._is_over, self._has_trials = False, has_trials
        self._thread = threading.Thread(target=self._run, args=[server])
        self._thread.start()

    def _run(self, server: RunningServer) -> None:
        self.journal = run_programs([server], PROGRAMS, self._play)

    def finish(self) -> None:
        """End it; ``journal`` has the last answer to each call."""
        self._is_over = True
        self._thread.join()

    def answers(self, path: str, key: str | None = None) -> list[Posted]:
        """The answers at a path, or those for a license."""
        return [one for one in self.journal if one.path == path and one.body.get("license_key") == key]

    async def _play(self, program: Program) -> list[Posted]:
        journal, number = [], 0
        while not self._is_over:
            number += 1
            for path, body in self._list_calls(program.number, number):
                journal.append(await self._call(program, path, body, f"{program.number}-{number}"))
        return journal

    def _list_calls(self, program: int, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
        key, name = self.keys[program % 2], f"program {program}, {number}"
        yield "/usage", {"license_key": key, "meter": "calls"}
        yield "/leases", {"license_key": key, "holder": name}
        if self._has_trials:
            yield "/trials", {"product": 17, "fingerprint": name}

    async def _call(self, program: Program, path: str, body: dict[str, Any], once: str) -> Posted:
        is_careful = program.number % 2 == 0
        while True:
            one = await program.post(path, body, once=once if is_careful else "")
            self.done += is_acknowledged(one)
            if is_acknowledged(one) or not is_careful:
                return one


@contextmanager
def killing(server: RunningServer, *, kills: int = KILLS, has_trials: bool = True) -> Iterator[Load]:
    """Kill the server so often under load; gives the load, which is over."""
    load = Load(server, has_trials=has_trials)
    try:
        for _ in range(kills):
            before = load.done
            wait_until(lambda before=before: load.done > before + 50, "some load")  # type: ignore[misc]
            # No wait for something: the moment must have nothing to do with what goes on.
            time.sleep(random.uniform(0, 0.3))
            server.kill()
            server.start()
        before = load.done
        wait_until(lambda: load.done > before, "the last start")
    finally:
        load.finish()
    yield load


def count_wrong(server: RunningServer, load: Load) -> dict[str, int]:
    """How much of what was acknowledged is missing, and how much is there twice."""
    used = [number for (number,) in server.sql("SELECT used FROM meter_usage ORDER BY license_id")]
    calls = [load.answers("/usage", key) for key in load.keys]
    known = [len(list(filter(is_acknowledged, some))) for some in calls]
    # All calls of the careful programs were acknowledged; any other of the plain ones may have been counted.
    assert known[0] == len(calls[0])
    leases = {lease_id for (lease_id,) in server.sql("SELECT lease_id FROM leases WHERE ended_at IS NULL")}
    trials = {number for (number,) in server.sql("SELECT license_id FROM trials")}
    taken = [one for key in load.keys for one in load.answers("/leases", key)]
    given = [one.json["lease"]["id"] for one in taken if is_acknowledged(one)]
    started = [one.json["license"]["id"] for one in load.answers("/trials") if is_acknowledged(one)]
    return {
        "usage missing": sum(max(0, one - count) for one, count in zip(known, used, strict=True)),
        "usage counted twice": sum(
            max(0, count - len(some)) for count, some in zip(used, calls, strict=True)
        ),
        "leases missing": len(set(given) - leases),
        "leases doubled": len(given) - len(set(given)),
        "trials missing": len(set(started) - trials),
        "trials doubled": len(started) - len(set(started)) + server.count("licenses") - 2 - len(trials),
    }


def is_acknowledged(answer: Posted) -> bool:
    return answer.status in (200, 201)


@rounds(20)
def test_nothing_acknowledged_is_missing_or_there_twice_when_the_server_is_killed(
    database: str, tmp_path: Path, round_number: int
) -> None:
    with running(tmp_path / "data", database, **NO_LIMITS) as server:
        with killing(server) as load:
            wrong = count_wrong(server, load)
        record("R20", f"kills, {database}", {"kills": KILLS, "calls": len(load.journal), **wrong})
        assert set(wrong.values()) == {0}
        server.assert_consistent()


def test_a_server_that_answers_before_it_commits_is_found(tmp_path: Path) -> None:
    program = faulty.program(faulty.answering_before_the_commit)
    with running(tmp_path / "data", program=program, **NO_LIMITS) as server:
        # A trial is decided in another transaction, which would end the open one.
        with killing(server, kills=1, has_trials=False) as load:
            server.kill()
        server.start()
        wrong = count_wrong(server, load)
    record("R20", "control: answers before the commit", {"kills": 2, **wrong})
    assert wrong["usage missing"] + wrong["leases missing"]
