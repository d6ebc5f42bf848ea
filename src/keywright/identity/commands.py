"""Commands about users of the pages, API keys, and customers of the vendor's shop."""

from datetime import datetime

from keywright.core.command import Command, Query
from keywright.identity.model import Permissions, Role

#: How long a session lasts where nothing else is set: a working day.
DEFAULT_SESSION_HOURS = 10


class CreateUser(Command, frozen=True, kw_only=True):
    """Make a user; with ``only_first``, only as long as there is none."""

    name: str
    role: Role
    password_hash: str
    only_first: bool = False


class ChangeUser(Command, frozen=True, kw_only=True):
    """Change what is not None. A new password, and being disabled, end the user's sessions, except that with
    the hash ``but_session``. An empty ``language`` is the browser's, an empty ``email`` none.
    """

    user_id: int
    role: Role | None = None
    is_disabled: bool | None = None
    password_hash: str | None = None
    but_session: bytes | None = None
    language: str | None = None
    email: str | None = None


class StartSession(Command, frozen=True, kw_only=True):
    """Sign a user in for some hours. With ``password_hash``, only if that is the user's still. Users who have
    a second factor need a ``code`` of their app, or a recovery code. ``is_known`` is a browser in which the
    user has signed in before.
    """

    user_id: int
    token_hash: bytes
    hours: int = DEFAULT_SESSION_HOURS
    password_hash: str | None = None
    code: str | None = None
    is_known: bool = False


class InviteUser(Command, frozen=True, kw_only=True):
    """Make a link with which the user sets a password, once; ``token_hash`` is the SHA-256 of its token."""

    user_id: int
    token_hash: bytes


class AcceptInvitation(Command, frozen=True, kw_only=True):
    """Set the password of the user whom the link with this token invites."""

    token_hash: bytes
    password_hash: str


class SaveView(Command, frozen=True, kw_only=True):
    """Store the filter of a list, as its address spells it, under a name of the user's own."""

    user_id: int
    name: str
    query: str


class DeleteView(Command, frozen=True, kw_only=True):
    """Delete a filter that the user has stored."""

    user_id: int
    name: str


class EnableSecondFactor(Command, frozen=True, kw_only=True):
    """Let the user have a second factor, whose app shows ``code`` now, and recovery codes with these hashes.
    The session with the hash ``session`` goes on as ``new_session``; the user's others end.
    """

    user_id: int
    secret: str
    code: str
    code_hashes: tuple[bytes, ...]
    session: bytes
    new_session: bytes


class DisableSecondFactor(Command, frozen=True, kw_only=True):
    """Turn the user's second factor off, with a code. Without one, an administrator does that, and the
    user's sessions end; otherwise that with the hash ``session`` goes on as ``new_session``.
    """

    user_id: int
    code: str | None = None
    session: bytes | None = None
    new_session: bytes | None = None


class RenewRecoveryCodes(Command, frozen=True, kw_only=True):
    """Let the user have recovery codes with these hashes instead of those there were."""

    user_id: int
    code: str
    code_hashes: tuple[bytes, ...]


class SeeSession(Command, frozen=True, kw_only=True):
    """Update a session's last-seen time."""

    token_hash: bytes


class EndSession(Command, frozen=True, kw_only=True):
    """Sign out."""

    token_hash: bytes


class RefuseSignIn(Command, frozen=True, kw_only=True):
    """Record a failed attempt to sign in under this name."""

    name: str


class IssueApiKey(Command, frozen=True, kw_only=True):
    """Make an API key that is known by these hashes; ``api_keys.new_secrets`` makes them."""

    name: str
    permissions: Permissions
    consumer_key_hash: str
    secret_hash: bytes
    key_suffix: str
    product_id: int | None = None
    expires_at: datetime | None = None


class RevokeApiKey(Command, frozen=True, kw_only=True):
    """End an API key for good."""

    api_key_id: int


class FindApiKey(Query, frozen=True, kw_only=True):
    """The API key in force with this hashed consumer key, or None."""

    consumer_key_hash: str
