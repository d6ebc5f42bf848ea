"""Keywright runs on and on under a steady load, while a reader now and then holds a moment open."""

import asyncio
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from keywright.background.clean_up import ANSWERS_KEPT
from keywright.engine import idempotency
from keywright.engine.idempotency import IdempotencyRecord
from tests.http.asking import Client
from tests.proving import IS_LONG, PART, record
from tests.receiver import Receiver, receiving
from tests.server import NO_LIMITS, RunningServer, running, wait_until
from tests.soak import leaking
from tests.soak.customers import PLACES, customers
from tests.soak.doors import TOLD, open_doors
from tests.soak.reader import Reader, a_reader
from tests.soak.samples import Looks
from tests.soak.traffic import Traffic


class Course(NamedTuple):
    """How it runs. All times are in seconds."""

    seconds: float
    #: The time whose calls make up one figure.
    minute: float
    look_every: float
    #: The most calls a second, if half of what the server can do is more than that.
    most_calls: int
    licenses: int

    @property
    def warm_up(self) -> float:
        return min(600.0, self.seconds / 5)

    @property
    def cycle(self) -> float:
        """How often a reader holds on."""
        return min(600.0, self.seconds / 3)

    @property
    def held(self) -> float:
        """For how long it does; so long after it has let go, all must be as before."""
        return self.cycle / 4


SHORT = Course(5.0, 1.0, 0.1, 100, 60)
COURSE = Course(max(300.0, 2 * 3600 * PART), 60.0, 1.0, 500, 2_000) if IS_LONG else SHORT
#: What is promised. How p99 drifts is written down, and not judged: it is also the machine's.
MAX_GROWTH, MAX_WAL_MIB = 5.0, 64.0
#: As many as one server process needs at most (docs/how-to/use-postgresql.md): three for calls, four for what
#: goes on beside them, three for the pages of administrators and three for the portal.
MAX_SESSIONS = 13
#: These have a thread for each session, and one for signing in.
MAX_THREADS = 15
OLD_ANSWERS = 5_000
_SOON = timedelta(minutes=10)
_FORGOTTEN_AFTER = 2 * 3600


@contextmanager
def soaking(data_dir: Path, database: str, *program: str) -> Iterator[RunningServer]:
    """A server; in the end, the doctor finds nothing."""
    instead = {"program": program} if program else {}
    settings = {"webhook_networks": "127.0.0.0/8", **NO_LIMITS}
    with running(data_dir, database, **instead, **settings) as server:
        yield server
        server.assert_consistent()


