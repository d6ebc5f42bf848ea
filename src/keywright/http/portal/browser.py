"""The browser of a customer: who is signed in, and which license's key was entered.

A customer who has proved the e-mail address has a session in the database. With only a license key, the
browser gets a signed ticket for that license, so that visitors who hold a key store nothing in the database.
"""

import hmac
import re
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from keywright.config import Settings
from keywright.core.command import Context, Origin
from keywright.core.parsing import MAX_ID
from keywright.db import ReadTransaction
from keywright.http.pages.render import PORTAL
from keywright.http.pages.runner import Runner
from keywright.http.pages.session import Browser
from keywright.licensing.licenses.model import License
from keywright.licensing.licenses.store import find_licenses_by_id
from keywright.provisioning.customers import Customer
from keywright.provisioning.portal.model import CODE_TIME, SESSION_TIME
from keywright.provisioning.portal.store import find_signed_in

#: The lifetime of the language cookie, in seconds.
_LANGUAGE_KEPT = 365 * 24 * 3600
#: The largest difference between the clocks of two servers.
_CLOCKS_APART = timedelta(minutes=1)
_LANGUAGE, _TICKET = "keywright-language", "keywright-license"
#: Cookies: the sign-ins that this browser has requested, and its mark (``portal.store.browser_mark``).
_SIGN_INS, _MARK = "keywright-sign-in", "keywright-customer"
_SIGN_INS_KEPT = 4
_SIGN_INS_FORM = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18}){0,3}", re.ASCII)
#: The lifetime of the cookie with the mark, in seconds.
_KNOWN_FOR = 365 * 24 * 3600
_TICKET_FORM = re.compile(r"([0-9]{1,19})\.([0-9a-f]{1,9})\.([0-9a-f]{64})", re.ASCII)


class PortalBrowser(Browser):
    """The browser that sent a request for a page of the portal."""

    base: ClassVar[str] = PORTAL
    cookie: ClassVar[str] = "keywright-portal"

    def __init__(self, request: Request, settings: Settings) -> None:
        super().__init__(request, settings)
        self.customer: Customer | None = None
        #: The license whose key was entered. Never show its key.
        self.license: License | None = None
        self.language = self.read_cookie(_LANGUAGE)
        self._ticket = self.read_cookie(_TICKET)
        self.mark = self.read_cookie(_MARK)
        self._new: dict[str, tuple[str, int | None]] = {}

    def find_customer(self, runner: Runner) -> None:
        """Find the customer who is signed in. Call it in a thread."""
        if self.token:
            self.customer = runner.ask(lambda tx: find_signed_in(tx, self.token, self.now))

    def find_license(self, runner: Runner) -> None:
        """Find the license whose key was entered. Call it in a thread."""
        if self.token and self._ticket:
            self.license = runner.ask(self._find_license)

    @property
    def context(self) -> Context:
        """The context of commands. If a key was entered, the actor is unknown: anybody may hold the key."""
        actor = "visitor" if self.license is None else "portal"
        if self.license is None and self.customer is not None:
            actor = f"customer:{self.customer.id}"
        return Context(self.now, Origin(actor, self.kept_address, self.user_agent))

    def set_license(self, tx: ReadTransaction, license: License) -> None:
        """Give the browser access to this license for ``SESSION_TIME``, or until its key is replaced."""
        self.ensure_token()
        ends = int((self.now + SESSION_TIME).timestamp())
        self._new[_TICKET] = (f"{license.id}.{ends:x}.{self._sign(tx, license, ends)}", None)

    def forget_license(self) -> None:
        """End the browser's access to the license whose key was entered."""
        self.license = None
        self._new[_TICKET] = ("", None)

    @property
    def sign_in_ids(self) -> tuple[int, ...]:
        """The IDs of the latest sign-ins that this browser has requested."""
        found = _SIGN_INS_FORM.fullmatch(self.read_cookie(_SIGN_INS))
        return () if found is None else tuple(map(int, found[0].split(".")))

    def add_sign_in(self, sign_in_id: int) -> None:
        """Store the ID of a requested sign-in in the browser; its code is accepted from no other browser."""
        asked = (*self.sign_in_ids, sign_in_id)[-_SIGN_INS_KEPT:]
        self._new[_SIGN_INS] = (".".join(map(str, asked)), int(CODE_TIME.total_seconds()))

    def set_mark(self, mark: str) -> None:
        """Store the mark of a customer who has signed in with this browser."""
        self._new[_MARK] = (mark, _KNOWN_FOR)

    def set_language(self, code: str) -> None:
        """Store the chosen language in the browser."""
        self.language = code
        self._new[_LANGUAGE] = (code, _LANGUAGE_KEPT)

    def write_cookies(self, response: Response) -> None:
        """Set the changed cookies."""
        super().write_cookies(response)
        for name, (value, max_age) in self._new.items():
            self.write_cookie(response, name, value, max_age)

    def _find_license(self, tx: ReadTransaction) -> License | None:
        found = _TICKET_FORM.fullmatch(self._ticket)
        if found is None or int(found[1]) > MAX_ID:
            return None
        ends = int(found[2], 16)
        is_good = self.now < datetime.fromtimestamp(ends, UTC) <= self.now + SESSION_TIME + _CLOCKS_APART
        license = find_licenses_by_id(tx, [int(found[1])]).get(int(found[1])) if is_good else None
        if license is None or not hmac.compare_digest(self._sign(tx, license, ends), found[3]):
            return None
        return license

    def _sign(self, tx: ReadTransaction, license: License, ends: int) -> str:
        # Contains the license key, so that a new key invalidates tickets for the old one.
        text = f"{self.token} {license.id} {ends} {license.key}"
        return tx.key_ring.sign("portal license", text).hex()
