"""Requests for license files, which a program without a network shows and its customer carries to another
computer.
"""

import re
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from keywright.core.errors import InvalidLicenseKey, OfflineRequestUnreadable
from keywright.core.parsing import MAX_ID, is_storable
from keywright.licensing.licenses.keys import normalize_key
from keywright.signing.jws import decode_base64url

_PREFIX = "keywright-request:"
_SPACES = re.compile(r"\s+")
#: The longest text of a request, in characters.
MAX_REQUEST = 8 * 1024


class OfflineRequest(msgspec.Struct, frozen=True):
    """The license, the device that the file is to be for, and the program that asks."""

    license_key: Annotated[str, Meta(min_length=1)]
    fingerprint: Annotated[str, Meta(min_length=8, max_length=256)]
    name: Annotated[str, Meta(max_length=255)] | None = None
    product: Annotated[int, Meta(ge=0, le=MAX_ID)] | Annotated[str, Meta(max_length=64)] | None = None
    built_at: Annotated[datetime, Meta(tz=True)] | None = None


_decode = msgspec.json.Decoder(OfflineRequest).decode


def parse_request(text: str) -> OfflineRequest:
    """The request in a text; spaces and line ends in it, and what stands before it, are ignored.

    Raises ``OfflineRequestUnreadable``.
    """
    _, prefix, encoded = text.partition(_PREFIX)
    if not prefix or len(text) > MAX_REQUEST:
        raise OfflineRequestUnreadable
    try:
        asked = _decode(decode_base64url(_SPACES.sub("", encoded).encode()))
        if not all(is_storable(str(one)) for one in (asked.fingerprint, asked.name, asked.product)):
            raise OfflineRequestUnreadable
        built_at = None if asked.built_at is None else asked.built_at.astimezone(UTC).replace(microsecond=0)
        return msgspec.structs.replace(asked, license_key=normalize_key(asked.license_key), built_at=built_at)
    except (ValueError, OverflowError, msgspec.MsgspecError, RecursionError, InvalidLicenseKey):
        raise OfflineRequestUnreadable from None
