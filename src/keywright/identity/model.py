"""Users of the pages with the rights of their roles, sessions and second factors, API keys, and callers."""

from datetime import datetime
from enum import StrEnum

import msgspec


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
