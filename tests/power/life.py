"""The life of a Keywright on a ``Disk``: real commands in real batches, and what was acknowledged when."""

import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

from keywright.core.command import Command
from keywright.engine.executor import Executor
from keywright.licensing.licenses import store as license_store
from keywright.licensing.licenses.model import LicenseFilter, Status
from keywright.registry import open_executor
from tests.makers import (
    a_retry,
    activate,
    create,
    deactivate,
    deactivate_all,
    delete,
    open_or_make,
    reactivate,
    update,
)
from tests.power.disk import Disk, Operation
from tests.power.driver import Driver, driven_by
from tests.power.ledger import EMPTY, Ledger, State

#: So many that the log becomes long enough to be moved into the database, and begins again.
BATCHES = 240
_LICENSES = 12
_MAX_AT_ONCE = 10


class Commit(NamedTuple):
    """A transaction: how many operations the disk had seen when it was asked for, and when it was
    acknowledged; and what the database says from then on.
    """

    begun_at: int
    done_at: int
    state: State


class Life:
    """``operations`` is what the disk saw, ``commits`` what the callers saw. The first is the making of the
    tables.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        *,
        batches: int = BATCHES,
        replaced: Mapping[str, str] | None = None,
        has_readers: bool = True,
    ) -> None:
        """Live it in this folder. ``replaced`` is what the database is told instead (see ``Driver``); with
        ``has_readers``, somebody sometimes reads for long.
        """
        self._folder = folder
        self._rng = random.Random(seed)
        self._disk = Disk(folder)
        self._ledger = Ledger()
        self._calls = 0
        self.driver = Driver(self._disk, replaced)
        self.commits: list[Commit] = []
        with driven_by(self.driver), ExitStack() as stack:
            self._live(stack, batches, has_readers=has_readers)
        self._disk.unregister()

    @property
    def operations(self) -> list[Operation]:
        return self._disk.operations

    @property
    def states(self) -> list[State]:
        """What the database says after none, one, two … of the commits."""
        return [None, *(one.state for one in self.commits)]

    def commits_at(self, position: int) -> range:
        """How many commits are there when the power is lost after that many operations: from those that were
        acknowledged to those that were begun.
        """
        done = bisect_right(self.commits, position, key=lambda one: one.done_at)
        begun = bisect_left(self.commits, position, key=lambda one: one.begun_at)
        # A batch of refusals is acknowledged without an operation.
        return range(done, max(done, begun) + 1)

    @property
    def acknowledged(self) -> int:
        """How many places were taken or taken back."""
        return self._ledger.taken

    def _live(self, stack: ExitStack, batches: int, *, has_readers: bool) -> None:
        begun_at = len(self.operations)
        desks = self._open(stack)
        self.commits.append(Commit(begun_at, len(self.operations), EMPTY))
        self._change(desks[0], [create(f"KEY-{number}") for number in range(_LICENSES)])
        openings = set(self._rng.sample(range(batches * 3 // 4, batches), 2))
        readings = set(self._rng.sample(range(batches), 2)) if has_readers else set()
        reading = stack.enter_context(ExitStack())
        for number in range(batches):
            if number in openings:
                stack.close()
                desks = self._open(stack)
                reading = stack.enter_context(ExitStack())
            if number in readings:
                self._read_for_long(reading)
            elif self._rng.random() < 0.03:
                reading.close()
            # Most is done by one process; sometimes another one writes between.
            desk = desks[self._rng.random() < 0.1]
            self._change(desk, [self._command() for _ in range(self._rng.randint(1, _MAX_AT_ONCE))])

    def _open(self, stack: ExitStack) -> list[Executor]:
        return [open_executor(stack.enter_context(closing(open_or_make(self._folder)))) for _ in range(2)]

    def _read_for_long(self, reading: ExitStack) -> None:
        storage = reading.enter_context(closing(open_or_make(self._folder)))
        license_store.count_licenses(reading.enter_context(storage.read()), LicenseFilter())

    def _change(self, desk: Executor, commands: list[Command]) -> None:
        begun_at = len(self.operations)
        self._ledger.note(commands, desk.execute(commands))
        self.commits.append(Commit(begun_at, len(self.operations), self._ledger.state))

    def _command(self) -> Command:
        makers: dict[Callable[[str], Command], float] = {
            self._activate: 70,
            self._give_up_or_take_back: 20,
            deactivate_all: 2,
            self._limit: 5,
            lambda key: update(key, status=Status.DISABLED): 1,
            lambda _: create(f"NEW-{self._next_call()}", self._rng.choice((None, 3))): 1.5,
            delete: 0.5,
        }
        (make,) = self._rng.choices(list(makers), list(makers.values()))
        return make(self._rng.choice(list(self._ledger.keys)))

    def _activate(self, key: str) -> Command:
        number = self._next_call()
        retry = a_retry(f"call-{number}") if number % 3 == 0 else None
        return activate(key, label=f"place-{number}", idempotency=retry)

    def _give_up_or_take_back(self, key: str) -> Command:
        """Some of it is refused."""
        tokens = list(self._ledger.tokens.get(self._ledger.keys[key], {"unknown": False}))
        token = self._rng.choice(tokens)
        return (deactivate if self._rng.random() < 0.6 else reactivate)(token, key)

    def _limit(self, key: str) -> Command:
        return update(key, times_activated_max=self._rng.choice((None, 5, 50, 500)), status=Status.ACTIVE)

    def _next_call(self) -> int:
        self._calls += 1
        return self._calls
