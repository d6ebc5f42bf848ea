"""Calls that wait for events lose none, whenever they time out, and do not all get responses at once."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from keywright.core.command import Query
from keywright.engine.desk import Desk
from keywright.events.feed import Feed, FeedEvent, ListFeed, Look, LookAtFeed, Reached
from keywright.events.model import Event
from keywright.http.v3 import waiting
from keywright.http.v3.waiting import Waiters

NOW = datetime(2026, 1, 15, 12, 30, 45, tzinfo=UTC)
EVENT = FeedEvent(1, Event(NOW, "license.created", 1, None, "test", ""))


class Call:
    by, is_gone, scope = 1, False, dict[str, Any]()


class LogOfEvents(Desk):
    """An event log that returns one event once ``look`` has ended; no list contains that event yet."""

    def __init__(self, look: Callable[[], Any]) -> None:
        self._look = look

    async def query(self, query: Query, waiting_call: Any = None) -> Any:
        if isinstance(query, ListFeed):
            return Feed((), Reached(0, 0))
        assert isinstance(query, LookAtFeed)
        if query.after_id is None:
            return Look((), 0)
        await self._look()
        return Look(((EVENT, None),), 1) if query.after_id == 0 else Look((), 1)


def test_an_event_that_comes_as_the_time_is_up_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_INTERVAL", 0.0)
    asked = ListFeed(now=NOW, limit=10, after=Reached(0, 0))

    async def scenario() -> Feed:
        ends = asyncio.get_running_loop().time() + 0.2

        async def look() -> None:
            """End in the turn of the event loop in which the call times out."""
            time.sleep(max(0.0, ends - asyncio.get_running_loop().time()) + 0.01)
            await asyncio.sleep(0)

        waiters: Any = Waiters(LogOfEvents(look))
        found: Feed = await waiters.find(Call(), asked, 0.2)
        return found

    found = asyncio.run(scenario())
    assert [one.id for one in found.events] == [1]


def test_calls_that_waited_for_one_event_are_answered_ten_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses, sleep = list[float](), asyncio.sleep

    async def record(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    async def scenario() -> list[Feed]:
        async def look() -> None:
            while len(waiters._waiting) < 25:
                await sleep(0)

        waiters: Any = Waiters(LogOfEvents(look))
        asked = ListFeed(now=NOW, limit=10, after=Reached(0, 0))
        return list(await asyncio.gather(*(waiters.find(Call(), asked, 600.0) for _ in range(25))))

    monkeypatch.setattr(asyncio, "sleep", record)
    monkeypatch.setattr(waiting, "_INTERVAL", 0.0)
    assert [len(one.events) for one in asyncio.run(scenario())] == [1] * 25
    assert sorted(one for one in pauses if one) == [0.01] * 10 + [0.02] * 5
