"""Read the header ``Idempotency-Key``: a bare text, or a string of structured fields (RFC 8941 §3.3.3)."""

import re

from keywright.core.errors import FieldError, InvalidQuery

_MAX_LENGTH = 255
_BARE = re.compile(rb"[!#-~][!-~]*")
_QUOTED = re.compile(rb'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_ESCAPED = re.compile(rb'\\(["\\])')


def parse_idempotency_key(header: bytes) -> str:
    """The key; both forms of a text are the same one. Raises ``InvalidQuery``."""
    header = header.strip()
    quoted = _QUOTED.fullmatch(header)
    key = header if quoted is None else _ESCAPED.sub(rb"\1", quoted[1])
    if not 1 <= len(key) <= _MAX_LENGTH or (quoted is None and not _BARE.fullmatch(key)):
        detail = f"must be 1 to {_MAX_LENGTH} visible ASCII characters, bare or in quotation marks"
        raise InvalidQuery([FieldError("Idempotency-Key", "invalid", detail)])
    return key.decode()
