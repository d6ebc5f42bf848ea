"""Who is at the door: cookies, sessions, and whether a form comes from our own page.

A visitor's browser holds one random token in a cookie. Once somebody has signed in with it, its hash names a
session; before that, and after, it only ties forms to the browser that asked for them.
"""

import hmac
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from keywright.config import Settings
from keywright.core.command import Origin
from keywright.core.parsing import MAX_USER_AGENT_LENGTH, keep_address
from keywright.http.middleware import credentials
from keywright.http.pages.cookies import parse_cookies
from keywright.http.pages.urls import BASE
from keywright.identity import sessions
from keywright.identity.commands import SeeSession
from keywright.identity.model import Role, User
from keywright.identity.sessions import SignedIn

if TYPE_CHECKING:
    from keywright.http.admin.lazy_app import Door

#: What the cookies are called; the first where the connection is encrypted: browsers then take it from
#: nobody but this very host.
_COOKIES = {True: "__Host-keywright", False: "keywright"}
_KNOWN_COOKIES = {True: "__Host-keywright-known", False: "keywright-known"}
_LONGEST_TOKEN = 128
#: What admin.js says in ``X-Requested-With``.
SCRIPT = "keywright"
#: How long a browser remembers that somebody has signed in with it, in seconds.
_KNOWN_FOR = 365 * 24 * 3600


class Visitor:
    """Who asks for a page: from where, with which token, and signed in as whom."""

    def __init__(self, request: Request, settings: Settings) -> None:
        headers = request.headers
        trusted = settings.trusted_proxies
        peer = request.client.host if request.client else ""
        hops = [value for name, value in request.scope["headers"] if name == b"x-forwarded-for"]
        self.now = datetime.now(UTC).replace(microsecond=0)
        self.address = credentials.client_address(peer, hops, trusted)
        self._kept_address = keep_address(self.address, settings.ip_addresses)
        self.user_agent = headers.get("user-agent", "")[:MAX_USER_AGENT_LENGTH]
        self.is_secure = _is_secure(request, peer, trusted)
        self.cookies = parse_cookies(request.scope["headers"])
        self.token = self.cookies.get(_COOKIES[self.is_secure], "")[:_LONGEST_TOKEN]
        #: What shows that somebody has signed in with this browser before, see ``accounts.device_mark``.
        self.device_mark = self.cookies.get(_KNOWN_COOKIES[self.is_secure], "")[:_LONGEST_TOKEN]
        self._is_mark_new = False
        self.signed_in: SignedIn | None = None
        self._demanded = settings.require_second_factor
        #: Whether a program of the page asks by itself: nobody may be there.
        self._is_unattended = request.method != "POST" and headers.get("x-requested-with", "") == SCRIPT
        #: Whether the token is to be put into the browser.
        self.is_token_new = False

    def look_up(self, door: "Door") -> None:
        """Find out who is signed in with the token, and note that they are there. In a thread only."""
        if not self.token:
            return
        self.signed_in = found = door.ask(lambda tx: sessions.find_signed_in(tx, self.token, self.now))
        if found is None or self._is_unattended:
            return
        if sessions.is_to_be_seen(found.session, self.now):
            door.change_soon(
                SeeSession(
                    now=self.now, origin=self.origin, by=found.user.id, token_hash=found.session.token_hash
                )
            )

    @property
    def role(self) -> Role | None:
        """What they may do; None for whoever is not signed in."""
        return None if self.signed_in is None else self.signed_in.user.role

    @property
    def has_to_enroll(self) -> bool:
        """Whether they have to set up a second factor before they may do anything else."""
        if self.signed_in is None or self.signed_in.has_factor:
            return False
        return self._demanded == "all" or (
            self._demanded == "administrators" and self.role is Role.ADMINISTRATOR
        )

    @property
    def origin(self) -> Origin:
        """Where a command comes from, as events remember it."""
        if self.signed_in is not None:
            return self.origin_of(self.signed_in.user)
        return Origin("visitor", self._kept_address, self.user_agent)

    def origin_of(self, user: User) -> Origin:
        """The same for whoever is about to be this user."""
        return Origin(f"user:{user.id}", self._kept_address, self.user_agent)

    @property
    def form_token(self) -> str:
        """What every form of this browser says; who does not know the cookie cannot know it."""
        return hmac.digest(self.token.encode(), b"keywright form", "sha256").hex() if self.token else ""

    def sign(self, text: str) -> str:
        """Tells whether we wrote this text into this browser."""
        return hmac.digest(self.token.encode(), b"keywright text " + text.encode(), "sha256").hex()

    def take_new_token(self, token: str | None = None) -> None:
        """From now on, another token: what anybody knew of the last one is worth nothing."""
        self.token, self.is_token_new = token or sessions.new_session_token(), True
        self.signed_in = None

    def be_known(self, mark: str) -> None:
        """Have the browser remember that somebody has signed in with it."""
        self.device_mark, self._is_mark_new = mark, True

    def write_cookies(self, response: Response) -> None:
        """Tell the browser of a new token, if there is one; it forgets it when it is closed."""
        if self.is_token_new:
            self._write_cookie(response, _COOKIES, self.token)
        if self._is_mark_new:
            self._write_cookie(response, _KNOWN_COOKIES, self.device_mark, _KNOWN_FOR)

    def _write_cookie(
        self, response: Response, names: Mapping[bool, str], value: str, max_age: int | None = None
    ) -> None:
        response.set_cookie(
            names[self.is_secure],
            value,
            max_age=max_age,
            path="/" if self.is_secure else BASE,
            httponly=True,
            samesite="lax",
            secure=self.is_secure,
        )


def is_form_ours(request: Request, visitor: Visitor, said_token: str) -> bool:
    """Whether a form, or a program of our own page, sent this.

    The browser says where it comes from (``Origin``, ``Sec-Fetch-Site``); whoever does not say it must at
    least know the token of this browser's forms, as everybody must.
    """
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = request.headers.get("origin")
    if origin is not None and not _is_same_host(origin, request.headers.get("host", "")):
        return False
    return bool(visitor.token) and hmac.compare_digest(visitor.form_token.encode(), said_token.encode())


def _is_same_host(origin: str, host: str) -> bool:
    """Whether both name one host. Where a proxy passes a host on without its port, the port is not known."""
    try:
        ours, theirs = urlsplit(f"//{host}"), urlsplit(origin)
        same_port = ours.port is None or (theirs.port or _port_of(theirs.scheme)) == ours.port
    except ValueError:
        return False
    return bool(ours.hostname) and theirs.hostname == ours.hostname and same_port


def _port_of(scheme: str) -> int | None:
    return {"http": 80, "https": 443}.get(scheme)


def _is_secure(request: Request, peer: str, trusted: Sequence[credentials.Network]) -> bool:
    """Whether the browser's connection is encrypted, as far as we know or a trusted proxy says."""
    if request.url.scheme == "https":
        return True
    forwarded = request.headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
    return forwarded == "https" and credentials.is_trusted(peer, trusted)