def traffic_for(server: RunningServer, course: Course, url: str) -> Traffic:
    """Customers with a new license each, and some who use the other doors; a webhook is told at ``url``."""
    credentials = server.api_key()
    recipe = {"name": "Soak", "charset": "ABCDEFGHJKLMNPQR", "chunks": 6, "chunk_length": 6}
    with Client(server, credentials) as vendor:
        generator = vendor.post("generators", json_body={**recipe, "times_activated_max": PLACES}).data["id"]
        path = f"generators/{generator}/generate"
        made = vendor.post(path, json_body={"amount": course.licenses, "status": "active"}).data
    others = open_doors(server, url, max(1, course.licenses // 100))
    return Traffic(server, [*customers([one["licenseKey"] for one in made], credentials), *others])


# --- answers that are kept ------------------------------------------------------------------------


def keep_answers(server: RunningServer, age: timedelta) -> None:
    """As if so many calls with an Idempotency-Key had been answered that long ago."""
    moment = datetime.now(UTC).replace(microsecond=0) - age
    with server.storage() as storage, storage.write() as tx:
        scopes = [secrets.token_bytes(32) for _ in range(OLD_ANSWERS)]
        record = IdempotencyRecord(b"x" * 32, 200, b"{}" * 400)
        records = dict.fromkeys(scopes, record)
        idempotency.save_idempotency_records(tx, records, dict.fromkeys(scopes, moment))


def kept_before(server: RunningServer, moment: datetime) -> int:
    """How many answers are kept since before this moment."""
    query = "SELECT count(*) FROM idempotency_records WHERE created_at < ?"
    return int(server.sql(query, int(moment.timestamp()))[0][0])


def assert_old_answers_are_forgotten(server: RunningServer) -> None:
    """What is too old goes when the server starts; what becomes too old while it runs, goes then."""
    today = datetime.now(UTC)
    keep_answers(server, ANSWERS_KEPT + timedelta(hours=1))
    keep_answers(server, ANSWERS_KEPT - _SOON)
    assert kept_before(server, today - timedelta(hours=1)) == 2 * OLD_ANSWERS
    server.stop()
    server.start()
    wait_until(lambda: kept_before(server, today - timedelta(hours=1)) == OLD_ANSWERS, "old answers to go")


# --- what happens at once -------------------------------------------------------------------------


async def hold_now_and_then(course: Course, reader: Reader, looks: Looks) -> None:
    """Somebody holds a moment open, and lets go, again and again; all is looked at meanwhile."""

    async def look(is_held: bool | None, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.to_thread(looks.look, is_held=is_held)
            await asyncio.sleep(course.look_every)

    while True:
        await look(False, course.cycle - 2 * course.held)
        await asyncio.to_thread(reader.hold)
        await look(True, course.held)
        await asyncio.to_thread(reader.release)
        await look(None, course.held)


async def count_minutes(course: Course, traffic: Traffic, looks: Looks) -> None:
    while True:
        await asyncio.sleep(course.minute)
        await asyncio.to_thread(looks.end_minute, traffic.take_seconds())


async def soak(server: RunningServer, traffic: Traffic, reader: Reader, course: Course) -> Looks:
    """Run for as long as is wanted; what was seen after the warm-up."""
    most = await traffic.at_full_speed(course.warm_up / 4)
    rate = min(course.most_calls, most / 2)
    print(f"{rate:.0f} calls a second of {most:.0f} that are possible, for {course.seconds:.0f} s")
    await traffic.at_rate(rate, course.warm_up)
    traffic.take_seconds()
    looks = Looks(server)
    looks.look(is_held=False)
    beside = [
        asyncio.create_task(hold_now_and_then(course, reader, looks)),
        asyncio.create_task(count_minutes(course, traffic, looks)),
    ]
    await traffic.at_rate(rate, course.seconds)
    await traffic.rest()
    for task in beside:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    traffic.close()
    # A piece of a minute counts only where there is no whole one.
    looks.end_minute([] if looks.minutes else traffic.take_seconds())
    return looks


def write_down(part: str, course: Course, traffic: Traffic, looks: Looks, told: int = 0) -> None:
    print(", ".join(f"{kind} {number:,}" for kind, number in traffic.calls.most_common()))
    print("; ".join(f"{one.p50:.1f} {one.p99:.1f} {one.longest:.0f} ms" for one in looks.minutes))
    record(
        "R17",
        part,
        counted={
            "calls": traffic.calls.total(),
            "failed calls": traffic.failed,
            "webhooks": told,
            "seconds": int(course.seconds),
        },
        worst={
            "memory growth %": looks.memory_growth,
            "memory MiB": looks.most(lambda one: one.memory_mib),
            "WAL MiB": looks.most(lambda one: one.wal_mib, held=[False]),
            "WAL MiB while a reader holds on": looks.most(lambda one: one.wal_mib, held=[True]),
            "seconds a reader holds on": course.held,
            "p99 drift %": looks.p99_drift,
            "p99 ms": max(one.p99 for one in looks.minutes),
            "longest call ms": max(one.longest for one in looks.minutes),
            "open files": looks.most(lambda one: one.files),
            "threads": looks.most(lambda one: one.threads),
            "sessions": looks.most(lambda one: one.sessions),
            "log bytes a call": looks.log_bytes / traffic.calls.total(),
        },
    )


def assert_told(server: RunningServer, receiver: Receiver) -> int:
    """All sales are done, and webhooks have told of all new licenses; returns of how many."""
    wait_until(
        lambda: server.sql("SELECT count(*) FROM shop_events WHERE state = 'waiting'") == [(0,)], "sales"
    )
    query = (
        "SELECT id FROM events WHERE name = ? AND id > (SELECT id FROM events WHERE name = 'webhook.created')"
    )
    made = {id for (id,) in server.sql(query, TOLD)}
    while left := len(made.difference(receiver.event_ids)):
        wait_until(lambda left=left: len(made.difference(receiver.event_ids)) < left, "webhooks")  # type: ignore[misc]
    return len(made)


def test_it_runs_on_and_on(tmp_path: Path, database: str) -> None:
    with receiving() as receiver, soaking(tmp_path / "data", database) as server:
        traffic = traffic_for(server, COURSE, receiver.url)
        assert_old_answers_are_forgotten(server)
        with a_reader(server.database_url) as reader:
            looks = asyncio.run(soak(server, traffic, reader, COURSE))
        told = assert_told(server, receiver)
        write_down(database, COURSE, traffic, looks, told)
        assert traffic.failed == 0, f"{dict(traffic.wrong)}: {traffic.complaints}"
        assert looks.faults == []
        assert looks.most(lambda one: one.sessions) <= MAX_SESSIONS
        assert looks.most(lambda one: one.threads) <= MAX_THREADS
        assert looks.most(lambda one: one.wal_mib, held=[False]) <= MAX_WAL_MIB
        if COURSE.seconds >= _FORGOTTEN_AFTER:
            assert kept_before(server, datetime.now(UTC) - ANSWERS_KEPT) == 0
    if IS_LONG:
        assert looks.memory_growth < MAX_GROWTH


def test_control_a_server_that_keeps_something_of_every_request_is_found(tmp_path: Path) -> None:
    with (
        receiving() as receiver,
        soaking(tmp_path / "data", "sqlite", sys.executable, leaking.__file__) as server,
    ):
        traffic = traffic_for(server, SHORT, receiver.url)
        with a_reader(server.database_url) as reader:
            looks = asyncio.run(soak(server, traffic, reader, SHORT))
        write_down("control: a leak", SHORT, traffic, looks)
    assert looks.memory_growth > MAX_GROWTH
