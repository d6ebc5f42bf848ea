"""Error messages of the pages: a status, a heading and a sentence for every error."""

from typing import NamedTuple

from keywright.core import errors as e


class Message(NamedTuple):
    """A message that a page shows in place of what was requested."""

    status: int
    heading: str
    sentence: str


#: The heading for users whose role is too small.
NOT_ALLOWED = e.NoReadPermission.heading
_HEADINGS = {
    400: "This cannot be read",
    403: "This was not done",
    404: "There is nothing here (any more)",
    405: "This cannot be done here",
    409: "This was not done",
    422: "This was not done",
    429: "Too many attempts",
    500: "Something went wrong",
    503: "Please try again in a moment",
}


def message_for(error: e.KeywrightError) -> Message:
    """The message for this error. It never contains a license key, a token or another secret."""
    heading = error.heading or _HEADINGS.get(error.status, _HEADINGS[400])
    return Message(error.status, heading, error.say(error.sentence))
