"""Write to the audit log."""

from keywright.events.commands import Note
from keywright.licensing.unit_of_work import Workset


def note(work: Workset, command: Note) -> None:
    """Write down what was done elsewhere."""
    work.note(command.name, command, command.details)
