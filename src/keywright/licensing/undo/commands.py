"""Commands that undo changes."""

from datetime import datetime

from keywright.core.command import Cost
from keywright.events.model import Event
from keywright.licensing.licenses.commands import LicenseCommand


class UndoEvent(LicenseCommand, frozen=True, kw_only=True):
    """Undo the change of a license, named by its id, that this event tells of."""

    cost = Cost.ALONE

    event_id: int


class UndoChanges(LicenseCommand, frozen=True, kw_only=True):
    """Undo all that the caller has changed in a license, named by its id, at this moment."""

    cost = Cost.ALONE

    changed_at: datetime


class EnableLicense(LicenseCommand, frozen=True, kw_only=True):
    """Give a license that is inactive or disabled the status that it had before."""


class RevertEvents(LicenseCommand, frozen=True, kw_only=True):
    """Undo what these events of a license tell of, the newest first."""

    events: tuple[Event, ...]
