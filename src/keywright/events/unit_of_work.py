"""The unit of work of a batch: its transaction and its events; and the commands about events."""

from collections.abc import Mapping
from typing import Any

from keywright.core.command import Command
from keywright.db.transaction import WriteTransaction
from keywright.events import store
from keywright.events.model import Event, RecordEvent, SettleEvents
from keywright.events.store import find_newest_id, settle


class UnitOfWork:
    """The transaction of a batch, and the events that its commands record."""

    def __init__(self, tx: WriteTransaction) -> None:
        self.tx = tx
        self.events: list[Event] = []

    def record_event(
        self,
        name: str,
        command: Command,
        details: Mapping[str, Any] | None = None,
        *,
        license_id: int = 0,
        activation_id: int | None = None,
    ) -> None:
        """Record an event; ``license_id`` is 0 if it is not about a license."""
        now, origin = command.context.now, command.context.origin
        if origin.subject is not None:
            details = {**(details or {}), "by_subject": origin.subject}
        self.events.append(
            Event(now, name, license_id, activation_id, origin.actor, origin.ip_address, details)
        )

    def save(self) -> None:
        """Write what the commands recorded."""
        if self.events:
            store.save_events(self.tx, self.events)


def record_event(work: UnitOfWork, command: RecordEvent) -> None:
    """Record what was done outside the database."""
    work.record_event(command.name, command, command.details)


def settle_events(work: UnitOfWork, _command: SettleEvents) -> bool:
    """Advance the settled ID; returns whether it is that of the newest event."""
    return settle(work.tx) >= find_newest_id(work.tx)
