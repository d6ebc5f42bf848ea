"""Write to the audit log."""

from keywright.events.commands import RecordEvent
from keywright.events.unit_of_work import UnitOfWork


def record_event(work: UnitOfWork, command: RecordEvent) -> None:
    """Record what was done outside the database."""
    work.record_event(command.name, command, command.details)
