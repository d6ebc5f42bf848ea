"""Execute a batch of commands in one transaction, and handle licenses that other transactions lock.

While a batch waits for the lock of one license, it blocks other transactions on the licenses that it has
locked already. So it must not wait twice for a license that is locked for long.

An outcome is the value that a handler returned, or the error that the item met. Errors are not raised,
because every item of a batch has its own outcome.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from time import monotonic, sleep
from typing import Any, NamedTuple, Protocol

from keywright.core import errors as e
from keywright.core.command import Command, Query
from keywright.db import Storage, run_read, run_write
from keywright.db.transaction import ReadTransaction, WriteTransaction
from keywright.engine.idempotency import decide_once

#: A license, by key or ID.
Name = str | int

#: How long a license that is known to be locked is skipped, in seconds.
HOLD_OFF = 1.0
#: A license counts as locked for long if the same transaction holds it in this many checks, this many seconds
#: apart: batches of other server processes lock licenses, too, but only for some milliseconds.
LOOKS, LOOK_INTERVAL = 3, 0.05


class HeldLocks:
    """The licenses that one executor knows to be locked for long by other transactions."""

    def __init__(self, find_holders: Callable[[Collection[Name]], dict[Name, str]]) -> None:
        """``find_holders`` returns those of the licenses that another transaction has locked, and its ID."""
        self._find_holders = find_holders
        self._held: dict[Name, tuple[float, str]] = {}
        #: The licenses that are known to be locked.
        self.names: Set[Name] = self._held.keys()

    def add_long_held(self, names: Collection[Name]) -> None:
        """Add those of these licenses that the same transaction keeps locked."""
        found = self._find_holders(names)
        for _ in range(LOOKS - 1):
            if not found:
                return
            sleep(LOOK_INTERVAL)
            now = self._find_holders(names)
            found = {name: holder for name, holder in found.items() if now.get(name) == holder}
        until = monotonic() + HOLD_OFF
        self._held.update({name: (until, holder) for name, holder in found.items()})

    def refresh(self) -> None:
        """Remove licenses whose time is over, unless the same transaction still has them locked."""
        now = monotonic()
        over = {name: holder for name, (until, holder) in self._held.items() if until <= now}
        for name, holder in self._find_holders(over).items() if over else ():
            if holder == over[name]:
                self._held[name] = (now + HOLD_OFF, holder)
        for name in [name for name, (until, _) in self._held.items() if until <= now]:
            del self._held[name]


Outcome = Any

#: How often a batch is retried as a whole after a lock timeout.
LOCK_RETRIES = 2
#: How long the parts of a batch are retried while they conflict with other transactions, in seconds.
CONFLICT_TIMEOUT = 2.5

log = logging.getLogger(__name__)


class Work(Protocol):
    """The unit of work that the commands of a batch share; ``save`` writes their changes."""

    @property
    def tx(self) -> WriteTransaction:
        """The transaction."""

    def save(self) -> None:
        """Write all changes."""


@dataclass(frozen=True)
class Registry:
    """The handlers, and functions that load their data. The executor knows features only through this."""

    #: Take the batch's unit of work and the command; return a value or raise a refusal.
    handlers: Mapping[type[Command], Callable[[Any, Any], Any]]
    #: Take what was loaded for the queries, and the query.
    query_handlers: Mapping[type[Query], Callable[[Any, Any], Any]]
    #: Queries that need no snapshot: each statement sees at one moment all that the answer needs.
    single_moment: frozenset[type[Query]]
    #: Locks and loads the data of the commands.
    begin: Callable[[WriteTransaction, Sequence[Command]], Work]
    #: Loads the data of the queries.
    begin_queries: Callable[[ReadTransaction, Sequence[Query]], Any]
    #: The transactions that have these licenses locked and do not wait for a lock themselves, by license.
    find_holders: Callable[[WriteTransaction, Collection[Name]], dict[Name, str]]


class _Part(NamedTuple):
    """Some commands of a batch that are to be executed together, by their positions in it.

    After a lock timeout, a part is retried without the licenses that are locked for long, ``lock_retries``
    times. After that, and after any other failure, it is split into halves, down to single commands. While it
    fails because of other transactions, it is retried until ``deadline``.
    """

    places: Sequence[int]
    lock_retries: int = LOCK_RETRIES
    deadline: float | None = None
    #: The failure that it was split for.
    problem: Exception | None = None

    def halves(self, problem: Exception) -> "list[_Part]":
        """Both halves, the first one last: one bad command costs two transactions per split."""
        middle = len(self.places) // 2
        return [self._apart(places, problem) for places in (self.places[middle:], self.places[:middle])]

    def singles(self, problem: Exception) -> "list[_Part]":
        """Each command as its own part, the first one last."""
        return [self._apart([place], problem) for place in reversed(self.places)]

    def _apart(self, places: Sequence[int], problem: Exception) -> "_Part":
        return _Part(places, 0, self.deadline or monotonic() + CONFLICT_TIMEOUT, problem)

    @property
    def is_too_late(self) -> bool:
        """Whether conflicts with other transactions have delayed it for too long."""
        is_conflict = isinstance(self.problem, e.StoreConflict)
        return is_conflict and self.deadline is not None and monotonic() >= self.deadline


class _Batch:
    """The commands of a batch, and their outcomes so far."""

    def __init__(self, commands: Sequence[Command]) -> None:
        self.commands = commands
        self.outcomes: list[Outcome] = [None] * len(commands)

    def finish(self, part: _Part, outcome: Outcome) -> None:
        """Set the outcome of every command in a part."""
        for place in part.places:
            self.outcomes[place] = outcome


class Executor:
    """Executes the commands and queries of one installation. Not thread-safe."""

    def __init__(
        self,
        storage: Storage,
        make_registry: Callable[[], Registry],
        on_queued: Callable[[], None] | None = None,
    ) -> None:
        """Executors in different threads must not share a registry, so each makes its own. ``on_queued`` is
        called, in any thread, after a commit that queued a mail.
        """
        self._storage = storage
        self._on_queued = on_queued
        self._has_queued = False
        self._make_registry = make_registry
        self._registry = make_registry()
        self._held = HeldLocks(self._find_holders)

    def clone(self) -> "Executor":
        """Another executor, for another thread, with its own connections; the caller closes it."""
        return Executor(self._storage.clone(), self._make_registry, self._on_queued)

    def close(self) -> None:
        """Close the storage."""
        self._storage.close()

    def interrupt(self, *, writing: bool) -> None:
        """Interrupt the change, or the query, that another thread is executing."""
        self._storage.interrupt(writing=writing)

    @property
    def is_local(self) -> bool:
        """Whether the database is local, so that outcomes need no network."""
        return self._storage.is_local

    def execute(self, commands: Sequence[Command], *, wait: float | None = None) -> list[Outcome]:
        """Execute the commands in order; their changes are durable when this returns.

        A command that the database rejects does not affect the others. Raises ``StoreBusy``, with nothing
        changed, if another process is writing for longer than ``wait`` seconds. If ``wait`` is 0, it is also
        raised if more than one transaction would be needed, which is slow: the caller can then move the work
        off the event loop.
        """
        if len(commands) == 1 and commands[0].is_internal:
            return self._execute_internal(commands)
        batch = _Batch(commands)
        todo = [_Part(range(len(commands)))]
        while todo:
            part = todo.pop()
            if self._held.names:
                part = self._without_held(part, batch)
            if part.problem is not None and part.is_too_late and isinstance(part.problem, e.LockTimeout):
                # Another attempt could take another lock timeout.
                batch.finish(part, part.problem)
            elif part.places:
                todo += self._run(part, batch, wait)
                wait = None
        return batch.outcomes

    def _run(self, part: _Part, batch: _Batch, wait: float | None) -> list[_Part]:
        """Execute a part; return the parts to retry, the first one last."""
        commands = [batch.commands[place] for place in part.places]
        try:
            decided = self._decide_together(commands, wait)
        except e.StoreBusy as fault:
            if wait is not None:
                raise
            batch.finish(part, fault)
        except Exception as problem:
            if wait == 0 and len(commands) > 1:
                raise e.StoreBusy from problem
            return self._after_failure(part, problem, batch)
        else:
            for place, outcome in zip(part.places, decided, strict=True):
                batch.outcomes[place] = outcome
        return []

    def _after_failure(self, part: _Part, problem: Exception, batch: _Batch) -> list[_Part]:
        """The parts in which a failed part is retried, the first one last; none if it has failed for good."""
        is_timeout = isinstance(problem, e.LockTimeout)
        if is_timeout and part.lock_retries:
            self._held.add_long_held({name for place in part.places for name in batch.commands[place].locks})
            return [part._replace(lock_retries=part.lock_retries - 1, problem=problem)]
        if part._replace(problem=problem).is_too_late:
            batch.finish(part, problem)
            return []
        if len(part.places) == 1:
            batch.finish(part, _to_fault(problem, batch.commands[part.places[0]]))
            return []
        # If several commands wait for locks, most of them could succeed without the others.
        return part.singles(problem) if is_timeout and part.deadline is None else part.halves(problem)

    def _without_held(self, part: _Part, batch: _Batch) -> _Part:
        """The part without commands about licenses that are locked for long; these get a ``LockTimeout``."""
        if part.problem is None:
            self._held.refresh()
        held = self._held.names
        fault = part.problem or e.LockTimeout("held a moment ago")
        free = [place for place in part.places if held.isdisjoint(batch.commands[place].locks)]
        batch.finish(part._replace(places=[place for place in part.places if place not in free]), fault)
        return part._replace(places=free)

    def _decide_together(self, commands: Sequence[Command], wait: float | None) -> list[Outcome]:
        """Execute the commands in one transaction. Raises ``StoreBusy``, ``StoreConflict``, and what a
        handler or the database raises. If the database is unavailable, that is the outcome of every command.
        """
        try:
            outcomes = run_write(self._storage, partial(self._decide, commands), wait=wait)
            if self._has_queued:
                self._notify_queued()
            return outcomes
        except (e.StoreBusy, e.StoreConflict):
            raise
        except e.Unavailable as fault:
            self._storage.watch.writing.note(fault)
            return [fault] * len(commands)

    def _execute_internal(self, commands: Sequence[Command]) -> list[Outcome]:
        try:
            return run_write(self._storage, partial(self._decide, commands), wait=0)
        except e.Unavailable as fault:
            return [fault]

    def _decide(self, commands: Sequence[Command], tx: WriteTransaction) -> list[Outcome]:
        work = self._registry.begin(tx, commands)
        if any([one.idempotency is not None for one in commands]):
            outcomes = decide_once(tx, commands, partial(self._outcome, work))
        else:
            outcomes = list(map(partial(self._outcome, work), commands))
        work.save()
        self._has_queued = self._has_queued or tx.has_queued
        return outcomes

    def _notify_queued(self) -> None:
        self._has_queued = False
        if self._on_queued is not None:
            self._on_queued()

    def _outcome(self, work: Work, command: Command) -> Outcome:
        try:
            return self._registry.handlers[type(command)](work, command)
        except e.Refusal as refusal:
            return refusal

    def _find_holders(self, names: Collection[Name]) -> dict[Name, str]:
        try:
            find = self._registry.find_holders
            return run_write(self._storage, lambda tx: find(tx, names)) if names else {}
        except e.Unavailable:
            return {}

    def query(self, queries: Sequence[Query]) -> list[Outcome]:
        """Execute the queries, each on one snapshot of the database."""
        is_single = self._registry.single_moment.issuperset(map(type, queries))
        try:
            outcomes = run_read(self._storage, partial(self._answer, queries), is_single=is_single)
            if self._storage.watch.reading.is_on:
                self._storage.watch.reading.end()
            return outcomes
        except e.Unavailable as fault:
            self._storage.watch.reading.note(fault)
            return [fault] * len(queries)
        except Exception as problem:
            if len(queries) > 1:
                return [self.query([one])[0] for one in queries]
            return [_to_fault(problem, queries[0])]

    def _answer(self, queries: Sequence[Query], tx: ReadTransaction) -> list[Outcome]:
        loaded = self._registry.begin_queries(tx, queries)
        outcomes: list[Outcome] = []
        for one in queries:
            try:
                outcomes.append(self._registry.query_handlers[type(one)](loaded, one))
            except e.Refusal as refusal:
                outcomes.append(refusal)
        return outcomes


def _to_fault(problem: Exception, item: Command | Query) -> e.KeywrightError:
    if isinstance(problem, e.Unavailable):
        log.error("could not %s: %s", type(item).__name__, problem)
    else:
        log.error("could not %s", type(item).__name__, exc_info=problem)
    return problem if isinstance(problem, e.Fault) else e.Fault(type(problem).__name__)
