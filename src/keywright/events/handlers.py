"""Write to the audit log."""

from keywright.events.commands import RecordEvent
from keywright.licensing.unit_of_work import UnitOfWork


def note(work: UnitOfWork, command: RecordEvent) -> None:
    """Write down what was done elsewhere."""
    work.note(command.name, command, command.details)
