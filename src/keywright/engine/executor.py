"""Decide a batch: one transaction for all its commands, each with its own outcome.

An outcome is what the command's function returned, or the error that it met: an outcome is never
raised, because the others of the batch have theirs.
"""

import logging
from collections.abc import Callable, Collection, Sequence, Set
from functools import partial
from time import monotonic, sleep
from typing import Any

from keywright import registry
from keywright.core.command import Command, IdempotentCall, Query
from keywright.core.errors import (
    Fault,
    IdempotencyKeyReused,
    KeywrightError,
    LockTimeout,
    Refusal,
    StoreBusy,
    StoreConflict,
    Unavailable,
)
from keywright.db import ReadTransaction, Storage, WriteTransaction, ask, change
from keywright.engine import idempotency
from keywright.engine.idempotency import IdempotencyRecord
from keywright.licensing.activations.model import RecordLimits
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.commands import UpdateLicense, license_commands
from keywright.licensing.queries import Pages, QueryContext
from keywright.licensing.unit_of_work import UnitOfWork
from keywright.maintenance.commands import PurgeAddresses
from keywright.search.commands import ProjectEvents, SaveCounters

Outcome = Any

#: How long calls about a license that another transaction holds are refused before it is looked at again, in
#: seconds.
_LEFT_ALONE = 1.0
#: How often it is looked at who holds a license, and how long after each other, in seconds: batches of other
#: server processes hold licenses, too, but only for some milliseconds.
_LOOKS, _BETWEEN_LOOKS = 3, 0.05
#: How often a batch is tried again together without the licenses that were seen to be held.
_TRIES = 2
#: How long after a complaint about the database there is no other, in seconds.
_SILENCE = 1.0
#: How long the parts of a batch are tried again that other transactions keep from being decided, in seconds.
_PATIENCE = 2.5
#: Commands that the server gives itself, again and again: they wait for no other process, and what they meet
#: is for the server to say.
_OF_OUR_OWN = (ProjectEvents, SaveCounters, PurgeAddresses)

_LIMITS = RecordLimits()

log = logging.getLogger(__name__)


