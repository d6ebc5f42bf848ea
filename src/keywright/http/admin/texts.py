"""Words for roles and for the states of licenses, marked for ``_``."""

from datetime import datetime

from keywright.http.pages.languages import N_
from keywright.identity.model import Role
from keywright.licensing.licenses.model import License, State, Status
from keywright.licensing.licenses.rules import state

#: What each role may do, in a sentence.
ROLE_TEXTS: dict[Role, str] = {
    Role.READER: N_("A reader may look at licenses and events, and change nothing."),
    Role.SUPPORT: N_("Support may look at everything about licenses, and change licenses and activations."),
    Role.ADMINISTRATOR: N_("An administrator may do everything."),
}
#: The words of the enumerations that pages show, by ``_(one.value)``.
_WORDS = (
    *(N_("reader"), N_("support"), N_("administrator")),
    *(N_("sold"), N_("delivered"), N_("active"), N_("inactive"), N_("disabled"), N_("expired"), N_("grace")),
)


def license_state(license: License, now: datetime) -> str:
    """The state of a license in one word: its status, or ``expired`` or ``grace`` where that says more."""
    now_is = state(license, now)
    return now_is.value if now_is in (State.EXPIRED, State.GRACE) else Status(license.status).name.lower()
