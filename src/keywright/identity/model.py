"""Users of the pages, their sessions and second factors, API keys, and callers. All of them are frozen."""

from datetime import datetime
from enum import StrEnum

import msgspec


class Permissions(StrEnum):
    """What an API key allows: see ``access.may_read`` and ``access.may_write``."""

    READ = "read"
    WRITE = "write"
    READ_WRITE = "read_write"
    CLIENT = "client"


class Role(StrEnum):
    """What a user of the pages may do."""

    ADMINISTRATOR = "administrator"
    SUPPORT = "support"
    READER = "reader"


class ApiKey(msgspec.Struct, frozen=True):
    """A secret for the API, known here by its hashes only; ``key_suffix`` is the consumer key's end."""

    id: int
    name: str
    permissions: Permissions
    product_id: int | None
    key_suffix: str
    secret_hash: bytes
    created_at: datetime
    revoked_at: datetime | None
    last_used_at: datetime | None = None


class User(msgspec.Struct, frozen=True):
    """A person who may sign in unless ``disabled_at`` is set; the password is known by its argon2id hash
    only.
    """

    id: int
    name: str
    role: Role
    password_hash: str
    created_at: datetime
    disabled_at: datetime | None = None
    last_signed_in_at: datetime | None = None


class SecondFactor(msgspec.Struct, frozen=True):
    """A proof beside the password (RFC 6238): a secret of the user's app, in base32; the time step of the
    last code that was taken, and how many codes were wrong since.
    """

    user_id: int
    secret: str
    enabled_at: datetime
    last_step: int
    failed_attempts: int = 0


class Session(msgspec.Struct, frozen=True):
    """Somebody who is signed in; the token is in their browser, and known here by its SHA-256 only."""

    token_hash: bytes
    user_id: int
    created_at: datetime
    last_seen_at: datetime
    ip_address: str
    user_agent: str


class Caller(msgspec.Struct, frozen=True):
    """Who is calling with an API key. ``product_id`` narrows a client key to one product."""

    api_key_id: int
    name: str
    permissions: Permissions
    product_id: int | None