class Executor:
    """The operations of one installation, a batch at a time. Not for several threads at once."""

    def __init__(self, storage: Storage, limits: RecordLimits = _LIMITS) -> None:
        self._storage = storage
        self._limits = limits
        #: Licenses that another transaction held when they were wanted: until when they are left alone, and
        #: the number of that transaction.
        self._held: dict[str, tuple[float, str]] = {}
        self._silent_until = 0.0
        self._pages = Pages()

    def beside(self) -> "Executor":
        """The same for another thread, with connections of its own; the caller closes it."""
        return Executor(self._storage.beside(), self._limits)

    def close(self) -> None:
        """Close the storage."""
        self._storage.close()

    def interrupt(self, *, writing: bool) -> None:
        """Make an end of a change, or of an answer, that another thread waits for."""
        self._storage.interrupt(writing=writing)

    @property
    def is_local(self) -> bool:
        """Whether outcomes come at once, without a wait for a network."""
        return self._storage.is_local

    def execute(self, commands: Sequence[Command], *, wait: float | None = None) -> list[Outcome]:
        """Decide the commands in order; when this returns, what they changed is durable.

        A command that the database itself rejects does not hurt the others: the batch is then halved until it
        is alone. Raises ``StoreBusy``, with nothing done, when another process is writing for longer than
        ``wait`` seconds; and when that is 0 and the batch has to be halved, which takes long.
        """
        if self._held:
            self._look_again()
        return self._changed_but(
            self._held.keys(), commands, LockTimeout("held a moment ago"), partial(self._changed, wait=wait)
        )

    def _changed_but(
        self,
        held: Set[str],
        commands: Sequence[Command],
        fault: StoreConflict,
        decide: Callable[[Sequence[Command]], list[Outcome]],
    ) -> list[Outcome]:
        """Decide what is not about these licenses; the rest meets the fault."""
        if not held:
            return decide(commands)
        is_held = [bool(_keys_of(one) & held) for one in commands]
        free = [one for one, is_it in zip(commands, is_held, strict=True) if not is_it]
        decided = iter(decide(free) if free else ())
        return [fault if is_it else next(decided) for is_it in is_held]

    def _changed(self, commands: Sequence[Command], *, wait: float | None) -> list[Outcome]:
        if len(commands) == 1 and isinstance(commands[0], _OF_OUR_OWN):
            return self._changed_quietly(commands)
        try:
            return self._together(commands, wait=wait)
        except StoreBusy as fault:
            if wait is not None:
                raise
            return [fault] * len(commands)
        except Exception as caught:
            problem = caught
        if isinstance(problem, LockTimeout):
            return self._changed_around_locks(commands, problem)
        if wait == 0 and len(commands) > 1:
            # Several transactions take long; the caller may want to be elsewhere for that.
            raise StoreBusy from problem
        return self._changed_apart(commands, problem, monotonic() + _PATIENCE)

    def _together(self, commands: Sequence[Command], *, wait: float | None = None) -> list[Outcome]:
        """Decide in one transaction. Raises what happens to it, unless all of them have to come again."""
        try:
            return change(self._storage, partial(_decide, commands, self._limits), wait=wait)
        except (StoreBusy, StoreConflict):
            raise
        except Unavailable as fault:
            self._complain("the database cannot be written: %s", fault)
            return [fault] * len(commands)

    def _changed_quietly(self, commands: Sequence[Command]) -> list[Outcome]:
        try:
            return change(self._storage, partial(_decide, commands, self._limits), wait=0)
        except Unavailable as fault:
            return [fault] * len(commands)

    def _changed_apart(self, commands: Sequence[Command], problem: Exception, end: float) -> list[Outcome]:
        """Decide either half of a batch that failed by itself, and so on: one bad command costs as many more
        transactions as the batch can be halved, twice. Conflicts with others are not tried after ``end``.
        """
        if len(commands) == 1:
            return [_fault(problem, commands[0])]
        middle = len(commands) // 2
        return [*self._part(commands[:middle], end), *self._part(commands[middle:], end)]

    def _part(self, commands: Sequence[Command], end: float) -> list[Outcome]:
        try:
            return self._together(commands)
        except StoreBusy as fault:
            return [fault] * len(commands)
        except Exception as caught:
            problem = caught
        if isinstance(problem, StoreConflict) and monotonic() >= end:
            return [problem] * len(commands)
        return self._changed_apart(commands, problem, end)

    def _changed_around_locks(
        self, commands: Sequence[Command], timeout: LockTimeout, tries: int = _TRIES
    ) -> list[Outcome]:
        """Decide together what is not about licenses that another transaction holds, after a lock could not
        be had in time; where that does not help, one at a time, but not for long altogether.

        While a batch waits for one license, it keeps others from those that it has locked already. So it
        must not wait twice for a license that is held for long.
        """
        until = monotonic() + _LEFT_ALONE
        self._held |= {key: (until, holder) for key, holder in self._holders(commands).items()}
        again = partial(self._changed_once_more, tries=tries - 1)
        return self._changed_but(self._held.keys(), commands, timeout, again)

    def _changed_once_more(self, commands: Sequence[Command], tries: int) -> list[Outcome]:
        try:
            return self._together(commands)
        except Exception as caught:
            problem = caught
        if isinstance(problem, LockTimeout) and tries:
            return self._changed_around_locks(commands, problem, tries)
        end = monotonic() + _PATIENCE
        if not isinstance(problem, LockTimeout) or len(commands) == 1:
            return self._changed_apart(commands, problem, end)
        return [self._part([one], end)[0] if monotonic() < end else problem for one in commands]

    def _holders(self, commands: Sequence[Command]) -> dict[str, str]:
        """The licenses that one other transaction has held for as long as the looks take, and its number."""
        keys = {key for one in commands for key in _keys_of(one)}
        found = self._look(keys)
        for _ in range(_LOOKS - 1):
            if not found:
                break
            sleep(_BETWEEN_LOOKS)
            now = self._look(keys)
            found = {key: holder for key, holder in found.items() if now.get(key) == holder}
        return found

    def _look(self, keys: Collection[str]) -> dict[str, str]:
        try:
            return change(self._storage, lambda tx: license_store.find_holders(tx, keys)) if keys else {}
        except Unavailable:
            return {}

    def _look_again(self) -> None:
        """Forget the held licenses that have been left alone for long enough, unless the same transaction
        holds them still: no call waits for that one again.
        """
        now = monotonic()
        over = {key: holder for key, (until, holder) in self._held.items() if until <= now}
        for key, holder in self._look(over).items() if over else ():
            if holder == over[key]:
                self._held[key] = (now + _LEFT_ALONE, holder)
        self._held = {key: one for key, one in self._held.items() if one[0] > now}

    def query(self, queries: Sequence[Query]) -> list[Outcome]:
        """Answer the questions, each from one moment of the database."""
        is_single = all(type(one) in registry.SINGLE_MOMENT for one in queries)
        try:
            return ask(
                self._storage, partial(_answer, queries, self._limits, self._pages), is_single=is_single
            )
        except Unavailable as fault:
            self._complain("the database cannot be read: %s", fault)
            return [fault] * len(queries)
        except Exception as problem:
            if len(queries) > 1:
                return [self.query([one])[0] for one in queries]
            return [_fault(problem, queries[0])]

    def _complain(self, what: str, fault: Unavailable) -> None:
        """Say it in the log; but not for every batch of a long outage."""
        if monotonic() >= self._silent_until:
            self._silent_until = monotonic() + _SILENCE
            log.error(what, fault)


