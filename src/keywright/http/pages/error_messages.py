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
    400: "The request is not valid",
    403: "This is not allowed",
    404: "Not found",
    405: "This page cannot be requested like this",
    409: "Nothing was changed",
    422: "Nothing was changed",
    429: "Too many attempts",
    500: "Something went wrong",
    503: "Please try again in a moment",
}


def message_for(error: e.KeywrightError) -> Message:
    """The message for this error. It never contains a license key, a token or another secret."""
    heading = error.heading or _HEADINGS.get(error.status, _HEADINGS[400])
    return Message(error.status, heading, error.say(error.sentence))
