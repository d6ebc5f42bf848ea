"""Keywright with something wrong on purpose, for those who must notice it.

Run as a program, it takes the name of a fault, and then what ``keywright`` takes.
"""

import secrets
import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from keywright import registry
from keywright.cli import main
from keywright.core.command import Command
from keywright.core.errors import LimitReached
from keywright.db import sqlite
from keywright.db.transaction import WriteTransaction
from keywright.engine.executor import Executor
from keywright.licensing.activations import devices
from keywright.licensing.activations import handlers as activations_handlers
from keywright.licensing.activations import rules as activation_rules
from keywright.licensing.activations.model import Activate, LicenseRecord, ProgramCommand
from keywright.licensing.leases.model import Leased
from keywright.licensing.leases.work import LeaseWork
from keywright.licensing.licenses import rules
from keywright.licensing.licenses.model import License
from keywright.licensing.unit_of_work import LicenseWork
from keywright.provisioning import trials_store
from keywright.provisioning.trials import Trial


def one_place_too_many() -> None:
    """The limit is off by one."""

    def require_free_place(license: License) -> None:
        limit = license.times_activated_max
        if limit is not None and license.times_activated > limit:
            raise LimitReached(license.key)

    rules.require_free_place = require_free_place


def one_place_too_many_unchecked() -> None:
    """The same, and an SQLite database does not look at its CHECKs."""
    one_place_too_many()
    right = sqlite.connect

    def connect(path: Path, mode: str) -> sqlite3.Connection:
        connection = right(path, mode)
        connection.execute("PRAGMA ignore_check_constraints=ON")
        return connection

    sqlite.connect = connect


def uncounted_sites_without_limit() -> None:
    """Sites on hosts that are not counted are not counted among themselves either."""
    right = activation_rules.with_place_taken

    def with_place_taken(license: License, now: datetime, *, is_counted: bool = True) -> License:
        taken = right(license, now, is_counted=is_counted)
        return replace(taken, uncounted_count=license.uncounted_count)

    activation_rules.with_place_taken = with_place_taken


def counting_from_before() -> None:
    """An activation's answer tells the counter from what was read when the batch began."""

    def activate(work: LicenseWork, command: Activate) -> LicenseRecord:
        record = activations_handlers.activate(work, command)
        before = work._loaded[record.license.id]
        stale = replace(record.license, times_activated=before.times_activated + 1)
        return LicenseRecord(stale, record.activations)

    registry.HANDLERS[Activate] = activate


def answering_before_the_commit() -> None:
    """The calls of programs are answered before they are durable: each batch is committed when the next one
    comes.
    """
    right = Executor._decide_together
    last = ExitStack()

    def decide(self: Executor, commands: Sequence[Command], wait: float | None) -> list[Any]:
        last.close()
        if not any(isinstance(one, Activate | ProgramCommand) for one in commands):
            return right(self, commands, wait)
        with ExitStack() as stack:
            tx = stack.enter_context(self._storage.write(wait=wait))
            outcomes = self._decide(commands, tx)
            last.push(stack.pop_all())
        return outcomes

    Executor._decide_together = decide  # type: ignore[method-assign]


def leases_not_counted() -> None:
    """A lease that is taken is not counted."""

    def set_leased(self: LeaseWork, leased: Leased) -> None:
        self._set(leased.lease)

    LeaseWork.set_leased = set_leased  # type: ignore[method-assign]


def trials_forgotten() -> None:
    """A trial is kept under another fingerprint."""
    right = trials_store.save_new_trial

    def save_new_trial(tx: WriteTransaction, trial: Trial, fingerprint: str) -> None:
        right(tx, trial, fingerprint + secrets.token_hex(16))

    trials_store.save_new_trial = save_new_trial


def forgetting_calls() -> None:
    """Idempotency keys are ignored."""
    right = Executor._decide

    def decide(self: Executor, commands: Sequence[Command], tx: WriteTransaction) -> list[Any]:
        return right(self, [replace(one, idempotency=None) for one in commands], tx)

    Executor._decide = decide  # type: ignore[method-assign]


def recording_no_answers() -> None:
    """Until when a signed answer is good is not recorded."""
    devices.keep_offline = lambda activation, *_: activation


def program(fault: Callable[[], None]) -> list[str]:
    """The command that runs Keywright with this fault."""
    return [sys.executable, "-P", __file__, fault.__name__]


if __name__ == "__main__":
    globals()[sys.argv.pop(1)]()
    main()
