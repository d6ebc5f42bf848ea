"""CORS: which browser programs may call an address (the Fetch standard)."""

from collections.abc import Collection
from typing import Any, NamedTuple

from keywright.http.answer import Headers
from keywright.http.middleware.routing import Address

_MAX_AGE = b"86400"


class CorsNames(NamedTuple):
    """The header names of an interface: those that programs may send, and those that they may read, at open
    addresses and at others.
    """

    sent: bytes
    seen_openly: bytes
    seen: bytes
    #: Whether open addresses send the CORS headers even if the request has no ``Origin``.
    is_always_sent: bool = True


class Cors:
    """Allows every origin at open addresses, and the configured origins at all others."""

    def __init__(self, allowed_origins: Collection[str], names: CorsNames) -> None:
        self._origins = frozenset(origin.encode() for origin in allowed_origins)
        self._sent = names.sent
        self._is_always_sent = names.is_always_sent
        self._any_origin: Headers = (
            (b"access-control-allow-origin", b"*"),
            (b"access-control-expose-headers", names.seen_openly),
        )
        self._exposed = (b"access-control-expose-headers", names.seen)

    def headers(self, address: Address[Any] | None, origin: bytes) -> Headers:
        """The CORS headers of an answer; ``origin`` is empty if the request has none."""
        if address is not None and address.is_open:
            return self._any_origin if origin or self._is_always_sent else ()
        if not self._origins:
            return ()
        if origin not in self._origins:
            return ((b"vary", b"Origin"),)
        return ((b"vary", b"Origin"), (b"access-control-allow-origin", origin), self._exposed)

    def preflight_headers(self, address: Address[Any], origin: bytes) -> Headers:
        """Additional headers of the answer to OPTIONS."""
        allow = ", ".join(address.methods).encode()
        if not address.is_open and origin not in self._origins:
            return ((b"allow", allow),)
        return (
            (b"allow", allow),
            (b"access-control-allow-methods", allow),
            (b"access-control-allow-headers", self._sent),
            (b"access-control-max-age", _MAX_AGE),
        )
