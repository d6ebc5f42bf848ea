"""The address a call comes from, and whether a proxy that the settings do not name forwarded it."""

import logging
from collections.abc import Sequence
from functools import lru_cache

from keywright.background.counters import Counters
from keywright.http.middleware import credentials
from keywright.http.v2.call import Call

#: Headers with which proxies say for whom they call.
_FORWARDED = frozenset((b"x-forwarded-for", b"x-real-ip", b"forwarded"))

log = logging.getLogger(__name__)


class Addresses:
    """Finds the address of each call's client."""

    def __init__(self, trusted: Sequence[credentials.Network], tallies: Counters) -> None:
        self._trusted = trusted
        self._tallies = tallies
        self._is_trusted = lru_cache(1024)(lambda peer: credentials.is_trusted(peer, trusted))
        self._has_warned = False

    def find(self, call: Call) -> None:
        """Set the call's ``address`` and ``is_forwarded_blindly``. The first call through a proxy that is not
        trusted is logged, and all of them are counted.
        """
        client = call.scope.get("client")
        peer = client[0] if client else ""
        is_forwarded = not _FORWARDED.isdisjoint(call.headers)
        hops: list[bytes] = []
        if is_forwarded:
            if self._is_trusted(peer):
                hops = [value for name, value in call.scope["headers"] if name == b"x-forwarded-for"]
            else:
                call.is_forwarded_blindly = True
                self._tallies.forwarded_blindly += 1
                self._warn(peer)
        call.address = credentials.client_address(peer, hops, self._trusted)

    def _warn(self, peer: str) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        log.warning(
            "a call from %s says that it is forwarded, and trusted_proxies does not name that address: all "
            "callers behind it share one address and its limits. If it is your proxy, add it there.",
            peer,
        )
