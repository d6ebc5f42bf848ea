"""Users, sessions, second factors, API keys and callers, and the commands about them."""

from datetime import datetime
from enum import StrEnum

import msgspec

from keywright.core.command import Command, Query


class Permissions(StrEnum):
    """The calls that an API key allows: see ``api_keys.may_read`` and ``api_keys.may_write``."""

    READ = "read"
    WRITE = "write"
    READ_WRITE = "read_write"
    CLIENT = "client"


class Role(StrEnum):
    """The role of a user of the pages."""

    ADMINISTRATOR = "administrator"
    SUPPORT = "support"
    READER = "reader"


class ApiKey(msgspec.Struct, frozen=True):
    """A secret for the API, known here by its hashes only; ``key_suffix`` is the consumer key's end. It is
    good up to, not including, ``expires_at``.
    """

    id: int
    name: str
    permissions: Permissions
    product_id: int | None
    key_suffix: str
    secret_hash: bytes
    created_at: datetime
    revoked_at: datetime | None
    last_used_at: datetime | None = None
    expires_at: datetime | None = None


class User(msgspec.Struct, frozen=True):
    """A person who may sign in unless ``disabled_at`` is set; the password is kept as an argon2id hash.
    ``language`` is that of the pages (``de``, ``pt-BR``); None is the browser's. ``email`` gets notices.
    A user with a ``subject`` signs in with that account of the provider ``issuer``, and with no password.
    """

    id: int
    name: str
    role: Role
    password_hash: str
    created_at: datetime
    disabled_at: datetime | None = None
    last_signed_in_at: datetime | None = None
    language: str | None = None
    email: str | None = None
    issuer: str | None = None
    subject: str | None = None


class SecondFactor(msgspec.Struct, frozen=True):
    """A proof beside the password (RFC 6238): a secret of the user's app, in base32; the time step of the
    last code that was taken, and how many codes were wrong since.
    """

    user_id: int
    secret: str
    enabled_at: datetime
    last_step: int
    failed_attempts: int = 0


class SavedView(msgspec.Struct, frozen=True):
    """The filter of a list, as its address spells it, under a name."""

    name: str
    query: str


class Session(msgspec.Struct, frozen=True):
    """A user's session, until ``ends_at``; the browser has its token, the database only its SHA-256."""

    token_hash: bytes
    user_id: int
    created_at: datetime
    ends_at: datetime
    last_seen_at: datetime
    ip_address: str
    user_agent: str


class Caller(msgspec.Struct, frozen=True):
    """The API key that a call came with. ``product_id`` narrows it to one product."""

    api_key_id: int
    name: str
    permissions: Permissions
    product_id: int | None
    expires_at: datetime | None = None


class Right(StrEnum):
    """The right that a page, or a button on it, needs."""

    LOOK = "look"
    CHANGE = "change"
    ADMINISTER = "administer"


_RIGHTS = {
    Role.READER: frozenset({Right.LOOK}),
    Role.SUPPORT: frozenset({Right.LOOK, Right.CHANGE}),
    Role.ADMINISTRATOR: frozenset(Right),
}


def may(role: Role, right: Right) -> bool:
    """Whether users with this role have the right."""
    return right in _RIGHTS[role]


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
    the hash ``but_session``. An empty ``language`` is the browser's, an empty ``email`` none. With a new
    password, the user does not sign in with the company's account any more.
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


class StartCompanySession(Command, frozen=True, kw_only=True):
    """Sign in the user of a provider's account with the role that its claims give, and make or find the user
    first. Without a role, end the user's sessions. ``email`` is one that the provider has verified.
    """

    issuer: str
    subject: str
    name: str
    email: str | None
    role: Role | None
    token_hash: bytes
    minutes: int


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
    """Record a failed attempt to sign in under this name, or the ``reason`` not to believe a provider."""

    name: str
    reason: str | None = None


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
