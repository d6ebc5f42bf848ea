"""Words for roles and for the states of licenses."""

from datetime import datetime

from keywright.identity.model import Role
from keywright.licensing.licenses.model import License, Status
from keywright.licensing.licenses.rules import is_expired

#: What each role may do, in a sentence.
ROLE_TEXTS: dict[Role, str] = {
    Role.READER: "A reader may look at licenses and events, and change nothing.",
    Role.SUPPORT: "Support may look at everything about licenses, and change licenses and activations.",
    Role.ADMINISTRATOR: "An administrator may do everything.",
}


def license_state(license: License, now: datetime) -> str:
    """The state of a license in one word: its status, or ``expired`` where that says more."""
    status = Status(license.status)
    is_usable = status not in (Status.DISABLED, Status.INACTIVE)
    return "expired" if is_usable and is_expired(license, now) else status.name.lower()
