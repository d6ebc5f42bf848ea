"""A hundred programs make the same call at the same moment, or one makes it a hundred times: with an
Idempotency-Key it is done once, and everybody is told the same.
"""

import asyncio
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from keywright.db import database_path
from tests.concurrency.instances import instances
from tests.databases import execute
from tests.histories.doors import Door, Told, kill_and_start
from tests.http.asking import V2, Client, core
from tests.proving import record, size
from tests.server import NO_LIMITS, RunningServer, running, wait_until

CALLS = 100
#: On PostgreSQL.
SERVERS = 2
_PAUSE = 0.05
_DAY = 24 * 60 * 60


@pytest.fixture(scope="module")
def servers(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningServer]]:
    with instances(tmp_path_factory.mktemp("servers"), SERVERS, database) as servers:
        yield servers
        servers[0].assert_consistent()
        for server in servers:
            assert '"level":"error"' not in server.log


@pytest.fixture(scope="module")
def vendor(servers: list[RunningServer]) -> Iterator[Client]:
    with Client(servers[0], servers[0].api_key()) as client:
        yield client


def requests(call: str, key: str, query: str, once: str | None) -> list[bytes]:
    """A hundred times the same call; half of them are GET, half POST."""
    name = [] if once is None else [f"Idempotency-Key: {once}"]
    heads = (["GET", name], ["POST", [*name, "Content-Length: 0"]])
    lines = [
        [f"{method} {V2}{core(call, key)}?{query} HTTP/1.1", "Host: x", *headers] for method, headers in heads
    ]
    return ["\r\n".join([*one, "", ""]).encode() for one in lines] * (CALLS // 2)


class Asked(NamedTuple):
    """What each call was told at last, and how many answers never came before that."""

    answers: list[Told]
    cut_off: int = 0


def ask_all(servers: Sequence[RunningServer], calls: Sequence[bytes], *, is_killed: bool = False) -> Asked:
    """All calls are made at the same moment; whoever is not told what became of the call makes it again,
    wherever. One of the servers may be killed meanwhile.
    """
    return asyncio.run(_ask_all(servers, calls, is_killed=is_killed))


async def _ask_all(servers: Sequence[RunningServer], calls: Sequence[bytes], *, is_killed: bool) -> Asked:
    doors = [Door(server) for server in servers]
    for door in doors:
        await door.prepare(len(calls))
    asking = asyncio.gather(
        *(_ask_until_known(doors, number, call) for number, call in enumerate(calls)),
    )
    if is_killed:
        # Some are answered, some are being decided, some have just come.
        await asyncio.sleep(random.uniform(0, 0.02))
        await asyncio.to_thread(kill_and_start, random.choice(servers))
    told = await asking
    for door in doors:
        await door.close()
    return Asked([answer for answer, _ in told], sum(cut_off for _, cut_off in told))


async def _ask_until_known(doors: Sequence[Door], number: int, call: bytes) -> tuple[Told, int]:
    door, cut_off = doors[number % len(doors)], 0
    while True:
        if await door.is_open():
            told = await door.ask(call)
            if told is not None and told.status not in (409, 503):
                return told, cut_off
            cut_off += told is None
        await asyncio.sleep(_PAUSE)
        door = random.choice(doors)


class Found(Counter[str]):
    """What was found in all rounds."""

    def judge(self, asked: Asked, effects: int, *, is_killed: bool) -> None:
        """``effects`` is how often the database has seen it happen."""
        answers = asked.answers
        first = sum(not one.is_replayed for one in answers)
        self["calls"] += len(answers)
        self["kills"] += is_killed
        self["answers that were cut off"] += asked.cut_off
        self["effects too many"] += max(effects - 1, 0)
        self["effects missing"] += not effects
        self["answers unlike the first"] += len({one.body for one in answers}) - 1
        self["answers that are no success"] += sum(one.status != 200 for one in answers)
        # Whoever was told first may have been killed before it was said.
        self["first answers too many"] += max(first - 1, 0)
        self["first answers missing"] += not first and not is_killed


def effects(server: RunningServer, order: int, event: str) -> int:
    """How often this happened to the license of this order."""
    query = """SELECT count(*) FROM events JOIN licenses ON licenses.id = license_id
               WHERE order_id = ? AND name = ?"""
    return int(server.sql(query, order, event)[0][0])


def play_round(found: Found, servers: Sequence[RunningServer], vendor: Client, order: int) -> None:
    """Take a place, give it up and take it back, each a hundred times at once; servers are killed during the
    first and the last. Then ask for something else with the same Idempotency-Key.
    """
    key, token, once = vendor.license(order_id=order), "", ""
    for call, event, is_killed in (
        ("activate", "license.activated", True),
        ("deactivate", "license.deactivated", False),
        ("activate", "license.reactivated", True),
    ):
        once = str(uuid4())
        query = f"token={token}" if token else "label=a"
        told = ask_all(servers, requests(call, key, query, once), is_killed=is_killed)
        found.judge(told, effects(servers[0], order, event), is_killed=is_killed)
        token = token or told.answers[0].json["data"]["activationData"]["token"]
    for call, query in (("activate", "label=a"), ("activate", ""), ("deactivate", f"token={token}")):
        for answer in ask_all(servers, requests(call, key, query, once)[: 2 * len(servers)]).answers:
            found["other parameters"] += 1
            found["other parameters that were not refused"] += answer.status != 422
    found["counters that are not 1"] += vendor.counter(key) != 1


def test_a_hundred_calls_with_one_idempotency_key_have_one_effect_and_one_answer(
    servers: list[RunningServer], vendor: Client, database: str
) -> None:
    found, rounds = Found(), size(1, 100)
    for order in range(1, rounds + 1):
        play_round(found, servers, vendor, order)
    record("R9", database, {"rounds": rounds, **found})
    del found["answers that were cut off"]
    assert +found == {
        "calls": rounds * 3 * CALLS,
        "kills": rounds * 2,
        "other parameters": rounds * 3 * 2 * len(servers),
    }


def test_without_an_idempotency_key_a_hundred_calls_have_a_hundred_effects(
    servers: list[RunningServer], vendor: Client, database: str
) -> None:
    order, found = 0, Found()
    key = vendor.license(order_id=order)
    told = ask_all(servers, requests("activate", key, "label=a", None))
    found.judge(told, effects(servers[0], order, "license.activated"), is_killed=False)
    record("R9", f"control: no Idempotency-Key, {database}", found)
    assert found["effects too many"] == CALLS - 1
    assert found["answers unlike the first"] == CALLS - 1
    assert vendor.counter(key) == CALLS


def test_an_answer_is_there_after_a_day_and_not_for_ever(database: str, tmp_path: Path) -> None:
    once: dict[str, Any] = {"headers": {"Idempotency-Key": str(uuid4())}}
    with running(tmp_path / "data", database, **NO_LIMITS) as server:
        credentials = server.api_key()
        with Client(server, credentials) as vendor:
            key, full = vendor.license(), vendor.license(times_activated_max=1)
            token = vendor.activated(full)
            first, refused = vendor.activate(key, **once), vendor.activate(full, **once)
            vendor.deactivate(full, token)
        assert (first.status, refused.status) == (200, 404)
        server.stop()
        # A server forgets when it starts, and every hour.
        make_older(server, 200, seconds=_DAY)
        make_older(server, 404, seconds=3 * _DAY)
        server.start()
        wait_until(lambda: server.count("idempotency_records") == 1, "the older answer to be forgotten")
        with Client(server, credentials) as vendor:
            again = vendor.activate(key, **once)
            assert (again.body, again.header("idempotency-replayed")) == (first.body, "true")
            assert vendor.counter(key) == 1
            assert vendor.activate(full, **once).status == 200


def make_older(server: RunningServer, status: int, *, seconds: int) -> None:
    """As if these answers had been given so long before; the server is stopped."""
    change = f"UPDATE idempotency_records SET created_at = created_at - {seconds} WHERE status = {status}"  # noqa: S608
    path = database_path(server.database_url)
    if path is None:
        execute(server.database_url, change)
        return
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(change)
