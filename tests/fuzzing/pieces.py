"""Values out of bytes that somebody else chose."""

from collections.abc import Mapping
from typing import Any

import msgspec

#: Stands between the pieces of an input.
BREAK = b"\x1e"


def pieces(data: bytes, number: int) -> list[bytes]:
    """That many pieces; those that are missing are empty, the last one is all the rest."""
    found = data.split(BREAK, number - 1)
    return found + [b""] * (number - len(found))


def text(data: bytes) -> str:
    """A text as paths and command lines are read: what is not UTF-8 becomes lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def value(data: bytes) -> Any:
    """A JSON value, or else a text."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text(data)


def object_of(data: bytes) -> Mapping[str, Any]:
    """A JSON object; something else under the name that is asked for oftenest."""
    found = value(data)
    return found if isinstance(found, dict) else {"license_key": found}


def joined(*parts: str | bytes) -> bytes:
    """The input with these pieces."""
    return BREAK.join(part.encode() if isinstance(part, str) else part for part in parts)
