"""Commands of customers in the portal, and about their sign-ins."""

from datetime import datetime

from keywright.core.command import Command, Cost


class AskToSignIn(Command, frozen=True, kw_only=True):
    """Mail a code and a link to the customer with this address, if there is one and no other mail went to it
    just before. ``sign_in_id`` is random; ``mark`` is the browser's (see ``sessions.browser_mark``);
    ``language`` is that of the page.
    """

    email: str
    sign_in_id: int
    mark: str = ""
    language: str | None = None


class MailKeys(Command, frozen=True, kw_only=True):
    """Mail the license keys of the customer with this address to them, if there is one."""

    email: str
    language: str | None = None


class EnterCode(Command, frozen=True, kw_only=True):
    """Start a session with the code of one of the sign-ins that this browser asked for."""

    sign_in_ids: tuple[int, ...]
    code: str
    token_hash: bytes


class FollowMailedLink(Command, frozen=True, kw_only=True):
    """Start a session with the link of the mail."""

    sign_in_id: int
    link_token: str
    token_hash: bytes


class FollowPortalLink(Command, frozen=True, kw_only=True):
    """Start a session with a link that the vendor asked for."""

    link_hash: bytes
    token_hash: bytes


class MakePortalLink(Command, frozen=True, kw_only=True):
    """Make a link that signs the customer in, once."""

    customer_id: int
    token: str


class EndPortalSession(Command, frozen=True, kw_only=True):
    """Sign out."""

    token_hash: bytes


class RequestErasure(Command, frozen=True, kw_only=True):
    """Ask the vendor to erase the customer's data; or not any more, with ``is_withdrawn``."""

    customer_id: int
    is_withdrawn: bool = False


class PurgeSignIns(Command, frozen=True, kw_only=True):
    """Delete sign-ins, links, sessions, and offers of licenses, that were over before this moment."""

    cost = Cost.ALONE
    is_internal = True

    before: datetime
