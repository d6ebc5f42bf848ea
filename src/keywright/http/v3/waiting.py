"""Long polling for events. Waiting calls use no thread or place in a lane: one query serves them all."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import time
from typing import Any

from msgspec import structs

from keywright.core.errors import KeywrightError, QueueFull, TooManyWaiting
from keywright.engine.desk import Desk
from keywright.events.feed import (
    Feed,
    FeedEvent,
    ListFeed,
    Look,
    LookAtFeed,
    Reached,
    Subject,
    is_wanted,
    subject_of,
)
from keywright.http.middleware.call import Call
from keywright.http.server.protocol import is_leaving

#: The most waiting calls of a process: in total, and per API key.
MAX_WAITING, MAX_OF_KEY = 1_000, 200
#: The interval of the polling, and the ``Retry-After`` of calls beyond the limit, in seconds.
_INTERVAL, _COME_AGAIN = 1.0, 10
#: How many calls are answered together, and the pause before the next ones, in seconds, which leaves room for
#: other calls.
_AT_ONCE, _BETWEEN = 10, 0.01


@dataclass(frozen=True, eq=False)
class _Waiter:
    """A call that waits for events after an ID. ``found`` gets them, and the delay before its answer."""

    call: Call
    asked: ListFeed
    after_id: int
    found: asyncio.Future[tuple[Feed, float]]


class Waiters:
    """The calls of a server process that wait for events."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._waiting: set[_Waiter] = set()
        #: The number of calls per API key that wait or are about to.
        self._places: Counter[int | None] = Counter()
        self._starting = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        #: The ID up to which the last poll has seen all events.
        self._reached_id = 0

    async def find(self, call: Call, asked: ListFeed, seconds: float) -> Feed:
        """Return events as soon as there are any; none when the time is over, the caller has disconnected, or
        the server is about to stop. Raises ``TooManyWaiting``, ``QueueFull``, and what the query raises.
        """
        end = asyncio.get_running_loop().time() + seconds
        with self._take_place(call.by):
            await self._start(call)
            after = asked.after
            # A caller that continues where the last poll ended costs no query.
            is_current = after is not None and after.id == self._reached_id
            feed = Feed((), after) if after and is_current else await self._desk.query(asked, call)
            while not feed.events and feed.reached.id < self._reached_id and _is_before(end):
                feed = await self._desk.query(structs.replace(asked, after=feed.reached), call)
            if feed.events:
                return feed
            found: asyncio.Future[tuple[Feed, float]] = asyncio.get_running_loop().create_future()
            return await self._wait(_Waiter(call, asked, feed.reached.id, found), end)

    @contextmanager
    def _take_place(self, api_key_id: int | None) -> Iterator[None]:
        if self._places[api_key_id] >= MAX_OF_KEY:
            raise TooManyWaiting(_COME_AGAIN)
        if self._places.total() >= MAX_WAITING:
            raise QueueFull
        self._places[api_key_id] += 1
        try:
            yield
        finally:
            self._places[api_key_id] -= 1
            # Remove counts of zero: polling continues while there are any keys.
            self._places += Counter()

    async def _start(self, call: Call) -> None:
        """Start polling, unless it is running already."""
        async with self._starting:
            if self._looking is None:
                look: Look = await self._desk.query(LookAtFeed(after_id=None), call)
                self._reached_id = look.reached_id
                self._looking = asyncio.create_task(self._keep_looking())

    async def _keep_looking(self) -> None:
        pause = _INTERVAL
        try:
            while self._places:
                await asyncio.sleep(pause)
                look: Look = await self._desk.query(LookAtFeed(after_id=self._reached_id))
                self._give(look)
                pause = 0 if look.has_more else _INTERVAL
        except KeywrightError as error:
            for waiter in self._waiting:
                if not waiter.found.done():
                    waiter.found.set_exception(error)
        finally:
            self._looking = None

    def _give(self, look: Look) -> None:
        """Hand the new events to the calls that wait for them."""
        self._reached_id = look.reached_id
        found, turn = _Found(look), 0
        for waiter in self._waiting:
            events = found.select(waiter.asked, waiter.after_id)
            is_over = waiter.call.is_gone or is_leaving(waiter.call.scope)
            if (events or is_over) and not waiter.found.done():
                shown = events[: waiter.asked.limit]
                reached_id = shown[-1].id if len(events) > len(shown) else look.reached_id
                feed = Feed(tuple(shown), _reached(max(reached_id, waiter.after_id)))
                waiter.found.set_result((feed, turn // _AT_ONCE * _BETWEEN))
                turn += 1

    async def _wait(self, waiter: _Waiter, end: float) -> Feed:
        self._waiting.add(waiter)
        try:
            async with asyncio.timeout_at(end):
                await waiter.found
        except TimeoutError:
            if waiter.found.cancelled():
                return Feed((), _reached(max(self._reached_id, waiter.after_id)))
        finally:
            self._waiting.discard(waiter)
        feed, pause = waiter.found.result()
        await asyncio.sleep(pause)
        return feed


class _Found:
    """The events of one poll, with cached selections, because many callers ask for the same."""

    def __init__(self, look: Look) -> None:
        self._all = look.events
        self._of_subject: dict[Subject | None, list[tuple[FeedEvent, int | None]]] = defaultdict(list)
        for pair in look.events:
            self._of_subject[subject_of(pair[0].event)].append(pair)
        self._selected: dict[Any, list[FeedEvent]] = {}

    def select(self, asked: ListFeed, after_id: int) -> list[FeedEvent]:
        """The events after this ID that the caller asks for."""
        if not self._all:
            return []
        only = asked.only_product_id
        key = (asked.name, asked.subject, asked.since, asked.until, only)
        if key not in self._selected:
            pairs = self._all if asked.subject is None else self._of_subject.get(asked.subject, [])
            self._selected[key] = [
                one for one, product in pairs if is_wanted(one.event, asked) and only in (None, product)
            ]
        return [one for one in self._selected[key] if one.id > after_id]


def _reached(event_id: int) -> Reached:
    return Reached(event_id, int(time()))


def _is_before(end: float) -> bool:
    return asyncio.get_running_loop().time() < end
