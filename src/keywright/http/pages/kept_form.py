"""A form whose session had ended when it was sent: the page of the sign-in keeps it, and offers it again
afterwards. The server stores nothing.
"""

import re
from collections.abc import Iterable

import msgspec
from starlette.requests import Request

from keywright.core.errors import KeywrightError
from keywright.http.pages import forms
from keywright.http.pages.forms import Form
from keywright.http.pages.render import BASE
from keywright.http.pages.session import BrowserSession, is_own_form
from keywright.http.pages.site import Site

#: The field of the sign-in with the form.
FIELD = "kept"
#: The longest form that is kept, in bytes: with room for the rest of the sign-in.
_MAX_BYTES = 8 * 1024
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
    """The form in a request without a session, if one of these pages in this browser has sent it."""
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
    """The form that the page of the sign-in has kept."""
    try:
        kept = _decode(form.raw(FIELD))
    except msgspec.DecodeError:
        return None
    return _build(kept.path, kept.fields)


def write_kept(kept: KeptForm | None) -> str:
    """The form as a text for the field; "" is none."""
    return "" if kept is None else msgspec.json.encode(kept).decode()


def _build(path: str, fields: Iterable[tuple[str, str]]) -> KeptForm | None:
    shown = tuple((name, value) for name, value in fields if name != "csrf_token")
    if not _PATH.fullmatch(path) or _NOT_KEPT.match(path) or any(_SECRET.search(name) for name, _ in shown):
        return None
    kept = KeptForm(path, shown)
    return kept if len(write_kept(kept).encode()) <= _MAX_BYTES else None
