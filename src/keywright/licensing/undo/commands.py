"""Commands that undo changes."""

from datetime import datetime

from keywright.core.command import Cost
from keywright.licensing.licenses.commands import LicenseCommand
from keywright.licensing.undo.model import PastChange


class UndoEvent(LicenseCommand, frozen=True, kw_only=True):
    """Undo the change of a license, named by its id, that this event tells of."""

    cost = Cost.ALONE

    event_id: int


class UndoChanges(LicenseCommand, frozen=True, kw_only=True):
    """Undo all that the caller has changed in a license, named by its id, at this moment."""

    cost = Cost.ALONE

    changed_at: datetime


class RestoreLicense(LicenseCommand, frozen=True, kw_only=True):
    """Bring back a license that was deleted, by its id."""

    cost = Cost.ALONE


class EnableLicense(LicenseCommand, frozen=True, kw_only=True):
    """Give a license that is inactive or disabled the status that it had before."""


class RevertChanges(LicenseCommand, frozen=True, kw_only=True):
    """Undo these changes of a license, named by its id, the last one first."""

    changes: tuple[PastChange, ...]
