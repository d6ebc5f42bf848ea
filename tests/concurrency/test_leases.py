"""Leases, trials and usage under many programs and several servers: none too many, none twice."""

import secrets
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from keywright.registry import open_executor
from tests.concurrency.instances import instances
from tests.concurrency.posting import Posted, Program, run_programs
from tests.concurrency.selling import assert_well
from tests.histories import faulty
from tests.makers import create, create_policy, create_product, set_terms
from tests.proving import record, size
from tests.server import NO_LIMITS, RunningServer, running

PROGRAMS, LIMIT, LICENSES = 64, 5, 16
TAKES = size(2_000, 200_000) // PROGRAMS
DEVICES, METER = 64, {"limit": 1_000_000, "per": "license"}


@pytest.fixture(scope="module")
def servers(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningServer]]:
    with instances(tmp_path_factory.mktemp("leases"), 4, database) as servers:
        yield servers
        for server in servers:
            assert_well(server)


@pytest.fixture
def wrong(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[RunningServer]]:
    """A server with a fault."""
    program = faulty.program(request.param)
    with running(tmp_path / "data", program=program, **NO_LIMITS) as server:
        yield [server]


def run_commands(server: RunningServer, *commands: Any) -> None:
    with server.storage() as storage:
        outcomes = open_executor(storage).execute(commands)
    assert not [one for one in outcomes if isinstance(one, Exception)]


def make_licenses(server: RunningServer, terms: dict[str, Any], amount: int = LICENSES) -> list[str]:
    keys = [f"KEY-{secrets.token_hex(8)}" for _ in range(amount)]
    run_commands(server, *(create(key) for key in keys), *(set_terms(terms, key) for key in keys))
    return keys


# --- leases ---------------------------------------------------------------------------------------


def take_and_keep(servers: list[RunningServer], keys: list[str]) -> list[Posted]:
    async def play(program: Program) -> list[Posted]:
        bodies = [
            {"license_key": keys[(program.number + i) % len(keys)], "holder": f"{program.number}-{i}"}
            for i in range(TAKES)
        ]
        return [await program.post("/leases", body) for body in bodies]

    return run_programs(servers, PROGRAMS, play)


def count_over_limit(server: RunningServer, journal: list[Posted]) -> int:
    """How many more leases were given than there were; the counters of the database are right."""
    taken = Counter(one.body["license_key"] for one in journal if one.status == 201)
    assert {one.status for one in journal} == {201, 409}
    held = "SELECT count(*) FROM leases WHERE ended_at IS NULL"
    assert server.sql(held)[0][0] == sum(taken.values())
    return sum(max(0, number - LIMIT) for number in taken.values())


def test_no_more_leases_are_given_than_there_are(servers: list[RunningServer], database: str) -> None:
    keys = make_licenses(servers[0], {"max_leases": LIMIT})
    journal = take_and_keep(servers, keys)
    over = count_over_limit(servers[0], journal)
    taken = Counter(one.body["license_key"] for one in journal if one.status == 201)
    record("R20", f"leases, {database}", {"attempts": len(journal), "over the limit": over})
    assert taken == dict.fromkeys(keys, LIMIT)
    assert servers[0].sql("SELECT DISTINCT held, places FROM lease_counters") == [(LIMIT, LIMIT)]


