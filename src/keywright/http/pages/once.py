"""Idempotent forms, and forms that are kept during a sign-in because the session had ended.

An idempotent form contains a random value (``templates/once.html``). Its outcome is stored in the same way as
the answer to a call with an ``Idempotency-Key`` (docs/decisions/004).
"""

import re
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from time import monotonic, sleep
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from keywright.core.command import Command, IdempotentCall
from keywright.core.errors import IdempotencyKeyBusy, KeywrightError
from keywright.engine.idempotency import IdempotencyRecord
from keywright.http.pages import forms
from keywright.http.pages.forms import Form
from keywright.http.pages.render import BASE
from keywright.http.pages.request import PageRequest
from keywright.http.pages.session import BrowserSession, is_own_form
from keywright.http.pages.site import Site

#: The field with the form's random value.
FIELD = "once"
#: How long a form waits for the same form, sent earlier and still in progress, and the polling interval, in
#: seconds.
_TIMEOUT, _INTERVAL = 90.0, 0.02
_DONE, _REFUSED = 303, 409


class Redirect(NamedTuple):
    """The path to redirect to, the message to show, and the path of the form that undoes the change."""

    path: str
    message: str = ""
    undo: str = ""


#: Returns the redirect for the outcome of a command.
ToRedirect = Callable[[Any], Redirect]


def change_once(request: PageRequest, command: Command, to_redirect: ToRedirect) -> Response:
    """Submit the command and redirect. If the same form was sent before with the same fields, only repeat its
    redirect. Raises what the command raises.
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
        # The earlier attempt was refused, so nothing can happen twice, and the command may succeed now.
        attempt += 1


def _digest(request: PageRequest, attempt: int) -> bytes:
    """The idempotency key of the form: a hash of its user, its page, its fields and the attempt."""
    fields = sorted((name, request.form.all(name)) for name in request.form if name != "csrf_token")
    identity = ["form", request.user.id, request.http.url.path, attempt, fields]
    return sha256(msgspec.json.encode(identity)).digest()


def _encode(to_redirect: ToRedirect, outcome: Any) -> tuple[int, bytes]:
    """The status and body to store for an outcome."""
    if isinstance(outcome, KeywrightError):
        return _REFUSED, b""
    return _DONE, msgspec.json.encode(to_redirect(outcome))


def _change(request: PageRequest, command: Command) -> Any:
    """Submit the command; return its outcome, or its stored record. Waits while the form is in progress."""
    end = monotonic() + _TIMEOUT
    while True:
        try:
            return request.change(command)
        except IdempotencyKeyBusy:
            if monotonic() > end:
                raise
        with request.release_lock():
            sleep(_INTERVAL)


#: The field of the sign-in pages with the kept form.
KEPT_FORM = "kept"
#: The longest form that is kept, in bytes: it must fit into the form of the sign-in.
_MAX_BYTES = 8 * 1024
#: The longest body that is read for such a form, in bytes.
_MAX_BODY = 16 * 1024
#: Pages whose forms are kept; those about passwords, codes and signing in are not.
_PATH = re.compile(rf"{BASE}(/[A-Za-z0-9_~-]+)+")
_NOT_KEPT = re.compile(rf"{BASE}/(sign-|setup|theme|account|second-factor)")
_SECRET = re.compile("password|code|secret")


class KeptForm(msgspec.Struct, frozen=True):
    """The path that a form was sent to, and its fields."""

    path: str
    fields: tuple[tuple[str, str], ...]


_decode = msgspec.json.Decoder(KeptForm).decode


async def read_unsent(request: Request, site: Site, browser: BrowserSession) -> KeptForm | None:
    """The form in a request without a session, if it may be kept and this browser's page sent it."""
    if request.method != "POST" or not browser.token:
        return None
    try:
        form = await forms.read_form(
            request, site.body_reader, _MAX_BODY, address=browser.address, is_anonymous=True
        )
    except KeywrightError:
        return None
    if not is_own_form(request, browser, form.get("csrf_token", "")):
        return None
    return _build(request.url.path, [(name, one) for name in form for one in form.all(name)])


def parse_kept(form: Form) -> KeptForm | None:
    """The kept form in a form of the sign-in pages."""
    return decode_kept(form.raw(KEPT_FORM))


def decode_kept(text: str) -> KeptForm | None:
    """The form that ``write_kept`` wrote; None if the text is not one that may be kept."""
    try:
        kept = _decode(text)
    except msgspec.DecodeError:
        return None
    return _build(kept.path, kept.fields)


def write_kept(kept: KeptForm | None) -> str:
    """The form as JSON, for the field ``KEPT_FORM``; "" for None."""
    return "" if kept is None else msgspec.json.encode(kept).decode()


def _build(path: str, fields: Iterable[tuple[str, str]]) -> KeptForm | None:
    shown = tuple((name, value) for name, value in fields if name != "csrf_token")
    if not _PATH.fullmatch(path) or _NOT_KEPT.match(path) or any(_SECRET.search(name) for name, _ in shown):
        return None
    kept = KeptForm(path, shown)
    return kept if len(write_kept(kept).encode()) <= _MAX_BYTES else None