def _keys_of(command: Command) -> set[str]:
    """The licenses that a command locks."""
    found = license_commands(command)
    renames = [one.changes for one in found if isinstance(one, UpdateLicense) and "key" in one.changes]
    return {one.key for one in found} | {changes["key"] for changes in renames}


def _decide(commands: Sequence[Command], limits: RecordLimits, tx: WriteTransaction) -> list[Outcome]:
    work = UnitOfWork(tx, commands, limits)
    scopes = [one.retry.scope for one in commands if one.retry is not None]
    if scopes:
        outcomes = _decide_with_answers(work, commands, idempotency.lock_idempotency_records(tx, scopes))
    else:
        outcomes = [_outcome(registry.HANDLERS[type(one)], work, one) for one in commands]
    work.save()
    return outcomes


def _answer(
    queries: Sequence[Query], limits: RecordLimits, pages: Pages, tx: ReadTransaction
) -> list[Outcome]:
    read = QueryContext(tx, queries, limits, pages)
    return [_outcome(registry.QUERY_HANDLERS[type(one)], read, one) for one in queries]


def _decide_with_answers(
    work: UnitOfWork, commands: Sequence[Command], kept: dict[bytes, IdempotencyRecord]
) -> list[Outcome]:
    """Decide the commands; a repeated call gets its first answer, a first one's is kept."""
    return [
        _outcome(registry.HANDLERS[type(one)], work, one)
        if one.retry is None
        else _decide_once(work, one, one.retry, kept)
        for one in commands
    ]


def _decide_once(
    work: UnitOfWork, command: Command, retry: IdempotentCall, kept: dict[bytes, IdempotencyRecord]
) -> Outcome:
    before = kept.get(retry.scope)
    if before is not None:
        is_same = before.request_digest == retry.request_digest
        return before if is_same else IdempotencyKeyReused()
    outcome = _outcome(registry.HANDLERS[type(command)], work, command)
    if isinstance(outcome, Refusal) and not retry.keeps_refusals:
        return outcome
    status, body = retry.write_answer(outcome)
    kept[retry.scope] = IdempotencyRecord(retry.request_digest, status, body)
    idempotency.save_idempotency_record(work.tx, retry.scope, kept[retry.scope], command.now)
    return outcome


def _outcome(decide: Any, with_what: Any, command: Command | Query) -> Outcome:
    try:
        return decide(with_what, command)
    except Refusal as refusal:
        return refusal


def _fault(problem: Exception, command: Command | Query) -> KeywrightError:
    if isinstance(problem, Unavailable):
        log.error("could not %s: %s", type(command).__name__, problem)
    else:
        log.error("could not %s", type(command).__name__, exc_info=problem)
    return problem if isinstance(problem, Fault) else Fault(type(problem).__name__)
