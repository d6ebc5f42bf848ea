"""Cross-origin requests: which browser programs may call an address (the CORS protocol of the Fetch
standard).
"""

from collections.abc import Collection
from typing import Any

from keywright.http.answer import Headers
from keywright.http.middleware.routing import Address

_ANY_ORIGIN: Headers = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"Idempotency-Replayed, Retry-After"),
)
_EXPOSED = (
    b"access-control-expose-headers",
    b"Idempotency-Replayed, Retry-After, Link, X-WP-Total, X-WP-TotalPages",
)
_PREFLIGHT_HEADERS = b"Authorization, Content-Type, Idempotency-Key"
_MAX_AGE = b"86400"


class Cors:
    """Allows every origin at open addresses, and the origins of the settings at the others."""

    def __init__(self, allowed_origins: Collection[str]) -> None:
        self._origins = frozenset(origin.encode() for origin in allowed_origins)

    def headers(self, address: Address[Any] | None, origin: bytes) -> Headers:
        """The headers of an answer; ``origin`` is empty where the request names none."""
        if address is not None and address.is_open:
            return _ANY_ORIGIN
        if not self._origins:
            return ()
        if origin not in self._origins:
            return ((b"vary", b"Origin"),)
        return ((b"vary", b"Origin"), (b"access-control-allow-origin", origin), _EXPOSED)

    def preflight_headers(self, address: Address[Any], origin: bytes) -> Headers:
        """More headers of the answer to OPTIONS."""
        allow = ", ".join(address.methods).encode()
        if not address.is_open and origin not in self._origins:
            return ((b"allow", allow),)
        return (
            (b"allow", allow),
            (b"access-control-allow-methods", allow),
            (b"access-control-allow-headers", _PREFLIGHT_HEADERS),
            (b"access-control-max-age", _MAX_AGE),
        )
