"""The records that importers read, the commands that import them, and the outcomes."""

from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from keywright.core.command import Command, Cost
from keywright.licensing.licenses.model import ShownFields


class ImportedActivation(msgspec.Struct, frozen=True, gc=False):
    """A place on a license in the source. ``id`` is kept if it is free; None requests a new one."""

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
    is_counted: bool = True


class ImportedLicense(ShownFields, frozen=True, gc=False):
    """A license in the source, with its activations, each token once. ``id`` is kept if it is free; None
    requests a new one. ``metadata`` is as ``parsing.parse_metadata`` returns it. ``place`` is its position in
    the source, for the report. A license with very many activations is split: ``is_rest`` marks all parts but
    the first. ``fields`` are those that the source has; None is all except policy, terms, order details and
    quantity. The others are not changed if the license exists here. The customer is found by
    ``customer_email``, else by ``customer_id``, or made.
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
    quantity: int = 1
    rule_terms: str | None = None
    activations: tuple[ImportedActivation, ...] = ()
    place: str = ""
    is_rest: bool = False
    fields: frozenset[str] | None = None
    customer_email: str | None = None
    customer_name: str | None = None
    customer_language: str | None = None


class ImportedGenerator(msgspec.Struct, frozen=True):
    """A generator in the source; ``id`` is kept if it is free."""

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
    """An API key in the source: its hashes, and the end of its consumer key."""

    name: str
    permissions: str
    consumer_key_hash: str
    secret_hash: bytes
    key_suffix: str
    place: str = ""


class ImportedNames(msgspec.Struct, frozen=True):
    """Names of products or customers, by ID; ``kind`` is a value of ``NameKind``."""

    kind: str
    names: Mapping[int, str]


class Verdict(StrEnum):
    """The decision of an import about one record."""

    NEW = "new"
    SAME = "same"
    #: It exists here, and the source has a newer version, which is imported.
    NEWER_THERE = "newer_there"
    #: It exists here in a newer version, which is kept.
    NEWER_HERE = "newer_here"
    #: It was imported before, and has been deleted here: it is not restored.
    DELETED_HERE = "deleted_here"
    #: It cannot be used; a notice states why.
    LEFT_OUT = "left_out"


class Notice(msgspec.Struct, frozen=True, gc=False):
    """A problem in a record, and where it is. ``code`` is a key of ``run.ODDITIES``, which also states what
    is done about it. Neither ``place`` nor ``what`` contains a whole license key.
    """

    code: str
    place: str
    what: str = ""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The outcome for records of one kind (``license``, ``activation`` …). A report counts only one of those
    with the same ``who``.
    """

    kind: str
    verdict: Verdict
    amount: int = 1
    who: str | int = ""


class Imported(msgspec.Struct, frozen=True):
    """The outcome of one command of an import."""

    outcomes: tuple[Outcome, ...]
    notices: tuple[Notice, ...] = ()


class Import(Command, frozen=True, kw_only=True):
    """Import records from ``source``, such as ``lmfwc``; a dry run only reports what would be done."""

    cost = Cost.LONG

    source: str
    is_dry_run: bool = False


class ImportLicenses(Import, frozen=True, kw_only=True):
    """Import licenses and their activations; existing ones are merged. The outcome is ``Imported``."""

    licenses: tuple[ImportedLicense, ...]

    @property
    def locks(self) -> Collection[str | int]:
        """The licenses with these keys or IDs."""
        ids = [one.id for one in self.licenses if one.id is not None]
        return [*(one.key for one in self.licenses), *ids]


class ImportGenerators(Import, frozen=True, kw_only=True):
    """Import generators."""

    generators: tuple[ImportedGenerator, ...]


class ImportApiKeys(Import, frozen=True, kw_only=True):
    """Import API keys, whose secrets are valid here afterwards."""

    api_keys: tuple[ImportedApiKey, ...]


class ImportNames(Import, frozen=True, kw_only=True):
    """Import names; an ID that has a name here keeps it."""

    names: ImportedNames


class ReserveIds(Command, frozen=True, kw_only=True):
    """Reserve the IDs up to these for an import: new licenses and activations get larger ones. The outcome is
    the range of activation IDs that no server has assigned: those after the first number, up to the second.
    """

    cost = Cost.LONG

    license_id: int
    activation_id: int
