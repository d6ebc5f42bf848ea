"""The desk: group commit for calls that arrive together.

Calls queue in a lane: for changes, queries, lists, events, or licenses with very many records. A lane
executes its calls as a batch as soon as its previous batch is done. There is no batching delay: a batch of
one is an ordinary call. While the event loop keeps delivering new calls, the lane lets them join the batch,
because a batch costs little more than a call.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from keywright.core.command import Command, Cost, Query, Rerouted
from keywright.core.errors import IdempotencyKeyBusy, KeywrightError
from keywright.engine.executor import Executor, Outcome
from keywright.engine.lane import ANSWER_WITHIN, NO_LISTENERS, Lane, Listeners, ObserveBatch, PendingCall

#: The most calls that may wait in the lanes of lists, events, and licenses with very many activations.
_MAX_LISTS, _MAX_FEED, _MAX_LARGE = 64, 1024, 256
#: The lanes that share the desk's executor, while each other lane has its own; and the lanes of changes.
_SHARED_LANES, _WRITING_LANES = ("changes", "queries"), ("changes", "steps")


class Desk:
    """Accepts single commands and queries, and executes them in batches. Belongs to one event loop."""

    def __init__(
        self,
        executor: Executor,
        *,
        most_waiting: int,
        answer_within: float = ANSWER_WITHIN,
        observe: ObserveBatch | None = None,
        listeners: Listeners = NO_LISTENERS,
    ) -> None:
        """A call that has waited for ``answer_within`` seconds is refused unless its execution has begun.
        ``observe`` is called after every batch, in any thread; a command's listener is called after the
        command was executed, before its caller gets the outcome.
        """
        self._executor = executor
        #: The executors of the lanes that do not share one, created with their first call.
        self._beside: dict[str, Executor] = {}
        self._running: set[bytes] = set()

        def lane(name: str, most: int = most_waiting, listeners: Listeners = NO_LISTENERS) -> Lane[Any]:
            return Lane(
                partial(self._perform, name),
                name=name,
                most_waiting=most,
                answer_within=answer_within,
                observe=observe,
                interrupt=None if executor.is_local else partial(self._interrupt, name),
                listeners=listeners,
            )

        self._changes: Lane[Command] = lane("changes", listeners=listeners)
        self._queries: Lane[Query] = lane("queries")
        self._lists: Lane[Query] = lane("lists", _MAX_LISTS)
        self._feed: Lane[Query] = lane("feed", _MAX_FEED)
        self._large: Lane[Query] = lane("large", _MAX_LARGE)
        # If the database allows concurrent writers, a step of a job delays only calls about its licenses.
        self._steps: Lane[Command] = self._changes if executor.is_local else lane("steps")

    async def execute(self, command: Command, waiting_call: PendingCall | None = None) -> Any:
        """Execute a command and return its outcome; its changes are then durable.

        Raises the refusal of the command, ``IdempotencyKeyBusy``, ``QueueFull``, ``WaitedTooLong``,
        ``ShuttingDown`` or another fault.
        """
        if command.idempotency is not None:
            return await self._execute_once(command, waiting_call, command.idempotency.scope)
        lane = self._steps if command.cost is Cost.STEP else self._changes
        return _value(await lane.submit(command, waiting_call))

    async def query(self, query: Query, waiting_call: PendingCall | None = None) -> Any:
        """Execute a query and return its outcome. Raises the refusal of the query, or a fault."""
        lane = {Cost.LIST: self._lists, Cost.FEED: self._feed}.get(query.cost, self._queries)
        outcome = _value(await lane.submit(query, waiting_call))
        if type(outcome) is Rerouted:
            return _value(await self._large.submit(outcome.query, waiting_call))
        return outcome

    async def close(self) -> None:
        """Accept no more calls; return when all accepted calls are answered."""
        lanes = (self._changes, self._queries, self._lists, self._feed, self._large)
        await asyncio.gather(*(one.close() for one in lanes))
        if self._steps is not self._changes:
            await self._steps.close()
        while self._beside:
            self._beside.popitem()[1].close()

    @property
    def is_local(self) -> bool:
        """Whether the database is local, so that outcomes need no network."""
        return self._executor.is_local

    @property
    def waiting(self) -> int:
        """The number of waiting calls, without lists."""
        return len(self._changes) + len(self._queries)

    async def _execute_once(self, command: Command, waiting_call: PendingCall | None, scope: bytes) -> Any:
        if scope in self._running:
            raise IdempotencyKeyBusy
        future = self._changes.submit(command, waiting_call)
        self._running.add(scope)
        future.add_done_callback(lambda _: self._running.discard(scope))
        return _value(await future)

    def _perform(self, lane: str, items: Sequence[Any], wait: float | None) -> list[Outcome]:
        if lane not in _SHARED_LANES and lane not in self._beside:
            self._beside[lane] = self._executor.clone()
        executor = self._beside.get(lane, self._executor)
        return executor.execute(items, wait=wait) if lane in _WRITING_LANES else executor.query(items)

    def _interrupt(self, lane: str) -> None:
        if lane in _SHARED_LANES or lane in self._beside:
            self._beside.get(lane, self._executor).interrupt(writing=lane in _WRITING_LANES)


def _value(outcome: Outcome) -> Outcome:
    """Return the outcome, or raise it if it is an error."""
    if isinstance(outcome, KeywrightError):
        raise outcome
    return outcome
