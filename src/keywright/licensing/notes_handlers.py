"""Decide the command about notes and tags."""

from collections.abc import Callable
from typing import Any

from keywright.core.command import Command
from keywright.core.errors import ChangedSince
from keywright.licensing import notes_store
from keywright.licensing.notes import Notes, SaveNotes
from keywright.licensing.unit_of_work import LicenseWork


def save_notes(work: LicenseWork, command: SaveNotes) -> Notes:
    """Store the note and the tags; the event has the tags only: a note may be personal. Raises
    ``ChangedSince``.
    """
    license = work.get_license(command)
    before = notes_store.find_notes(work.tx, [license.id])[license.id]
    if command.instead_of not in (None, before):
        raise ChangedSince(("note", "tags"))
    if before != command.notes:
        notes_store.save_notes(work.tx, license.id, command.notes)
        details = {"tags": " ".join(command.notes.tags)}
        work.record_license_event("license.noted", license, command, details=details)
    return command.notes


HANDLERS: dict[type[Command], Callable[[LicenseWork, Any], Any]] = {SaveNotes: save_notes}
