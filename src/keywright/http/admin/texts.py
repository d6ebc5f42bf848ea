"""Words for roles and for the states of licenses."""

from datetime import datetime

from keywright.identity.model import Role
from keywright.licensing.licenses.model import License, State, Status
from keywright.licensing.licenses.rules import state

#: What each role may do, in a sentence.
ROLE_TEXTS: dict[Role, str] = {
    Role.READER: "A reader may look at licenses and events, and change nothing.",
    Role.SUPPORT: "Support may look at everything about licenses, and change licenses and activations.",
    Role.ADMINISTRATOR: "An administrator may do everything.",
}


def license_state(license: License, now: datetime) -> str:
    """The state of a license in one word: its status, or ``expired`` or ``grace`` where that says more."""
    now_is = state(license, now)
    return now_is.value if now_is in (State.EXPIRED, State.GRACE) else Status(license.status).name.lower()
