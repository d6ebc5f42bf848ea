"""Keywright is killed while usage is counted and periods are closed: each is closed once and never altered,
and all periods together have what was acknowledged.
"""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from keywright.db.schema import meter_usage, past_usage
from keywright.licensing.licenses.store import lock_licenses
from tests.concurrency.instances import instances
from tests.concurrency.posting import Posted, Program, run_programs
from tests.concurrency.test_leases import make_licenses, run_commands
from tests.faults.installations import rounds
from tests.makers import set_terms
from tests.proving import record
from tests.server import RunningServer, wait_until

pytestmark = pytest.mark.timeout(600)
KILLS, PROGRAMS, SERVERS = 5, 16, 4
DAY = 86_400


def terms(per: str) -> dict[str, Any]:
    return {"meters": {"calls": {"limit": 10, "per": per, "overage": "allow"}}}


class Load:
    """Programs that count until the end: careful ones repeat a call with its idempotency key until they know
    what became of it, plain ones ask once; each kind has a license.
    """

    def __init__(self, servers: list[RunningServer]) -> None:
        self.keys = make_licenses(servers[0], terms("day"), 2)
        self.done = 0
        self.journal: list[Posted] = []
        self._is_over = False
        self._thread = threading.Thread(target=self._run, args=[servers])
        self._thread.start()

    def _run(self, servers: list[RunningServer]) -> None:
        self.journal = run_programs(servers, PROGRAMS, self._play)

    def finish(self) -> None:
        """End it; ``journal`` has the last answer to each call."""
        self._is_over = True
        self._thread.join()

    async def _play(self, program: Program) -> list[Posted]:
        journal, number, is_careful = list[Posted](), 0, program.number < PROGRAMS // 2
        body = {"license_key": self.keys[not is_careful], "meter": "calls"}
        while not self._is_over:
            number += 1
            once = f"{program.number}-{number}" if is_careful else ""
            one = await program.post("/usage", body, once=once)
            while is_careful and one.status != 200:
                one = await program.post("/usage", body, once=once)
            self.done += one.status == 200
            journal.append(one)
        return journal


def let_time_pass(server: RunningServer, keys: list[str], seconds: int) -> None:
    """Every period was so much earlier: the ones that are counted in are over."""
    with server.storage() as storage, storage.write() as tx:
        lock_licenses(tx, keys)
        for table in (past_usage, meter_usage):
            column = table.c
            earlier = {name: column[name] - seconds for name in ("period_start", "period_end")}
            # The earliest first: at no moment do two have the same beginning.
            for (start,) in tx.connection.execute(
                select(column.period_start).distinct().order_by(column.period_start)
            ).all():
                tx.connection.execute(update(table).where(column.period_start == start).values(earlier))


@contextmanager
def killing(servers: list[RunningServer]) -> Iterator[Load]:
    """Kill one server after the other under load, while periods end in both ways; gives the load, which is
    over.
    """
    load = Load(servers)

    def has_some_load() -> Callable[[], bool]:
        before = load.done
        return lambda: load.done > before + 50

    try:
        for number in range(KILLS):
            wait_until(has_some_load(), "some load")
            # A meter that starts again at other times is closed at once, others after their time.
            per = ("month", "license_month", "day")[number % 3]
            run_commands(servers[0], *(set_terms(terms(per), key) for key in load.keys))
            wait_until(has_some_load(), "some load")
            let_time_pass(servers[0], load.keys, 40 * DAY + number)
            # No wait for something: the moment must have nothing to do with what goes on.
            time.sleep(random.uniform(0, 0.3))
            victim = servers[number % len(servers)]
            victim.kill()
            victim.start()
        wait_until(has_some_load(), "the last start")
    finally:
        load.finish()
    yield load


def count_wrong(server: RunningServer, load: Load) -> dict[str, int]:
    """How much was lost or is there twice, and how many closed periods differ from what was told of them."""
    wrong = {"usage missing": 0, "usage counted twice": 0}
    rows = "SELECT license_id, used FROM meter_usage UNION ALL SELECT license_id, used FROM past_usage"
    totals = f"SELECT license_id, sum(used) FROM ({rows}) AS periods GROUP BY license_id ORDER BY license_id"  # noqa: S608
    for key, (_, used) in zip(load.keys, server.sql(totals), strict=True):
        calls = [one for one in load.journal if one.body["license_key"] == key]
        wrong["usage missing"] += max(0, sum(one.status == 200 for one in calls) - int(used))
        wrong["usage counted twice"] += max(0, int(used) - len(calls))
    closed = sorted(server.sql("SELECT license_id, used FROM past_usage WHERE closed_at IS NOT NULL"))
    told = server.sql("SELECT license_id, details FROM events WHERE name = 'usage.period_closed'")
    events = sorted((number, read_used(details)) for number, details in told)
    return wrong | {
        "closed twice": max(0, len(events) - len(closed)),
        "closed without an event": max(0, len(closed) - len(events)),
        "altered after the close": sum(one != other for one, other in zip(closed, events, strict=False)),
    }


def read_used(details: str) -> int:
    return int(json.loads(details)["used"])


@rounds(20)
def test_a_closed_period_is_what_was_acknowledged_when_servers_are_killed(
    database: str, tmp_path: Path, round_number: int
) -> None:
    with instances(tmp_path, SERVERS, database) as servers:
        with killing(servers) as load:
            let_time_pass(servers[0], load.keys, 40 * DAY + KILLS)
            is_open = "SELECT count(*) FROM meter_usage"
            wait_until(lambda: servers[0].sql(is_open) == [(0,)], "all periods to be closed")
            wrong = count_wrong(servers[0], load)
        periods = servers[0].count("past_usage")
        figures = {"kills": KILLS, "calls": len(load.journal), "periods": periods, **wrong}
        record("R26", f"kills, {database}", figures)
        assert set(wrong.values()) == {0}, wrong
        assert periods >= 2 * KILLS
        servers[0].assert_consistent()
        # The control: a period that is altered, and usage that is lost, are found.
        with servers[0].storage() as storage, storage.write() as tx:
            tx.connection.execute(update(past_usage).values(used=past_usage.c.used - 1))
        altered = count_wrong(servers[0], load)
        record("R26", f"control: altered rows, {database}", altered)
        assert altered["usage missing"] >= 1
        assert altered["altered after the close"] >= 1
