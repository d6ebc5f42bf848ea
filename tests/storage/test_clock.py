"""The clock is compared with the last plausible time; items with times from a wrong clock are found again."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from keywright.background import clock as guarding
from keywright.background.clock import DOUBTED_FOR, ClockGuard
from keywright.core.command import Command, Context, Query
from keywright.core.errors import KeywrightError
from keywright.db import Storage, run_read
from keywright.db.schema import shop_events
from keywright.engine.executor import Executor
from keywright.maintenance import clock
from keywright.maintenance.tasks import BelieveClock
from keywright.provisioning.shops.store import EVENTS
from tests.connections import a_sale, an_event, connect, store
from tests.makers import NOW, a_retry, activate, an_origin, create, find_items
from tests.storage.webhooks import do

DATABASES = ("sqlite",)
DAY = timedelta(days=1)
FAR = 400 * DAY


class Desk:
    """A desk for the guard, on the database of the test, with sequential calls."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def execute(self, command: Command) -> Any:
        return do(self._executor, command)

    async def query(self, query: Query) -> Any:
        (found,) = self._executor.query([query])
        assert not isinstance(found, KeywrightError)
        return found


class Clock:
    """A clock that a test sets, and a monotonic one that always advances."""

    def __init__(self) -> None:
        self.now, self.seconds = NOW, 1000.0

    def go_on(self, time: timedelta) -> None:
        self.now += time
        self.seconds += time.total_seconds()


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Clock:
    wall = Clock()
    monkeypatch.setattr(guarding, "read_clock", lambda: wall.now)
    monkeypatch.setattr(guarding, "monotonic", lambda: wall.seconds)
    return wall


def look(executor: Executor, guard: ClockGuard | None = None) -> ClockGuard:
    """Return the guard after another check."""
    guard = guard or ClockGuard(Desk(executor))  # type: ignore[arg-type]
    asyncio.run(guard.look())
    return guard


@pytest.mark.parametrize("trace", ["believed", "event", "receipt", "answer"])
def test_a_start_is_believed_after_what_happened_last(executor: Executor, wall: Clock, trace: str) -> None:
    match trace:
        case "believed":
            look(executor)
        case "event":
            do(executor, create("a"))
        case "receipt":
            connect(executor, mapping=())
            store(executor, an_event(a_sale()))
        case _:
            do(executor, create("a"))
            do(executor, activate("a", idempotency=a_retry("call")))
    # Times are compared with that of the newest event, shop event or response.
    cases = {31 * DAY: False, FAR: False, -DAY: False, -FAR: False, timedelta(0): True, 2 * DAY: True}
    for since, is_right in cases.items():
        wall.now = NOW + since
        assert look(executor).is_right() is is_right, since


def test_a_jump_is_doubted_until_the_clock_is_back(executor: Executor, wall: Clock) -> None:
    guard = look(executor)
    for jump in (FAR, -FAR):
        wall.now += jump
        assert not guard.is_right()
        assert not look(executor, guard).is_right()
        wall.now -= jump
        wall.go_on(DAY)
        assert guard.is_right()


def test_after_two_days_any_clock_is_believed_and_remembered(executor: Executor, wall: Clock) -> None:
    look(executor)
    wall.now += FAR
    guard = look(executor)
    wall.go_on(DOUBTED_FOR - timedelta(seconds=1))
    assert not look(executor, guard).is_right()
    wall.go_on(timedelta(seconds=1))
    assert look(executor, guard).is_right()
    assert look(executor).is_right()


def test_a_person_can_say_that_the_clock_is_right(executor: Executor, storage: Storage, wall: Clock) -> None:
    look(executor)
    wall.now += FAR
    guard = look(executor)
    (warning,) = run_read(storage, lambda tx: list(clock.list_clock_warnings(tx, wall.now)))
    assert "keywright doctor --confirm-clock" in warning
    do(executor, BelieveClock(context=Context(wall.now, an_origin()), is_confirmed=True))
    assert look(executor, guard).is_right()
    assert run_read(storage, lambda tx: list(clock.list_clock_warnings(tx, wall.now))) == []


@pytest.mark.of_the_database
@pytest.mark.databases("postgresql")
@pytest.mark.usefixtures("clock_of_database")
def test_the_clock_of_the_database_is_compared_with_the_one_here(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    difference = run_read(storage, clock.measure_difference)
    assert difference is not None
    assert abs(difference) < clock.CLOCKS_APART

    class Slow(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) - timedelta(minutes=10)

    monkeypatch.setattr(clock, "datetime", Slow)
    (warning,) = run_read(storage, lambda tx: list(clock.list_clock_warnings(tx, NOW)))
    assert "differs from this machine's by 600 s" in warning


# --- what a clock that was ahead leaves behind ----------------------------------------------------


def test_events_of_shops_that_wait_too_long_are_due(executor: Executor, storage: Storage) -> None:
    connect(executor, mapping=())
    row_id = store(executor, an_event(a_sale()))
    assert row_id is not None
    for next_attempt_at, is_due in ((NOW, True), (NOW + timedelta(minutes=59), False), (NOW + FAR, True)):
        with storage.write() as tx:
            later = update(shop_events).values(next_attempt_at=int(next_attempt_at.timestamp()))
            tx.connection.execute(later)
        assert [one.id for one in find_items(storage, EVENTS)] == ([row_id] if is_due else [])
