"""Messages that the next page shows after a redirect, kept in a signed cookie."""

import base64
import binascii
import hmac
from typing import NamedTuple

from starlette.responses import Response

from keywright.http.pages.session import Browser

_COOKIE = "keywright_said"
#: How long the browser keeps a message that no page has shown, in seconds.
_MAX_AGE = 60
_MAX_LENGTH = 600


class Flash(NamedTuple):
    """A sentence; ``is_error`` when it says what was refused. ``undo`` is the path of the form that undoes
    what was done, "" where there is none.
    """

    text: str
    is_error: bool
    undo: str = ""


def save(response: Response, browser: Browser, flash: Flash) -> None:
    """Have the browser's next page show this message. Not for secrets: the browser stores it."""
    text = f"{int(flash.is_error)}{flash.undo}\n{flash.text[:_MAX_LENGTH]}"
    encoded = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    response.set_cookie(
        _COOKIE,
        f"{encoded}.{browser.sign(text)}",
        max_age=_MAX_AGE,
        path=browser.base,
        httponly=True,
        samesite="lax",
        secure=browser.is_secure,
    )


def load(browser: Browser) -> Flash | None:
    """The message for this page, if this server signed it for this browser."""
    encoded, _, signature = browser.cookies.get(_COOKIE, "").partition(".")
    try:
        text = base64.urlsafe_b64decode(encoded + "==").decode()
    except (binascii.Error, UnicodeError, ValueError):
        return None
    if (
        not text
        or not browser.token
        or not hmac.compare_digest(browser.sign(text).encode(), signature.encode())
    ):
        return None
    undo, _, sentence = text[1:].partition("\n")
    return Flash(sentence, text[0] == "1", undo)


def delete(response: Response, browser: Browser) -> None:
    """Delete the cookie after its message was shown."""
    if _COOKIE in browser.cookies:
        response.delete_cookie(_COOKIE, path=browser.base)
