"""The page for machines without a network: a customer pastes the program's request into it, and takes the
license file back to the machine.

It is an interface like v2 and v3: the license key is the credential, and the same rate limits apply.
"""

import base64
import hashlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs

from starlette.types import Receive, Scope

from keywright.core import errors as e
from keywright.core.errors.problems import PROBLEMS
from keywright.engine.desk import Desk
from keywright.http.answer import Answer, Headers, error_headers
from keywright.http.middleware.call import Call
from keywright.http.middleware.public_interface import PublicAction, PublicInterface
from keywright.http.middleware.routing import Address, Right
from keywright.http.pages.error_messages import message_for
from keywright.http.pages.formats import N_, PORTAL_CATALOGS, Languages, ngettext, speaking
from keywright.http.pages.render import LOOK
from keywright.http.signatures import Signatures
from keywright.languages import Language
from keywright.licensing.activations.model import Device, PlaceChange
from keywright.licensing.refusals import NamedDevice
from keywright.provisioning.brand import Brand, FindBrand, write_style
from keywright.signing.commands import ActivateForFile
from keywright.signing.model import FileWithPlace
from keywright.signing.rules import MAX_REQUEST, OfflineRequest, parse_request

if TYPE_CHECKING:
    from jinja2 import Environment

PATH = b"/offline"
_TEMPLATES = Path(__file__).with_name("templates")
#: Error messages that this page shows to customers, listed for the translation catalogs.
_FOR_CUSTOMERS = (
    N_("Every place of the license is taken: {activations} of {limit}."),
    N_("No license has this key."),
    N_("No new device can be activated now: the limit is {count:,} in {days}."),
    N_("The license cannot be used offline."),
    N_("The license expired on {expires_at} (UTC)."),
    N_("The license expired on {expires_at} (UTC), and this build is newer or has no build date."),
    N_("The license is disabled."),
    N_("The license is inactive."),
    N_("The server is too busy to answer. Nothing was changed."),
)
_HTML = (b"content-type", b"text/html; charset=utf-8")
_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_DOWNLOAD = (b"content-disposition", b'attachment; filename="license.txt"')
#: How long the brand is cached, in seconds.
_BRAND_KNOWN_FOR = 2.0
#: Percent-encoding needs up to three bytes per character.
_MAX_BODY = 4 * MAX_REQUEST


class Sent(NamedTuple):
    """A submitted form: the parsed request, its text, and whether to download or show the file."""

    asked: OfflineRequest
    text: str
    is_download: bool


