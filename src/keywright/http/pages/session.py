"""Sessions: cookies, the signed-in user, form tokens, and messages for the next page.

A browser has one random token in a cookie. After a sign-in, the hash of that token identifies a session;
before, the token only ties forms to the browser that loaded them.

Cookies are parsed here because Starlette's ``request.cookies`` uses ``http.cookies``, which takes quadratic
time for backslashes in some versions of Python (CVE-2024-7592). The cookies of the pages never need quotes.
"""

import base64
import binascii
import hmac
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import ClassVar, NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from keywright.config import Settings
from keywright.config.values import Network
from keywright.core.command import Context, Origin
from keywright.core.parsing import MAX_USER_AGENT_LENGTH, keep_address
from keywright.http.middleware.client_address import client_address
from keywright.http.pages.render import BASE
from keywright.http.pages.runner import Runner
from keywright.http.server.sockets import is_trusted
from keywright.identity import sessions
from keywright.identity.model import Role, SeeSession, User
from keywright.identity.sessions import SignedIn

#: The longest ``Cookie`` header that is read, in bytes; the cookies of the pages take a few hundred.
MAX_LENGTH = 4096


def parse_cookies(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The cookies by name, with their values as sent. Of cookies with the same name, the first counts.

    A ``Cookie`` header of more than ``MAX_LENGTH`` bytes is ignored.
    """
    cookies: dict[str, str] = {}
    for name, value in headers:
        if name == b"cookie" and len(value) <= MAX_LENGTH:
            for pair in value.decode("latin-1").split(";"):
                key, _, text = pair.partition("=")
                cookies.setdefault(key.strip(), text.strip())
    return cookies


_KNOWN_COOKIE = "keywright-known"
_MAX_TOKEN_LENGTH = 128
#: The value of ``X-Requested-With`` in requests of admin.js.
SCRIPT = "keywright"
#: How long a browser stays known for a user, in seconds.
_KNOWN_FOR = 365 * 24 * 3600


class Browser:
    """The browser that sent a request to a site: its address, and its token."""

    #: The path of the site, and the name of its cookie with the token.
    base: ClassVar[str] = BASE
    cookie: ClassVar[str] = "keywright"

    def __init__(self, request: Request, settings: Settings) -> None:
        headers = request.headers
        trusted = settings.trusted_proxies
        peer = request.client.host if request.client else ""
        hops = [value for name, value in request.scope["headers"] if name == b"x-forwarded-for"]
        self.now = datetime.now(UTC).replace(microsecond=0)
        self.address = client_address(peer, hops, trusted)
        self.kept_address = keep_address(self.address, settings.ip_addresses)
        self.user_agent = headers.get("user-agent", "")[:MAX_USER_AGENT_LENGTH]
        self.is_secure = _is_secure(request, peer, trusted)
        self.cookies = parse_cookies(request.scope["headers"])
        self.token = self.read_cookie(self.cookie)
        self._is_token_new = False

    @property
    def form_token(self) -> str:
        """The token in every form of this browser; it cannot be computed without the cookie."""
        return hmac.digest(self.token.encode(), b"keywright form", "sha256").hex() if self.token else ""

    def sign(self, text: str) -> str:
        """A signature which proves that this server wrote the text for this browser."""
        return hmac.digest(self.token.encode(), b"keywright text " + text.encode(), "sha256").hex()

    def set_token(self, token: str | None = None) -> None:
        """Replace the token with this one, or a random one. Forms with the old one become invalid."""
        self.token, self._is_token_new = token or sessions.new_session_token(), True

    def ensure_token(self) -> None:
        """Set a token if the browser has none: forms need one."""
        if not self.token:
            self.set_token()

    def write_cookies(self, response: Response) -> None:
        """Set the cookies that have changed; the browser drops the token when it is closed."""
        if self._is_token_new:
            self.write_cookie(response, self.cookie, self.token)

    def read_cookie(self, name: str, max_length: int = _MAX_TOKEN_LENGTH) -> str:
        """The value of a cookie of this site, truncated; "" if there is none."""
        return self.cookies.get(self._name_of(name), "")[:max_length]

    def write_cookie(self, response: Response, name: str, value: str, max_age: int | None = None) -> None:
        """Set a cookie of this site for ``max_age`` seconds, or until the browser is closed."""
        response.set_cookie(
            self._name_of(name),
            value,
            max_age=max_age,
            path="/" if self.is_secure else self.base,
            httponly=True,
            samesite="lax",
            secure=self.is_secure,
        )

    def _name_of(self, cookie: str) -> str:
        """The cookie's full name. Browsers accept ``__Host-`` only from the host itself, over HTTPS."""
        return f"__Host-{cookie}" if self.is_secure else cookie


class BrowserSession(Browser):
    """The browser that sent a request for an administration page, and the signed-in user."""

    def __init__(self, request: Request, settings: Settings) -> None:
        super().__init__(request, settings)
        #: Proves that a user has signed in with this browser before, see ``sessions.device_mark``.
        self.device_mark = self.read_cookie(_KNOWN_COOKIE)
        self.signed_in: SignedIn | None = None
        self._requirement = settings.require_second_factor
        minutes = settings.session_idle_minutes
        #: After this time without use, a session is over.
        self.idle = timedelta(minutes=minutes) if minutes else None
        #: Whether a script sent the request in the background: such requests do not keep a session alive.
        self._is_unattended = request.method != "POST" and request.headers.get("x-requested-with") == SCRIPT
        self._is_mark_new = False

    def find_user(self, runner: Runner) -> None:
        """Find the signed-in user, and update the session's last-seen time. Call it in a thread."""
        if not self.token:
            return
        self.signed_in = found = runner.ask(
            lambda tx: sessions.find_signed_in(tx, self.token, self.now, self.idle)
        )
        if found is None or self._is_unattended:
            return
        if sessions.is_to_be_seen(found.session, self.now):
            runner.change_soon(
                SeeSession(
                    context=Context(self.now, self.origin, found.user.id), token_hash=found.session.token_hash
                )
            )

    @property
    def role(self) -> Role | None:
        """The role of the signed-in user."""
        return None if self.signed_in is None else self.signed_in.user.role

    @property
    def must_enroll(self) -> bool:
        """Whether the user must set up a second factor before anything else."""
        if self.signed_in is None or self.signed_in.has_factor:
            return False
        if self.signed_in.user.subject is not None:
            # The company's provider requires it.
            return False
        return self._requirement == "all" or (
            self._requirement == "administrators" and self.role is Role.ADMINISTRATOR
        )

    @property
    def origin(self) -> Origin:
        """The origin of this browser's commands, which events record."""
        if self.signed_in is not None:
            return self.origin_of(self.signed_in.user)
        return Origin("visitor", self.kept_address, self.user_agent)

    def origin_of(self, user: User) -> Origin:
        """The origin of the commands of a user who is about to be signed in."""
        return Origin(f"user:{user.id}", self.kept_address, self.user_agent, user.subject)

    def set_token(self, token: str | None = None) -> None:
        """Replace the token. No user is signed in until ``find_user`` is called again."""
        super().set_token(token)
        self.signed_in = None

    def set_device_mark(self, mark: str) -> None:
        """Store the mark in the browser, which is then known for the mark's user."""
        self.device_mark, self._is_mark_new = mark, True

    def write_cookies(self, response: Response) -> None:
        """Set the cookies that have changed."""
        super().write_cookies(response)
        if self._is_mark_new:
            self.write_cookie(response, _KNOWN_COOKIE, self.device_mark, _KNOWN_FOR)


def is_own_form(request: Request, browser: Browser, form_token: str) -> bool:
    """Whether a form or script of these pages sent the request.

    Browsers state where a form comes from (``Origin``, ``Sec-Fetch-Site``). Every form must also contain the
    form token, which covers browsers that send neither header.
    """
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = request.headers.get("origin")
    if origin is not None and not _is_same_host(origin, request.headers.get("host", "")):
        return False
    return bool(browser.token) and hmac.compare_digest(browser.form_token.encode(), form_token.encode())


def _is_same_host(origin: str, host: str) -> bool:
    """Whether both name the same host and port; a ``host`` without a port matches any (some proxies)."""
    try:
        ours, theirs = urlsplit(f"//{host}"), urlsplit(origin)
        is_same_port = ours.port is None or (theirs.port or _default_port(theirs.scheme)) == ours.port
    except ValueError:
        return False
    return bool(ours.hostname) and theirs.hostname == ours.hostname and is_same_port


def _default_port(scheme: str) -> int | None:
    return {"http": 80, "https": 443}.get(scheme)


def _is_secure(request: Request, peer: str, trusted: Sequence[Network]) -> bool:
    """Whether the browser's connection is encrypted, according to the server or a trusted proxy."""
    if request.url.scheme == "https":
        return True
    forwarded = request.headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
    return forwarded == "https" and is_trusted(peer, trusted)


_COOKIE = "keywright_said"
#: How long the browser keeps a message that was not shown, in seconds.
_MAX_AGE = 60
_MAX_LENGTH = 600


class Flash(NamedTuple):
    """A message for the browser's next page. ``is_error`` means that it states a refusal; ``undo`` is the
    path of the form that undoes the change, or "".
    """

    text: str
    is_error: bool
    undo: str = ""


def save(response: Response, browser: Browser, flash: Flash) -> None:
    """Store this message in a cookie for the browser's next page. It must not contain secrets."""
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
    """The message in the browser's cookie, if this server signed it for this browser."""
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
    """Delete the cookie once its message is shown."""
    if _COOKIE in browser.cookies:
        response.delete_cookie(_COOKIE, path=browser.base)
