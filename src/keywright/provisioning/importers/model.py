"""The records that importers bring, and what the report says of them."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec


class ImportedActivation(msgspec.Struct, frozen=True, gc=False):
    """A place on a license there. ``id`` is kept where it is free; None asks for a new one."""

    token: str
    created_at: datetime
    id: int | None = None
    label: str | None = None
    source: int = 3
    ip_address: str = ""
    user_agent: str = ""
    meta_data: Mapping[str, str] | None = None
    updated_at: datetime | None = None
    deactivated_at: datetime | None = None
    fingerprint: str | None = None
    platform: str | None = None
    app_version: str | None = None


class ImportedLicense(msgspec.Struct, frozen=True, gc=False):
    """A license there, with its activations; each token once. ``id`` is kept where it is free; None asks for
    a new one. ``metadata`` is that of ``parsing.parse_metadata``. ``place`` says where it stands in its
    source, for the report. A license with very many activations comes in pieces: ``is_rest`` says that
    this is not the first. ``fields`` are those that its source has; None is all but policy, terms, order
    details and quantity. The others stay as they are where the license is here already.
    """

    key: str
    status: int
    created_at: datetime
    updated_at: datetime
    id: int | None = None
    order_id: int | None = None
    product_id: int | None = None
    customer_id: int | None = None
    expires_at: datetime | None = None
    valid_for_days: int | None = None
    source: int = 2
    times_activated_max: int | None = None
    created_by: int | None = None
    updated_by: int | None = None
    metadata: str | None = None
    policy_id: int | None = None
    terms: str | None = None
    order_details: str | None = None
    external_id: str | None = None
    quantity: int = 1
    rule_terms: str | None = None
    activations: tuple[ImportedActivation, ...] = ()
    place: str = ""
    is_rest: bool = False
    fields: frozenset[str] | None = None


class ImportedGenerator(msgspec.Struct, frozen=True):
    """A generator there; ``id`` is kept where it is free."""

    id: int | None
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
    place: str = ""


class ImportedApiKey(msgspec.Struct, frozen=True):
    """An API key there: its hashes, and the end of its consumer key."""

    name: str
    permissions: str
    consumer_key_hash: str
    secret_hash: bytes
    key_suffix: str
    place: str = ""


class ImportedNames(msgspec.Struct, frozen=True):
    """Names of products or customers, by number; ``kind`` is that of ``NameKind``."""

    kind: str
    names: Mapping[int, str]


class Verdict(StrEnum):
    """The decision of an import about one record."""

    NEW = "new"
    SAME = "same"
    #: It exists here, and what is there is newer: taken over.
    NEWER_THERE = "newer_there"
    #: It exists here, and what is here is newer: kept.
    NEWER_HERE = "newer_here"
    #: It was imported before, and deleted here since: not brought back.
    DELETED_HERE = "deleted_here"
    #: It cannot be used; a notice says why.
    LEFT_OUT = "left_out"


class Notice(msgspec.Struct, frozen=True, gc=False):
    """Something odd, and what is done about it. ``code`` is one of ``report.ODDITIES``; ``place`` says where;
    neither has a whole license key in it.
    """

    code: str
    place: str
    what: str = ""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The outcome for one record of this kind (``license``, ``activation`` …)."""

    kind: str
    verdict: Verdict
    amount: int = 1


class Imported(msgspec.Struct, frozen=True):
    """The outcome of one command of an import."""

    outcomes: tuple[Outcome, ...]
    notices: tuple[Notice, ...] = ()
