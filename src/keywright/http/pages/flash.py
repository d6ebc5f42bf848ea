"""What the next page says of what was just done: kept in a signed cookie from one answer to the next."""

import base64
import binascii
import hmac
from typing import NamedTuple

from starlette.responses import Response

from keywright.http.pages.session import Visitor
from keywright.http.pages.urls import BASE

_COOKIE = "keywright_said"
#: How long it may wait to be read, in seconds.
_KEPT = 60
_LONGEST = 600


class RecordEvent(NamedTuple):
    """A sentence; ``is_bad`` when it says what could not be done."""

    text: str
    is_bad: bool


def leave(response: Response, visitor: Visitor, note: RecordEvent) -> None:
    """Have the visitor's next page say this. Nothing secret: a browser keeps it for a moment."""
    text = f"{int(note.is_bad)}{note.text[:_LONGEST]}"
    encoded = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    response.set_cookie(
        _COOKIE,
        f"{encoded}.{visitor.sign(text)}",
        max_age=_KEPT,
        path=BASE,
        httponly=True,
        samesite="lax",
        secure=visitor.is_secure,
    )


def take(visitor: Visitor) -> RecordEvent | None:
    """What was left for this page to say, if we left it."""
    encoded, _, signature = visitor.cookies.get(_COOKIE, "").partition(".")
    try:
        text = base64.urlsafe_b64decode(encoded + "==").decode()
    except (binascii.Error, UnicodeError, ValueError):
        return None
    if (
        not text
        or not visitor.token
        or not hmac.compare_digest(visitor.sign(text).encode(), signature.encode())
    ):
        return None
    return RecordEvent(text[1:], text[0] == "1")


def forget(response: Response, visitor: Visitor) -> None:
    """It was said."""
    if _COOKIE in visitor.cookies:
        response.delete_cookie(_COOKIE, path=BASE)
