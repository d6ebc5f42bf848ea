"""The desk: group commit for calls that arrive together.

Calls wait in a lane (for changes, questions, lists, events, licenses with very many records); a lane is
served as a batch as soon as its last batch is done. Nothing waits for a clock: a batch of one is an ordinary
call. While the event loop delivers new calls turn by turn, the lane lets them join: a batch costs little more
than a call.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from keywright.core.command import Command, Cost, Query, Rerouted
from keywright.core.errors import IdempotencyKeyBusy, KeywrightError
from keywright.engine.executor import Executor, Outcome
from keywright.engine.lane import ANSWER_WITHIN, NO_LISTENERS, Lane, Listeners, ObserveBatch, PendingCall

#: The most calls that may wait in the lanes of lists, of events, and of licenses with very many activations.
_MAX_LISTS, _MAX_FEED, _MAX_LARGE = 64, 1024, 256
#: The lanes that share the desk's executor; each of the others has its own. The lanes of changes.
_SHARED_LANES, _WRITING_LANES = ("changes", "queries"), ("changes", "steps")


class Desk:
    """Takes single commands and queries, and serves them in batches. Belongs to one event loop."""

    def __init__(
        self,
        executor: Executor,
        *,
        most_waiting: int,
        answer_within: float = ANSWER_WITHIN,
        observe: ObserveBatch | None = None,
        listeners: Listeners = NO_LISTENERS,
    ) -> None:
        """A call that has waited for ``answer_within`` seconds and is not being decided is refused.
        ``observe`` is called after every batch, in any thread; a command's listener when the command was
        decided, before its caller gets the outcome.
        """
        self._executor = executor
        #: The executors of lanes that have one of their own, made when the first call comes.
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
        # Where several can write at once, a step of a job delays only calls about its licenses.
        self._steps: Lane[Command] = self._changes if executor.is_local else lane("steps")

    async def execute(self, command: Command, waiting_call: PendingCall | None = None) -> Any:
        """The outcome's value; what changed is durable then.

        Raises the refusal that the command met, ``IdempotencyKeyBusy``, ``QueueFull``, ``WaitedTooLong``,
        ``ShuttingDown`` or another fault.
        """
        if command.idempotency is not None:
            return await self._execute_once(command, waiting_call, command.idempotency.scope)
        lane = self._steps if command.cost is Cost.STEP else self._changes
        return _value(await lane.submit(command, waiting_call))

    async def query(self, query: Query, waiting_call: PendingCall | None = None) -> Any:
        """The answer; raises the refusal that the query met, or a fault."""
        lane = {Cost.LIST: self._lists, Cost.FEED: self._feed}.get(query.cost, self._queries)
        outcome = _value(await lane.submit(query, waiting_call))
        if type(outcome) is Rerouted:
            return _value(await self._large.submit(outcome.query, waiting_call))
        return outcome

    async def close(self) -> None:
        """Take no more calls; return when all that were accepted are answered."""
        lanes = (self._changes, self._queries, self._lists, self._feed, self._large)
        await asyncio.gather(*(one.close() for one in lanes))
        if self._steps is not self._changes:
            await self._steps.close()
        while self._beside:
            self._beside.popitem()[1].close()

    @property
    def is_local(self) -> bool:
        """Whether outcomes come at once, without a wait for a network."""
        return self._executor.is_local

    @property
    def waiting(self) -> int:
        """The number of calls that wait now, without lists."""
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
    """The outcome's value; an error is raised."""
    if isinstance(outcome, KeywrightError):
        raise outcome
    return outcome
