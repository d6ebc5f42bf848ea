"""PostgreSQL's disk is full: without room for tables it refuses changes, without any for its log it falls."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psycopg

from tests.faults.disks import Disk, move_to_disk
from tests.faults.installations import Database
from tests.faults.judge import INNOCENT, judge_calls
from tests.faults.load import Load, assert_answers_in_shape, run_load
from tests.http.asking import Client
from tests.proving import record, size
from tests.server import RunningServer, running, wait_until
from tools.postgres import FAST, PostgresServer

#: How soon it must go on when there is room again and PostgreSQL is up, in seconds.
HEALED = 5.0


class Shop(NamedTuple):
    """A Keywright on a PostgreSQL server of which a part is on a small disk."""

    disk: Disk
    postgres: PostgresServer
    store: Database
    server: RunningServer


@contextmanager
def a_shop(folder: Path, part: str, megabytes: int) -> Iterator[Shop]:
    postgres = PostgresServer(**FAST, wal_recycle="off")
    try:
        with move_to_disk(postgres.folder / part, megabytes) as disk:
            postgres.start()
            store = Database(postgres)
            with running(folder / "keywright", **store.settings(connect_timeout="20")) as server:
                yield Shop(disk, postgres, store, server)
            postgres.stop("immediate")
    finally:
        postgres.remove()


def has_no_log_left(shop: Shop, panics: int) -> bool:
    """Whether the server has fallen more often than that; it is asked for a new segment of its log."""
    with suppress(psycopg.OperationalError):
        shop.store.sql("SELECT pg_switch_wal()")
    return shop.postgres.log.read_text().count("PANIC") > panics


def judge(shop: Shop, load: Load, part: str, healed: float) -> None:
    """Write down what was found, and look whether it is as it has to be."""
    journal = load.finish()
    statuses = Counter(answer.status for answer in load.answers)
    found = judge_calls(journal, shop.store.labels())
    counted = {
        "acknowledged": statuses[200],
        "acknowledged and not there": len(found.missing),
        "changes refused with 503": statuses[503],
        "answers 5xx that are not 503": sum(n for status, n in statuses.items() if status // 100 == 5)
        - statuses[503],
    }
    record("R7", part, counted, {"seconds until it heals": healed})
    assert set(statuses) == {200, 503}
    assert_answers_in_shape(journal)
    assert found == INNOCENT
    assert healed < HEALED
    shop.store.assert_sound()


def test_without_room_for_tables_changes_are_refused_and_validations_answered(tmp_path: Path) -> None:
    waits = []
    with (
        a_shop(tmp_path, "data", 200) as shop,
        run_load(shop.server, shop.store.keys) as load,
        Client(shop.server) as program,
    ):
        for _ in range(size(1, 20)):
            shop.disk.fill()
            load.wait_for_refusal(time.monotonic())
            assert {program.validate(key).status for key in shop.store.keys * 5} == {200}
            assert program.get("/readyz").status == 200
            shop.disk.make_room()
            waits.append(load.wait_for_successes(1))
            load.wait_for_successes()
        judge(shop, load, "postgresql, no room for tables", max(waits))


def test_without_room_for_its_log_postgresql_falls_and_all_is_there_when_it_is_back(
    tmp_path: Path,
) -> None:
    waits, statuses = [], set()
    with (
        a_shop(tmp_path, "data/pg_wal", 120) as shop,
        run_load(shop.server, shop.store.keys) as load,
        Client(shop.server) as program,
    ):
        for _ in range(size(1, 20)):
            # What it no longer needs goes; so little is left to go on with.
            shop.store.sql("CHECKPOINT")
            shop.disk.fill()
            panics = shop.postgres.log.read_text().count("PANIC")
            wait_until(lambda: has_no_log_left(shop, panics), "a PostgreSQL without a log")  # noqa: B023
            load.wait_for_refusal(time.monotonic())
            statuses |= {program.validate(shop.store.keys[0]).status, program.get("/readyz").status}
            shop.disk.make_room()
            # It may have given up, or still be trying.
            shop.postgres.stop("immediate")
            shop.postgres.start()
            waits.append(load.wait_for_successes(1))
            load.wait_for_successes()
        judge(shop, load, "postgresql, no room for its log", max(waits))
    assert statuses <= {200, 503}
