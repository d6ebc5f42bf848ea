"""The page on which customers unsubscribe from reminders, also with one click in mail programs (RFC 8058)."""

import base64
import hashlib
from datetime import UTC, datetime
from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from keywright.core.command import Context, Origin
from keywright.core.crypto import KeyRing
from keywright.core.errors import KeywrightError
from keywright.core.parsing import MAX_ID
from keywright.delivery.mail import defaults
from keywright.delivery.mail.model import Unsubscribe
from keywright.delivery.mail.rules import is_token
from keywright.engine.desk import Desk
from keywright.http.answer import ErrorWriter, to_response

_ORIGIN = Origin("customer", "", "")
_STYLE = (
    ":root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:34rem;margin:12vh auto;"
    "padding:0 1rem}h1{font-size:1.4rem}button{font:inherit;padding:.6rem 1.1rem}"
)
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_HASH}'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class UnsubscribePage:
    """The route of the page."""

    def __init__(self, desk: Desk, key_ring: KeyRing, write_error: ErrorWriter) -> None:
        self._desk = desk
        self._key_ring = key_ring
        self._write_error = write_error
        path = "/mail/unsubscribe/{id:int}/{token}/{language}"
        self.routes = [Route(path, self._answer, methods=["GET", "POST"])]

    async def _answer(self, request: Request) -> Response:
        """Show a button (GET), so that link scanners change nothing, or unsubscribe (POST)."""
        number, language = request.path_params["id"], request.path_params["language"]
        if number > MAX_ID or not is_token(self._key_ring, number, request.path_params["token"]):
            return _page(language, 404, defaults.BAD_LINK)
        if request.method != "POST":
            return _page(language, 200, defaults.UNSUBSCRIBE_TEXT, button=defaults.UNSUBSCRIBE_BUTTON)
        now = datetime.now(UTC).replace(microsecond=0)
        try:
            await self._desk.execute(Unsubscribe(context=Context(now, _ORIGIN), customer_id=number))
        except KeywrightError as error:
            return to_response(self._write_error(error))
        return _page(language, 200, defaults.UNSUBSCRIBED)


def _page(code: str, status: int, text: str, *, button: str | None = None) -> Response:
    language = defaults.choose_language(code, "en")
    say = language.translations.gettext
    form = f'<form method="post"><button>{escape(say(button))}</button></form>' if button else ""
    heading = escape(say(defaults.UNSUBSCRIBE_HEADING))
    html = (
        f'<!doctype html><html lang="{language.code}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{heading}</title><style>{_STYLE}</style></head><body><main><h1>{heading}</h1>"
        f"<p>{escape(say(text))}</p>{form}</main></body></html>"
    )
    return HTMLResponse(html, status, headers=_HEADERS)
