"""Sign-ins and sessions of customers, and their commands in the portal."""

from datetime import datetime, timedelta

import msgspec

from keywright.core.command import Command, Cost
from keywright.licensing.licenses.model import LicenseCommand

#: How long a mail's code and link are valid, a link that the vendor requested, and a session.
CODE_TIME = timedelta(minutes=15)
MAILED_LINK_TIME = timedelta(minutes=90)
LINK_TIME = timedelta(hours=24)
SESSION_TIME = timedelta(hours=1)
#: How long a sign-in is kept, so that the mails of a day can be counted.
KEPT_TIME = timedelta(hours=24)


class SignIn(msgspec.Struct, frozen=True):
    """A sign-in that was requested by e-mail, kept until ``expires_at``. ``id`` is random, and known only to
    the browser that requested it and by the mail's link. A sign-in with an unknown address has a negative
    ``customer_id`` (see ``rules.number_of_unknown``), and ``email`` only if the request named a license that
    can be claimed.
    """

    id: int
    customer_id: int
    expires_at: datetime
    wrong_codes: int = 0
    email: str | None = None

    @property
    def asked_at(self) -> datetime:
        """When the sign-in was requested."""
        return self.expires_at - KEPT_TIME


class PortalSession(msgspec.Struct, frozen=True):
    """A customer's session; the browser has its token, the database only its SHA-256."""

    token_hash: bytes
    customer_id: int
    created_at: datetime
    expires_at: datetime


class PortalLink(msgspec.Struct, frozen=True):
    """A link with which a customer signs in once; ``token`` is its secret."""

    customer_id: int
    expires_at: datetime
    token: str

    def __repr__(self) -> str:
        """Omit the token."""
        return f"PortalLink({self.customer_id}, {self.expires_at})"


class AskToSignIn(Command, frozen=True, kw_only=True):
    """Mail a code and a link to the customer with this address, if there is one and no mail was sent to it
    just before. ``sign_in_id`` is random; ``mark`` is the browser's (see ``store.browser_mark``);
    ``language`` is the page's. With the key of a license that can be claimed, an unknown address gets a code,
    too.
    """

    email: str
    sign_in_id: int
    mark: str = ""
    key: str | None = None
    language: str | None = None


class MailKeys(Command, frozen=True, kw_only=True):
    """Mail the license keys to the customer with this address, if there is one."""

    email: str
    language: str | None = None


class EnterCode(Command, frozen=True, kw_only=True):
    """Start a session with the code of one of the sign-ins that this browser requested."""

    sign_in_ids: tuple[int, ...]
    code: str
    token_hash: bytes


class ClaimWithCode(LicenseCommand, frozen=True, kw_only=True):
    """Start a session with a code, and give the license with this key to the customer, or to a new one if the
    address that the code proves is unknown.
    """

    cost = Cost.ALONE

    sign_in_ids: tuple[int, ...]
    code: str
    token_hash: bytes
    language: str | None = None


class FollowMailedLink(Command, frozen=True, kw_only=True):
    """Start a session with the link in a mail."""

    sign_in_id: int
    link_token: str
    token_hash: bytes


class FollowPortalLink(Command, frozen=True, kw_only=True):
    """Start a session with a link that the vendor requested."""

    link_hash: bytes
    token_hash: bytes


class MakePortalLink(Command, frozen=True, kw_only=True):
    """Make a link with which the customer signs in once."""

    customer_id: int
    token: str


class EndPortalSession(Command, frozen=True, kw_only=True):
    """Sign out."""

    token_hash: bytes


class RequestErasure(Command, frozen=True, kw_only=True):
    """Ask the vendor to erase the customer's data; with ``is_withdrawn``, withdraw that request."""

    customer_id: int
    is_withdrawn: bool = False


class PurgeSignIns(Command, frozen=True, kw_only=True):
    """Delete sign-ins, links, sessions and offers of licenses that were over before this moment."""

    cost = Cost.ALONE
    is_internal = True

    before: datetime
