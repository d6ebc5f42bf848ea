"""Base types for the bodies and queries of v3; ``core/fields`` has the types of their members."""

from typing import Annotated

from msgspec import Meta, Struct

from keywright.core.fields import Parse
from keywright.licensing.licenses.keys import MAX_KEY_LENGTH, normalize_key


class Body(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of a management call, or an object in one; unknown members are an error."""


class ClientBody(Struct, kw_only=True):
    """The body of a client call, or an object in one; unknown members are ignored."""


class Query(Struct, kw_only=True):
    """The query parameters of a route."""


LicenseKey = Annotated[str, Meta(min_length=1, max_length=MAX_KEY_LENGTH), Parse(normalize_key)]


def join_pointer(pointer: str, name: str | int) -> str:
    """The JSON Pointer (RFC 6901) of a member or an item."""
    return f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}"