class Offline(PublicInterface):
    """The page as an interface."""

    malformed = frozenset({e.OfflineRequestUnreadable})
    body_limit = untrusted_body_limit = _MAX_BODY

    def __init__(self, desk: Desk, signatures: Signatures) -> None:
        self.desk = desk
        self._signatures = signatures
        self._brand, self._brand_until = Brand(), 0.0
        actions = {
            "GET": PublicAction("offline_form", Right.NONE, changes=False, answer=self._show_form),
            # The operation's name is that of the API call, so that the same limits count both.
            "POST": PublicAction("activate", Right.CORE, changes=True, answer=self._make_file),
        }
        self._address = Address(("offline",), actions)

    def open_call(self, scope: Scope, receive: Receive) -> Call | None:
        """Return the call for a request; None if the path is not this interface's."""
        return Call(self, scope, receive, self._address) if scope["raw_path"] == PATH else None

    def parse_query(self, query: bytes) -> dict[str, Any]:
        """Return the language in the query, which links from the portal contain."""
        with suppress(ValueError):
            return {"language": parse_qs(query.decode(), max_num_fields=10).get("language", [""])[0]}
        return {}

    def parse_body(self, _call: Call, body: bytes) -> Sent:
        """Parse the form. Raises ``OfflineRequestUnreadable``."""
        try:
            fields = parse_qs(body.decode(), max_num_fields=10)
        except ValueError:
            raise e.OfflineRequestUnreadable from None
        text = fields.get("request", [""])[0]
        return Sent(parse_request(text), text, "download" in fields)

    def prepare(self, call: Call, action: PublicAction) -> PublicAction:
        """Set the call's license key from the form. Raises ``OfflineRequestUnreadable``."""
        if action.changes:
            if not isinstance(call.sent, Sent):
                raise e.OfflineRequestUnreadable
            call.key = call.sent.asked.license_key
        return action

    def find_device(self, call: Call) -> NamedDevice:
        """Return the device that the form's request names."""
        if not isinstance(call.sent, Sent):
            return NamedDevice()
        return NamedDevice(call.sent.asked.fingerprint, call.sent.asked.name)

    def write_error(self, error: e.KeywrightError, call: Call | None = None) -> Answer:
        """Return the page with a sentence about the error."""
        problem = PROBLEMS[error.problem]
        with speaking(_choose_language(call)):
            sentence = _write_sentence(error)
            return _page(problem.status, self._brand, error_headers(error), error=sentence)

    async def _show_form(self, call: Call) -> Answer:
        brand = await self._find_brand()
        with speaking(_choose_language(call)):
            return _page(200, brand)

    async def _find_brand(self) -> Brand:
        """Return the vendor's brand, cached for a moment; if it cannot be read, the last known brand."""
        if monotonic() >= self._brand_until:
            self._brand_until = monotonic() + _BRAND_KNOWN_FOR
            with suppress(e.KeywrightError):
                self._brand = await self.desk.query(FindBrand())
        return self._brand

    async def _make_file(self, call: Call) -> Answer:
        """Activate the device, and answer with its license file."""
        sent: Sent = call.sent
        asked = sent.asked
        command = ActivateForFile(
            context=call.context,
            license=asked.license_key,
            only_product_id=call.only_product_id,
            device=Device(asked.fingerprint, asked.name),
            product=asked.product,
            built_at=asked.built_at,
            alg=self._signatures.alg,
        )
        call.is_change = True
        made: FileWithPlace = await self.desk.execute(command, call)
        file, place = made.file, made.place
        call.is_unchanged = place.change is PlaceChange.KEPT
        if sent.is_download:
            answer = Answer(200, file.content, (_DOWNLOAD,), content_type=_TEXT)
        else:
            brand = await self._find_brand()
            with speaking(_choose_language(call)):
                answer = _page(200, brand, file=file, request=sent.text)
        answer.license_id, answer.activation_id = file.license_id, place.activation.id
        return answer


def _choose_language(call: Call | None) -> Language:
    if call is None:
        return _languages().choose(None, "")
    accepted = call.headers.get(b"accept-language", b"").decode("latin-1")
    return _languages().choose((call.query or {}).get("language"), accepted)


@cache
def _languages() -> Languages:
    # The portal's catalogs contain the texts of this page, too.
    return Languages(PORTAL_CATALOGS)


def _write_sentence(error: e.KeywrightError) -> str:
    if isinstance(error, e.RateLimited):
        return ngettext(
            "Too many attempts. Please try again in %(num)s second.",
            "Too many attempts. Please try again in %(num)s seconds.",
            error.retry_after,
        )
    return message_for(error, error.problem_detail or PROBLEMS[error.problem].detail).sentence


def _page(status: int, brand: Brand, headers: Headers = (), **shown: Any) -> Answer:
    style = _style() + write_style(brand)
    values = {"file": None, "request": "", "error": "", "brand": brand, "style": style} | shown
    html = _environment().get_template("offline.html").render(**values)
    return Answer(status, html.encode(), (*headers, *_policy(style)), content_type=_HTML)


@cache
def _environment() -> "Environment":
    # Imported late: a server that serves no page does not load templates.
    from keywright.http.pages.formats import write_moment
    from keywright.http.pages.render import open_templates

    environment = open_templates(_TEMPLATES)
    environment.filters["moment"] = write_moment
    return environment


@cache
def _style() -> str:
    return "".join(one.read_text(encoding="utf-8") for one in (LOOK, _TEMPLATES / "offline.css"))


def _policy(style: str) -> Headers:
    """Return the security headers of the page: only its own style and form, nothing from other origins."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    )
    return ((b"content-security-policy", policy.encode()), (b"referrer-policy", b"no-referrer"))
