"""Policies: their fields, and the commands about them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from keywright.core.command import Command, Cost, Query
from keywright.core.fields import Fields, Id, Name, Parse, Time, about
from keywright.core.nouns import ListQuery, Paging
from keywright.licensing.licenses.keys import MAX_KEY_LENGTH, UNAMBIGUOUS
from keywright.licensing.licenses.model import NewLicenseCommand
from keywright.licensing.terms.model import Terms


class TermsGroup(msgspec.Struct, frozen=True):
    """The number of a policy's licenses that have the same terms, and the ID of one of them."""

    terms: Terms
    quantity: int
    rule_terms: str | None
    licenses: int
    first_id: int


class TermsPreview(msgspec.Struct, frozen=True):
    """The effect of applying terms to a policy's licenses: the limits of ``lowered`` licenses would decrease,
    and ``over_limit`` have more places or leases taken than the new limits. ``examples`` are licenses that
    would change, each with its members before and after.
    """

    licenses: int
    changed: int
    lowered: int
    over_limit: int
    examples: list[tuple[int, dict[str, Any], dict[str, Any]]]


class Policy(msgspec.Struct, frozen=True):
    """A recipe for licenses: their terms, and their keys (prefix, ``chunks`` chunks of ``chunk_length``
    characters, suffix). An archived policy makes no licenses.
    """

    id: int
    name: str
    charset: str
    chunks: int
    chunk_length: int
    separator: str | None
    prefix: str | None
    suffix: str | None
    created_at: datetime
    created_by: int | None
    updated_at: datetime
    updated_by: int | None
    product_id: int | None = None
    terms: Terms = Terms()
    archived_at: datetime | None = None


def _parse_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must have no control characters")
    return text


def _parse_charset(text: str) -> str:
    if " " in text:
        raise ValueError("must have no spaces")
    return _parse_printable(text)


_Part = Annotated[str, Meta(max_length=MAX_KEY_LENGTH), Parse(_parse_printable)]
_Number = Annotated[int, Meta(ge=1, le=MAX_KEY_LENGTH)]

PolicyName = Annotated[Name, about("Its name.", "Yearly")]
Product = Annotated[Id, about("The product that its licenses are for.", 17)]
Charset = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_KEY_LENGTH),
    Parse(_parse_charset),
    about("The characters of which keys are made.", UNAMBIGUOUS, label="Characters"),
]
Chunks = Annotated[_Number, about("The number of chunks.", 6, label="Groups")]
ChunkLength = Annotated[_Number, about("The characters in a chunk.", 5, label="Characters each")]
Separator = Annotated[_Part, about("The text between chunks.", "-", label="Separator", none="nothing")]
Prefix = Annotated[_Part, about("The beginning of every key.", None, label="Prefix", none="nothing")]
Suffix = Annotated[_Part, about("The end of every key.", None, label="Suffix", none="nothing")]
#: A JSON merge patch of terms, which ``merge_terms`` checks.
TermsPatch = Annotated[
    dict[str, Any],
    about(
        "The terms that differ from the defaults; null restores the default.",
        {"max_activations": 3, "grace_days": 7},
    ),
]


class KeyFormatFields(Fields):
    """Changes to the format of keys."""

    charset: Charset | UnsetType = UNSET
    chunks: Chunks | UnsetType = UNSET
    chunk_length: ChunkLength | UnsetType = UNSET
    separator: Separator | UnsetType | None = UNSET
    prefix: Prefix | UnsetType | None = UNSET
    suffix: Suffix | UnsetType | None = UNSET


class NewKeyFormat(KeyFormatFields):
    """The format of keys. They need at least 64 bits of randomness."""

    charset: Charset = UNAMBIGUOUS
    chunks: Chunks = 6
    chunk_length: ChunkLength = 5
    separator: Separator | None = "-"


class PolicyFields(Fields):
    """The fields of a policy that can be set; a change is a JSON merge patch."""

    name: PolicyName | UnsetType = UNSET
    product_id: Product | UnsetType | None = UNSET
    key: Annotated[KeyFormatFields, about("The format of its keys.")] | UnsetType = UNSET
    terms: TermsPatch | UnsetType = UNSET
    is_archived: Annotated[bool, about("Whether it is archived and makes no more licenses.")] | UnsetType = (
        UNSET
    )


class NewPolicy(PolicyFields):
    """A policy to make."""

    name: PolicyName
    key: Annotated[NewKeyFormat, about("The format of its keys.")] = field(default_factory=NewKeyFormat)


class PolicyQuery(ListQuery):
    """Filters of policies."""

    product_id: Annotated[Id | None, about("Only policies for this product.")] = None
    is_archived: Annotated[bool | None, about("Only policies that are archived, or that are not.")] = None
    created_after: Annotated[Time | None, about("Only policies created after this time.")] = None
    created_before: Annotated[Time | None, about("Only policies created before this time.")] = None
    sort: Literal["created_at", "-created_at"] = "-created_at"


class CreatePolicy(Command, frozen=True, kw_only=True):
    """Make a policy; ``is_weak_allowed`` permits keys that could be guessed. With ``id``, restore the policy
    that had this ID.

    ``terms`` is a JSON merge patch of the default terms. With ``only_product_id``, the policy is for that
    product. ``key_path`` is the path of the key format in the caller's request, for refusals.
    """

    name: str
    charset: str
    chunks: int
    chunk_length: int
    separator: str | None = None
    prefix: str | None = None
    suffix: str | None = None
    product_id: int | None = None
    terms: Mapping[str, Any] = {}
    is_weak_allowed: bool = False
    only_product_id: int | None = None
    key_path: str = ""
    id: int | None = None
    is_archived: bool = False


class UpdatePolicy(Command, frozen=True, kw_only=True):
    """Change the given fields, named as in ``Policy``; ``terms`` is a JSON merge patch.

    ``only_product_id`` as in ``LicenseCommand``, ``key_path`` as in ``CreatePolicy``.
    """

    policy_id: int
    changes: Mapping[str, Any] = {}
    terms: Mapping[str, Any] = {}
    is_archived: bool | None = None
    only_product_id: int | None = None
    is_weak_allowed: bool = False
    key_path: str = ""


class DeletePolicy(Command, frozen=True, kw_only=True):
    """Delete the policy; its licenses stay. With ``is_unused``, only if it has none."""

    policy_id: int
    only_product_id: int | None = None
    is_unused: bool = False


class PreviewTerms(Query, frozen=True, kw_only=True):
    """The effect of applying these members of a policy's terms to its licenses."""

    cost = Cost.LIST

    policy_id: int
    names: tuple[str, ...]
    overwrite: bool = False
    only_product_id: int | None = None


class GenerateLicenses(NewLicenseCommand, frozen=True, kw_only=True):
    """Make ``amount`` licenses with the policy, all or none. ``claimable`` overrides the policy's term;
    ``only_product_id`` is as in ``LicenseCommand``.
    """

    cost = Cost.LONG

    policy_id: int
    amount: int
    claimable: bool | None = None
    only_product_id: int | None = None


class GetPolicy(Query, frozen=True, kw_only=True):
    """The policy with this ID; ``only_product_id`` as in ``LicenseCommand``."""

    policy_id: int
    only_product_id: int | None = None


class ListPolicies(Query, frozen=True, kw_only=True):
    """Every policy, oldest first; with ``only_product_id``, every policy of that product."""

    only_product_id: int | None = None


class FindPolicies(Query, frozen=True, kw_only=True):
    """A page of the matching policies."""

    paging: Paging
    product_id: int | None = None
    is_archived: bool | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    only_product_id: int | None = None
