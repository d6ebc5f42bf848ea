"""Write to the audit log."""

from keywright.events.commands import RecordEvent, SettleEvents
from keywright.events.settling_store import settle
from keywright.events.store import find_newest_id
from keywright.events.unit_of_work import UnitOfWork


def record_event(work: UnitOfWork, command: RecordEvent) -> None:
    """Record what was done outside the database."""
    work.record_event(command.name, command, command.details)


def settle_events(work: UnitOfWork, _command: SettleEvents) -> bool:
    """Find out what is settled, and whether that is all."""
    return settle(work.tx) >= find_newest_id(work.tx)
