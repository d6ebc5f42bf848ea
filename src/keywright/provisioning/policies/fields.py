"""What may be set of a policy."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from keywright.core.fields import Fields, Id, Name, Parse, Time, about
from keywright.core.nouns import ListQuery
from keywright.licensing.licenses.keys import MAX_KEY_LENGTH, UNAMBIGUOUS


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
    about("The characters that are drawn from.", UNAMBIGUOUS, label="Characters"),
]
Chunks = Annotated[_Number, about("The number of chunks.", 6, label="Groups")]
ChunkLength = Annotated[_Number, about("The characters in a chunk.", 5, label="Characters each")]
Separator = Annotated[_Part, about("Between chunks.", "-", label="Separator", none="nothing")]
Prefix = Annotated[_Part, about("The beginning of every key.", None, label="Prefix", none="nothing")]
Suffix = Annotated[_Part, about("The end of every key.", None, label="Suffix", none="nothing")]
#: A JSON merge patch of terms, which ``merge_terms`` checks.
TermsPatch = Annotated[
    dict[str, Any],
    about("Those of the terms that differ; null is the default.", {"max_activations": 3, "grace_days": 7}),
]


class KeyFormatFields(Fields):
    """Changes to how keys are made."""

    charset: Charset | UnsetType = UNSET
    chunks: Chunks | UnsetType = UNSET
    chunk_length: ChunkLength | UnsetType = UNSET
    separator: Separator | UnsetType | None = UNSET
    prefix: Prefix | UnsetType | None = UNSET
    suffix: Suffix | UnsetType | None = UNSET


class NewKeyFormat(KeyFormatFields):
    """The recipe for keys. They need at least 64 bits of randomness."""

    charset: Charset = UNAMBIGUOUS
    chunks: Chunks = 6
    chunk_length: ChunkLength = 5
    separator: Separator | None = "-"


class PolicyFields(Fields):
    """What can be set of a policy; a change is a JSON merge patch."""

    name: PolicyName | UnsetType = UNSET
    product_id: Product | UnsetType | None = UNSET
    key: Annotated[KeyFormatFields, about("How its keys are made.")] | UnsetType = UNSET
    terms: TermsPatch | UnsetType = UNSET
    is_archived: Annotated[bool, about("Whether it makes no more licenses.")] | UnsetType = UNSET


class NewPolicy(PolicyFields):
    """A policy to make."""

    name: PolicyName
    key: Annotated[NewKeyFormat, about("How its keys are made.")] = field(default_factory=NewKeyFormat)


class PolicyQuery(ListQuery):
    """Filters of policies."""

    product_id: Annotated[Id | None, about("Only those of this product.")] = None
    is_archived: Annotated[bool | None, about("Only those that are archived, or are not.")] = None
    created_after: Annotated[Time | None, about("Only those made after this moment.")] = None
    created_before: Annotated[Time | None, about("Only those made before it.")] = None
    sort: Literal["created_at", "-created_at"] = "-created_at"
