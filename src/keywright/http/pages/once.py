"""Forms that take effect once, however often they are sent: by a double click, or again after an error that
left it open whether they took effect.

Such a form contains a random value (``templates/once.html``). Its outcome is stored like the answer to a call
with an ``Idempotency-Key`` (docs/decisions/004), and by the same means.
"""

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from time import monotonic, sleep
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from keywright.core.command import Command, IdempotentCall
from keywright.core.errors import IdempotencyKeyBusy, KeywrightError
from keywright.engine.idempotency import IdempotencyRecord
from keywright.http.pages.request import PageRequest

#: The field with the form's random value.
FIELD = "once"
#: How long a form waits while the same form, sent a moment before, is in progress; and how often it looks; in
#: seconds.
_TIMEOUT, _INTERVAL = 90.0, 0.02
_DONE, _REFUSED = 303, 409


class Redirect(NamedTuple):
    """The page that the browser is sent to, the message that it shows, and the path that undoes it."""

    path: str
    message: str = ""
    undo: str = ""


#: Makes the redirect for the outcome of a command.
ToRedirect = Callable[[Any], Redirect]


def change_once(request: PageRequest, command: Command, to_redirect: ToRedirect) -> Response:
    """Submit the command, and redirect. If this form was sent before with the same fields, redirect as then.
    Raises what the command raises.
    """
    if not request.form.get(FIELD, ""):
        return request.redirect(*to_redirect(request.change(command)))
    attempt = 0
    while True:
        digest = _digest(request, attempt)
        call = IdempotentCall(digest, digest, partial(_encode, to_redirect))
        outcome = _change(request, msgspec.structs.replace(command, idempotency=call))
        if not isinstance(outcome, IdempotencyRecord):
            return request.redirect(*to_redirect(outcome))
        if outcome.status == _DONE:
            return request.redirect(*msgspec.json.decode(outcome.body, type=Redirect))
        # The first attempt was refused, so nothing can happen twice; and the command may be possible now.
        attempt += 1


def _digest(request: PageRequest, attempt: int) -> bytes:
    """The identity of the form: its fields, its page, and the user who sends it."""
    fields = sorted((name, request.form.all(name)) for name in request.form if name != "csrf_token")
    identity = ["form", request.user.id, request.http.url.path, attempt, fields]
    return sha256(msgspec.json.encode(identity)).digest()


def _encode(to_redirect: ToRedirect, outcome: Any) -> tuple[int, bytes]:
    """The status and body to store for an outcome."""
    if isinstance(outcome, KeywrightError):
        return _REFUSED, b""
    return _DONE, msgspec.json.encode(to_redirect(outcome))


def _change(request: PageRequest, command: Command) -> Any:
    """The outcome, or the stored record of it; waits while the same form is in progress."""
    end = monotonic() + _TIMEOUT
    while True:
        try:
            return request.change(command)
        except IdempotencyKeyBusy:
            if monotonic() > end:
                raise
        with request.release_lock():
            sleep(_INTERVAL)
