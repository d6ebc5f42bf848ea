"""Types of members that several nouns have."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct

from keywright.core.parsing import (
    MAX_EXTERNAL_ID_LENGTH,
    MAX_METADATA_KEYS,
    parse_external_id,
    parse_metadata,
    parse_name,
    parse_text,
)
from keywright.http.v3.fields import Parse

#: The largest number that a caller may give to a product or a customer: every reader of JSON reads it.
MAX_OWN_ID = 2**53 - 1
OwnId = Annotated[int, Meta(ge=1, le=MAX_OWN_ID)]
Name = Annotated[str, Meta(min_length=1, max_length=200), Parse(parse_name)]
ExternalId = Annotated[str, Meta(min_length=1, max_length=MAX_EXTERNAL_ID_LENGTH), Parse(parse_external_id)]


def _check_metadata(value: Mapping[str, Any]) -> Mapping[str, Any]:
    parse_metadata(value)
    return value


#: A JSON object of at most 16 KiB and 4 levels.
Metadata = Annotated[dict[str, Any], Meta(max_length=MAX_METADATA_KEYS), Parse(_check_metadata)]


def _parse_text(text: str) -> str:
    parse_text(text, len(text))
    return text


def text(max_length: int) -> Any:
    """A text of 1 to ``max_length`` characters."""
    return Annotated[str, Meta(min_length=1, max_length=max_length), Parse(_parse_text)]


def list_changes(body: Struct) -> dict[str, Any]:
    """The members of a body that were sent."""
    return {name: value for name in body.__struct_fields__ if (value := getattr(body, name)) is not UNSET}
