"""Error messages of the pages: a status, a heading and a sentence for every error."""

from typing import NamedTuple

from keywright.core import errors as e
from keywright.http.pages.languages import N_, _


class Message(NamedTuple):
    """A message that a page shows in place of what was requested."""

    status: int
    heading: str
    sentence: str


#: The heading for users whose role is too small.
NOT_ALLOWED = e.NoReadPermission.heading
_HEADINGS = {
    400: N_("The request is not valid"),
    403: N_("This is not allowed"),
    404: N_("Not found"),
    405: N_("This page cannot be requested like this"),
    409: N_("Nothing was changed"),
    422: N_("Nothing was changed"),
    429: N_("Too many attempts"),
    500: N_("Something went wrong"),
    503: N_("Please try again in a moment"),
}


def message_for(error: e.KeywrightError) -> Message:
    """The message for this error, in the reader's language, without license keys, tokens or other secrets."""
    heading = error.heading or _HEADINGS.get(error.status, _HEADINGS[400])
    return Message(error.status, _(heading), error.say(_(error.sentence)))
