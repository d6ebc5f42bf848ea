"""A request for a page of the portal, and the objects that all pages share."""

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from jinja2 import Environment
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from keywright.config import Settings
from keywright.core.command import Command, Context
from keywright.core.errors import KeywrightError
from keywright.db.transaction import ReadTransaction
from keywright.http.middleware.body import BodyReader
from keywright.http.pages import session
from keywright.http.pages.formats import Languages
from keywright.http.pages.forms import Form
from keywright.http.pages.render import PORTAL
from keywright.http.pages.runner import Runner
from keywright.http.pages.session import Flash
from keywright.http.portal.browser import PortalBrowser
from keywright.http.portal.limits import Limits
from keywright.http.portal.texts import Message, explain, message_for
from keywright.languages import Language
from keywright.licensing.licenses.keys import normalize_key
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import find_typed
from keywright.provisioning.brand import Brand, write_style
from keywright.provisioning.customers import Customer
from keywright.provisioning.store import find_brand

#: How long the brand is cached, in seconds.
_BRAND_KNOWN_FOR = 2.0


class ShownBrand(NamedTuple):
    """The brand with its style and logo, and their URLs. Without a logo, its fields are empty."""

    brand: Brand
    style: bytes
    style_url: str
    logo: bytes = b""
    logo_url: str = ""


class BrandCache:
    """A cache of the brand. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._shown: ShownBrand | None = None
        self._until = 0.0

    def find(self, runner: Runner) -> ShownBrand:
        """Return the brand. Call it in a thread."""
        with self._lock:
            if self._shown is None or monotonic() >= self._until:
                brand = runner.ask(find_brand)
                if self._shown is None or brand != self._shown.brand:
                    self._shown = show_brand(brand)
                self._until = monotonic() + _BRAND_KNOWN_FOR
            return self._shown


def show_brand(brand: Brand) -> ShownBrand:
    """Return the brand with its style and logo. Their URLs contain digests, so browsers may cache them."""
    style = write_style(brand).encode()
    logo = b"" if brand.logo is None else base64.b64decode(brand.logo)
    logo_url = f"{PORTAL}/logo?v={_digest(logo)}" if logo else ""
    return ShownBrand(brand, style, f"{PORTAL}/brand.css?v={_digest(style)}", logo, logo_url)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True)
class PortalSite:
    """The objects that all pages of the portal share."""

    settings: Settings
    runner: Runner
    templates: Environment
    languages: Languages
    body_reader: BodyReader
    limits: Limits = field(default_factory=Limits)
    brand: BrandCache = field(default_factory=BrandCache)

    @property
    def has_mail(self) -> bool:
        """Whether sign-in codes can be mailed; otherwise a license key is the only way in."""
        return self.settings.smtp_server is not None


Result = TypeVar("Result")


class PortalRequest:
    """A request for a page of the portal, with the responses that a page can return."""

    def __init__(self, site: PortalSite, http: Request, browser: PortalBrowser, form: Form | None) -> None:
        self.site = site
        self.http = http
        self.browser = browser
        self.now = browser.now
        self.form = form or Form()
        self.is_post = form is not None
        self.path_params: Mapping[str, Any] = http.path_params

    @property
    def customer(self) -> Customer:
        """The customer who is signed in. Raises ``HTTPException`` (403) if nobody is."""
        if self.browser.customer is None:
            raise HTTPException(403)
        return self.browser.customer

    @property
    def license(self) -> License:
        """The license whose key was entered. Raises ``HTTPException`` (403) if there is none."""
        if self.browser.license is None:
            raise HTTPException(403)
        return self.browser.license

    @property
    def context(self) -> Context:
        """The context of every command of this request."""
        return self.browser.context

    @property
    def language(self) -> Language:
        """The language of the page: chosen in this browser, else the customer's, else by Accept-Language."""
        customer, languages = self.browser.customer, self.site.languages
        chosen = self.browser.language
        if chosen not in languages:
            chosen = "" if customer is None else (customer.language or "").replace("_", "-")
        return languages.choose(chosen, self.http.headers.get("accept-language", ""))

    def ask(self, question: Callable[[ReadTransaction], Result]) -> Result:
        """Read from one snapshot of the database."""
        return self.site.runner.ask(question)

    def change(self, command: Command) -> Any:
        """Submit the command and wait for its durable outcome. Raises its refusal or fault."""
        return self.site.runner.change(command)

    def take(self, kind: str, about: str | None = None) -> dict[str, str]:
        """Count an attempt. Raises ``RateLimited``."""
        return self.site.limits.take(kind, self.browser.address, about)

    def read_key(self) -> str:
        """Return the license key in the form. If it differs from a license's key only in case or dashes,
        return that license's key. Raises ``InvalidLicenseKey``.
        """
        key = normalize_key(self.form.get("key", ""))
        found = self.ask(lambda tx: find_typed(tx, key))
        return key if found is None else found.key

    def render(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """Render the template with these values."""
        # Every page has a form, to choose the language or to sign out, and so needs a CSRF token.
        self.browser.ensure_token()
        page = self.site.templates.get_template(template)
        response = HTMLResponse(page.render(**self._common_values(), **values), status)
        session.delete(response, self.browser)
        return self._with_cookies(response)

    def redirect(self, path: str, message: str = "", *, is_error: bool = False) -> Response:
        """Redirect to a page of the portal that shows this message once."""
        response = RedirectResponse(f"{PORTAL}{path}", 303)
        if message:
            self.browser.ensure_token()
            session.save(response, self.browser, Flash(message, is_error))
        return self._with_cookies(response)

    def refuse(self, path: str, error: KeywrightError) -> Response:
        """Redirect to a page that explains the refusal. Raises the error if it has no explanation."""
        sentence = explain(error)
        if not sentence:
            raise error
        return self.redirect(path, sentence, is_error=True)

    def download(self, file_name: str, content: bytes, media_type: str) -> Response:
        """Return a file for download."""
        # RFC 6266
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(file_name, safe='')}"}
        return self._with_cookies(Response(content, 200, headers, media_type))

    def message_page(self, message: Message) -> Response:
        """Return a page with a message in place of the requested page."""
        return self.render("message.html", status=message.status, message=message)

    def error_page(self, error: KeywrightError) -> Response:
        """Return a page with the message for this error."""
        response = self.message_page(message_for(error))
        retry_after = getattr(error, "retry_after", None)
        if retry_after is not None:
            response.headers["retry-after"] = str(retry_after)
        return response

    def _common_values(self) -> dict[str, Any]:
        """The values that every template gets."""
        shown = self.site.brand.find(self.site.runner)
        return {
            "now": self.now,
            "customer": self.browser.customer,
            "csrf_token": self.browser.form_token,
            "flash": session.load(self.browser),
            "brand": shown.brand,
            "has_mail": self.site.has_mail,
            "has_links": self.site.settings.public_url is not None,
            "brand_style": shown.style_url,
            "brand_logo": shown.logo_url,
            "languages": list(self.site.languages),
            "here": "" if self.is_post else self.http.url.path.removeprefix(PORTAL),
        }

    def _with_cookies(self, response: Response) -> Response:
        self.browser.write_cookies(response)
        return response
