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
    """An API key, of which only hashes are stored; ``key_suffix`` is the end of the consumer key. It is valid
    until, but not at, ``expires_at``.
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
    """A user of the admin pages, who may sign in unless ``disabled_at`` is set; the password is stored as an
    argon2id hash. ``language`` is the language of the pages (``de``, ``pt-BR``), None for the browser's.
    Notices go to ``email``. A user with a ``subject`` signs in with that account of the provider ``issuer``,
    not with a password.
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
    """A user's second factor (TOTP, RFC 6238): the secret of the app in base32, the time step of the last
    accepted code, and the number of wrong codes since then.
    """

    user_id: int
    secret: str
    enabled_at: datetime
    last_step: int
    failed_attempts: int = 0


class SavedView(msgspec.Struct, frozen=True):
    """A named filter of a list, as the URL of the list spells it."""

    name: str
    query: str


class Session(msgspec.Struct, frozen=True):
    """A user's session, valid until ``ends_at``; the browser has its token, the database only its SHA-256."""

    token_hash: bytes
    user_id: int
    created_at: datetime
    ends_at: datetime
    last_seen_at: datetime
    ip_address: str
    user_agent: str


class Caller(msgspec.Struct, frozen=True):
    """The API key that a call is authenticated with. ``product_id`` restricts it to one product."""

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


#: The default length of a session: a working day.
DEFAULT_SESSION_HOURS = 10


class CreateUser(Command, frozen=True, kw_only=True):
    """Create a user; with ``only_first``, only if there are no users yet."""

    name: str
    role: Role
    password_hash: str
    only_first: bool = False


class ChangeUser(Command, frozen=True, kw_only=True):
    """Change the fields that are not None. Setting a password or disabling the user ends the user's sessions,
    except the one with the hash ``but_session``. An empty ``language`` means the browser's, an empty
    ``email`` none. A new password unlinks the user from the provider's account.
    """

    user_id: int
    role: Role | None = None
    is_disabled: bool | None = None
    password_hash: str | None = None
    but_session: bytes | None = None
    language: str | None = None
    email: str | None = None


class StartSession(Command, frozen=True, kw_only=True):
    """Sign a user in for some hours. With ``password_hash``, only if the user still has that hash. A user
    with a second factor needs a ``code`` from the app, or a recovery code. ``is_known`` is true in a browser
    in which the user has signed in before.
    """

    user_id: int
    token_hash: bytes
    hours: int = DEFAULT_SESSION_HOURS
    password_hash: str | None = None
    code: str | None = None
    is_known: bool = False


class StartCompanySession(Command, frozen=True, kw_only=True):
    """Sign in the user linked to a provider's account, with the role that the account's claims grant; link or
    create the user at the first sign-in. Without a role, end the user's sessions. The provider has verified
    ``email``.
    """

    issuer: str
    subject: str
    name: str
    email: str | None
    role: Role | None
    token_hash: bytes
    minutes: int


class InviteUser(Command, frozen=True, kw_only=True):
    """Create a link with which the user sets a password, once; ``token_hash`` is the SHA-256 of its token."""

    user_id: int
    token_hash: bytes


class AcceptInvitation(Command, frozen=True, kw_only=True):
    """Set the password of the user whom the link with this token invites."""

    token_hash: bytes
    password_hash: str


class SaveView(Command, frozen=True, kw_only=True):
    """Store the filter of a list, as the URL of the list spells it, under a name that the user chose."""

    user_id: int
    name: str
    query: str


class DeleteView(Command, frozen=True, kw_only=True):
    """Delete a filter that the user has stored."""

    user_id: int
    name: str


class EnableSecondFactor(Command, frozen=True, kw_only=True):
    """Turn on the user's second factor: the app shows ``code`` now, and the recovery codes have these hashes.
    The session with the hash ``session`` continues as ``new_session``; the user's other sessions end.
    """

    user_id: int
    secret: str
    code: str
    code_hashes: tuple[bytes, ...]
    session: bytes
    new_session: bytes


class DisableSecondFactor(Command, frozen=True, kw_only=True):
    """Turn off the user's second factor, with a code: the session with the hash ``session`` continues as
    ``new_session``. Without a code, an administrator turns it off, and the user's sessions end.
    """

    user_id: int
    code: str | None = None
    session: bytes | None = None
    new_session: bytes | None = None


class RenewRecoveryCodes(Command, frozen=True, kw_only=True):
    """Replace the user's recovery codes by those with these hashes."""

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
    """Record a failed sign-in under this name, or the ``reason`` why a provider's answer was rejected."""

    name: str
    reason: str | None = None


class IssueApiKey(Command, frozen=True, kw_only=True):
    """Create an API key that has these hashes; ``api_keys.new_secrets`` makes the secrets."""

    name: str
    permissions: Permissions
    consumer_key_hash: str
    secret_hash: bytes
    key_suffix: str
    product_id: int | None = None
    expires_at: datetime | None = None


class RevokeApiKey(Command, frozen=True, kw_only=True):
    """Revoke an API key permanently."""

    api_key_id: int


class FindApiKey(Query, frozen=True, kw_only=True):
    """The API key with this hashed consumer key that is not revoked, or None."""

    consumer_key_hash: str