def test_leases_that_come_and_go_are_never_more_than_there_are(servers: list[RunningServer]) -> None:
    keys = make_licenses(servers[0], {"max_leases": LIMIT}, 4)

    async def play(program: Program) -> list[Posted]:
        journal = []
        for number in range(TAKES // 2):
            key = keys[(program.number + number) % len(keys)]
            took = await program.post("/leases", {"license_key": key, "holder": str(program.number)})
            journal.append(took)
            if took.status == 201:
                named = {"license_key": key, "lease_id": took.json["lease"]["id"]}
                journal += [await program.post(f"/leases/{one}", named) for one in ("renew", "release")]
        return journal

    journal = run_programs(servers, PROGRAMS, play)
    assert {one.status for one in journal} == {200, 201, 409}
    assert most_held_at_once(journal) == LIMIT
    assert {one.json["license"]["leases"] for one in journal if one.status == 201} == {*range(1, LIMIT + 1)}
    query = "SELECT count(*) FROM leases JOIN licenses ON licenses.id = license_id WHERE license_id > ?"
    assert servers[0].sql(query, LICENSES) == [(0,)]


def most_held_at_once(journal: list[Posted]) -> int:
    """The most leases of a license that were certainly held at a moment: from the answer that gave a lease to
    the call that released it.
    """
    moments = defaultdict(list)
    for one in journal:
        if one.path == "/leases" and one.status == 201:
            moments[one.body["license_key"]].append((one.ended_at, 1))
        elif one.path == "/leases/release":
            moments[one.body["license_key"]].append((one.started_at, -1))
    return max(max(accumulate(change for _, change in sorted(some))) for some in moments.values())


@pytest.mark.parametrize("wrong", [faulty.leases_not_counted], indirect=True)
def test_a_server_that_does_not_count_leases_is_found(wrong: list[RunningServer]) -> None:
    keys = make_licenses(wrong[0], {"max_leases": LIMIT})

    async def play(program: Program) -> list[Posted]:
        body = {"license_key": keys[program.number % LICENSES], "holder": str(program.number)}
        return [await program.post("/leases", body), await program.post("/leases", body | {"holder": "b"})]

    journal = run_programs(wrong, 6 * LICENSES, play)
    taken = Counter(one.body["license_key"] for one in journal if one.status == 201)
    over = sum(max(0, number - LIMIT) for number in taken.values())
    record("R20", "control: leases are not counted", {"attempts": len(journal), "over the limit": over})
    assert over
    assert most_held_at_once(journal) > LIMIT


# --- trials ---------------------------------------------------------------------------------------


def start_trials(servers: list[RunningServer]) -> list[Posted]:
    """Each device starts its trial four times at once, at each of the servers."""
    run_commands(servers[0], create_product(17), create_policy(product_id=17, terms={"trial": True}))

    async def play(program: Program) -> list[Posted]:
        return [
            await program.post("/trials", {"product": 17, "fingerprint": f"a device {device}"})
            for device in range(program.number // 4, DEVICES, PROGRAMS // 4)
        ]

    return run_programs(servers, PROGRAMS, play)


def test_no_device_gets_two_trials(servers: list[RunningServer], database: str) -> None:
    journal = start_trials(servers)
    numbers = defaultdict(list)
    for one in journal:
        numbers[one.body["fingerprint"]].append((one.status, one.json["license"]["id"]))
    doubled = servers[0].sql("SELECT count(*) FROM licenses WHERE policy_id IS NOT NULL")[0][0] - DEVICES
    record("R20", f"trials, {database}", {"attempts": len(journal), "doubled": doubled})
    assert {tuple(sorted(status for status, _ in some)) for some in numbers.values()} == {
        (200, 200, 200, 201)
    }
    assert {len({number for _, number in some}) for some in numbers.values()} == {1}
    assert len(numbers) == DEVICES
    assert doubled == 0


@pytest.mark.parametrize("wrong", [faulty.trials_forgotten], indirect=True)
def test_a_server_that_forgets_trials_is_found(wrong: list[RunningServer]) -> None:
    journal = start_trials(wrong)
    doubled = len({one.json["license"]["id"] for one in journal}) - DEVICES
    record("R20", "control: trials are forgotten", {"attempts": len(journal), "doubled": doubled})
    assert doubled > 0


# --- usage ----------------------------------------------------------------------------------------


def count_usage(servers: list[RunningServer]) -> tuple[list[Posted], int]:
    """Each of 64 calls is sent four times at once; returns the calls, and how much was counted."""
    [key] = make_licenses(servers[0], {"meters": {"exports": METER}}, 1)

    async def play(program: Program) -> list[Posted]:
        body, journal = {"license_key": key, "meter": "exports"}, []
        for number in range(program.number // 4, 64, PROGRAMS // 4):
            one = await program.post("/usage", body, once=f"{key}-{number}")
            while one.status == 409:
                # The first one is still running.
                one = await program.post("/usage", body, once=f"{key}-{number}")
            journal.append(one)
        return journal

    journal = run_programs(servers, PROGRAMS, play)
    [(used,)] = servers[0].sql("SELECT used FROM meter_usage ORDER BY license_id DESC LIMIT 1")
    return journal, used


def test_a_repeated_call_is_counted_once(servers: list[RunningServer], database: str) -> None:
    journal, used = count_usage(servers)
    record("R20", f"usage, {database}", {"attempts": len(journal), "counted twice": used - 64})
    assert {one.status for one in journal} == {200}
    assert Counter(one.json["used"] for one in journal) == dict.fromkeys(range(1, 65), 4)
    assert used == 64


@pytest.mark.parametrize("wrong", [faulty.forgetting_calls], indirect=True)
def test_a_server_that_forgets_calls_is_found(wrong: list[RunningServer]) -> None:
    journal, used = count_usage(wrong)
    record("R20", "control: calls are forgotten", {"attempts": len(journal), "counted twice": used - 64})
    assert used > 64
