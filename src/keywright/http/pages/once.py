"""Forms that have one effect, however often they are sent: by two clicks, or again because nobody knows what
became of them.

Such a form has a value of its own, made when it is shown (``templates/once.html``). What came of it is kept
like the answer to a call with an ``Idempotency-Key`` (docs/decisions/004), and by the same means.
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

#: The field with the form's own value.
FIELD = "once"
#: How long a form waits for what comes of the same one, sent a moment before; and between two looks; in
#: seconds.
_PATIENCE, _PAUSE = 90.0, 0.02
_DONE, _REFUSED = 303, 409


class Landing(NamedTuple):
    """Where the browser is sent, below the pages' own address, and the sentence that is said there."""

    path: str
    said: str = ""


Lands = Callable[[Any], Landing]


def change_once(request: PageRequest, command: Command, lands: Lands) -> Response:
    """Have the command decided, and send the browser where its outcome ``lands``; if this form was sent
    before, with the same texts in it, to where it was sent then. Raises what the command meets.
    """
    if not request.form.get(FIELD, ""):
        return request.redirect(*lands(request.change(command)))
    attempt = 0
    while True:
        scope = _scope(request, attempt)
        call = IdempotentCall(scope, scope, partial(_written, lands))
        outcome = _decided(request, msgspec.structs.replace(command, idempotency=call))
        if not isinstance(outcome, IdempotencyRecord):
            return request.redirect(*lands(outcome))
        if outcome.status == _DONE:
            return request.redirect(*msgspec.json.decode(outcome.body, type=Landing))
        # It was refused, so nothing was done that could be done twice; and it may be possible now.
        attempt += 1


def _scope(request: PageRequest, attempt: int) -> bytes:
    """The name of the form with what is in it; the user's own, whoever else knows the value."""
    texts = sorted((name, request.form.all(name)) for name in request.form if name != "csrf_token")
    said = ["form", request.user.id, request.http.url.path, attempt, texts]
    return sha256(msgspec.json.encode(said)).digest()


def _written(lands: Lands, outcome: Any) -> tuple[int, bytes]:
    if isinstance(outcome, KeywrightError):
        return _REFUSED, b""
    return _DONE, msgspec.json.encode(lands(outcome))


def _decided(request: PageRequest, command: Command) -> Any:
    """The outcome, or what was kept of it. While the same form is being decided, that is waited for."""
    end = monotonic() + _PATIENCE
    while True:
        try:
            return request.change(command)
        except IdempotencyKeyBusy:
            if monotonic() > end:
                raise
        with request.unlocked():
            sleep(_PAUSE)
