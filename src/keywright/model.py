"""The nouns. All of them are frozen: a change makes a new one.

Times are aware datetimes in UTC, in whole seconds. Numbers that come from the vendor's shop (orders,
products, users) are kept as they came and never looked up.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any

import msgspec


class Status(IntEnum):
    """What a person or a shop decided about a license. The numbers are the wire format's."""

    SOLD = 1
    DELIVERED = 2
    ACTIVE = 3
    INACTIVE = 4
    DISABLED = 5


class LicenseSource(IntEnum):
    """Where a license came from. The numbers are the wire format's."""

    GENERATOR = 1
    IMPORT = 2
    API = 3
    MIGRATION = 4


class ActivationSource(IntEnum):
    """Where an activation came from. The numbers are the wire format's."""

    WEB = 1
    API = 2
    MIGRATION = 3


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


class License(msgspec.Struct, frozen=True, gc=False):
    """The right to run a program in ``times_activated_max`` places; None is no limit.

    ``times_activated`` counts its active records, ``deactivated_records`` those that were given up and are
    still kept.
    """

    id: int
    key: str
    order_id: int | None
    product_id: int | None
    user_id: int | None
    expires_at: datetime | None
    valid_for_days: int | None
    source: int
    status: int
    times_activated: int
    times_activated_max: int | None
    created_at: datetime
    created_by: int | None
    updated_at: datetime
    updated_by: int | None
    deactivated_records: int = 0


class Activation(msgspec.Struct, frozen=True, gc=False):
    """One place taken on a license; given up while ``deactivated_at`` is set."""

    id: int
    token: str
    license_id: int
    label: str | None
    source: int
    ip_address: str
    user_agent: str
    meta_data: Mapping[str, str] | None
    created_at: datetime
    updated_at: datetime | None
    deactivated_at: datetime | None


class Generator(msgspec.Struct, frozen=True):
    """The recipe that makes license keys: prefix, ``chunks`` runs of ``chunk_length``, suffix."""

    id: int
    name: str
    charset: str
    chunks: int
    chunk_length: int
    times_activated_max: int | None
    separator: str | None
    prefix: str | None
    suffix: str | None
    expires_in_days: int | None
    created_at: datetime
    created_by: int | None
    updated_at: datetime
    updated_by: int | None


class ApiKey(msgspec.Struct, frozen=True):
    """A secret for the API, known here by its hashes only; ``hint`` is the consumer key's end."""

    id: int
    name: str
    permissions: Permissions
    product_id: int | None
    hint: str
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
    signed_in_at: datetime | None = None


class SecondFactor(msgspec.Struct, frozen=True):
    """A proof beside the password (RFC 6238): a secret of the user's app, in base32; the time step of the
    last code that was taken, and how many codes were wrong since.
    """

    user_id: int
    secret: str
    enabled_at: datetime
    last_step: int
    failures: int = 0


class Session(msgspec.Struct, frozen=True):
    """Somebody who is signed in; the token is in their browser, and known here by its SHA-256 only."""

    token_hash: bytes
    user_id: int
    created_at: datetime
    seen_at: datetime
    ip_address: str
    user_agent: str


class NameKind(StrEnum):
    """What the numbers of a vendor's shop can be given names for."""

    PRODUCT = "product"
    USER = "user"


class JobState(StrEnum):
    """How far long work has come."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELED = "canceled"
    #: The user who ordered it may not do that any more.
    STOPPED = "stopped"


class Job(msgspec.Struct, frozen=True):
    """Long work, done in steps: ``done`` of ``total`` (None while nobody has counted), ``refused`` of which
    met a refusal; ``position`` is where the next step begins, ``said`` why it failed.
    """

    id: int
    kind: str
    state: JobState
    parameters: Mapping[str, Any]
    total: int | None
    done: int
    refused: int
    position: int
    said: str | None
    created_at: datetime
    created_by: int
    started_at: datetime | None
    finished_at: datetime | None
    claimed_by: str | None
    claimed_until: datetime | None


class Claim(msgspec.Struct, frozen=True):
    """The worker on an unfinished job, as its row says. Each step, and each moment in which the job is held,
    changes it.
    """

    job_id: int
    claimed_by: str | None
    claimed_until: datetime | None
    position: int


class Caller(msgspec.Struct, frozen=True):
    """Who is calling with an API key. ``product_id`` narrows a client key to one product."""

    api_key_id: int
    name: str
    permissions: Permissions
    product_id: int | None


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Where a command came from: ``actor`` is ``program``, ``api_key:7``, ``cli:root`` and the like."""

    actor: str
    ip_address: str
    user_agent: str


class Event(msgspec.Struct, frozen=True):
    """Something that happened, named noun.past; ``license_id`` is 0 where it is not about a license, and
    ``details`` never holds a full key.
    """

    at: datetime
    name: str
    license_id: int
    activation_id: int | None
    actor: str
    ip_address: str
    details: Mapping[str, Any] | None = None


class KeptAnswer(msgspec.Struct, frozen=True):
    """The first answer to a call with an idempotency key, as it went out."""

    request_digest: bytes
    status: int
    body: bytes


class LicenseRecord(msgspec.Struct, frozen=True, gc=False):
    """A license together with the activations that an outcome is about."""

    license: License
    activations: tuple[Activation, ...] = ()


class RecordLimits(msgspec.Struct, frozen=True):
    """The limits on activations kept and shown: a license keeps at least ``kept`` of those that were given up
    (see ``rules.surplus``); an answer lists at most ``listed``.
    """

    kept: int = 100
    listed: int = 1000


class LicensePage(msgspec.Struct, frozen=True):
    """One page of a list; ``total`` counts all that match."""

    records: tuple[LicenseRecord, ...]
    total: int


class LicenseFilter(msgspec.Struct, frozen=True):
    """Which licenses a list is about; None is any."""

    status: int | None = None
    product_id: int | None = None
    order_id: int | None = None
    user_id: int | None = None
