"""Write about a license."""

from keywright.licensing.licenses.commands import LicenseCommand
from keywright.licensing.notes.model import Notes


class SaveNotes(LicenseCommand, frozen=True, kw_only=True):
    """Give the license this note and these tags, in the place of those that it has; with ``instead_of``, only
    while it has these.
    """

    notes: Notes
    instead_of: Notes | None = None
