"""Find the address of the client behind the trusted proxies."""

import ipaddress
import logging
import re
from collections.abc import Sequence
from functools import lru_cache

from keywright.background.counters import Counters
from keywright.config.values import Network
from keywright.core.parsing import IpAddresses, keep_address
from keywright.http.middleware.call import Call
from keywright.http.server.sockets import is_trusted, is_within, plain_address

#: The headers in which a proxy passes on its client's address.
_FORWARDED = frozenset((b"x-forwarded-for", b"x-real-ip", b"forwarded"))
#: The most addresses in ``X-Forwarded-For`` that are read; no chain of proxies is longer.
_MAX_HOPS = 32
#: An address as some proxies write it: with a port, in brackets, or in quotes.
_WITH_PORT = re.compile(
    r'(?P<quote>"?)(?:(?P<v4>[0-9.]+)|\[(?P<v6>[0-9A-Fa-f:.]+)\])(?::[0-9]{1,5})?(?P=quote)'
)

log = logging.getLogger(__name__)


class ClientAddresses:
    """Sets the client address of each call."""

    def __init__(self, trusted: Sequence[Network], keeps: IpAddresses, counters: Counters) -> None:
        """``trusted`` and ``keeps`` are the settings ``trusted_proxies`` and ``ip_addresses``."""
        self._trusted = trusted
        self._keeps = keeps
        self._counters = counters
        self._parse_peer = lru_cache(1024)(lambda peer: (plain_address(peer), is_trusted(peer, trusted)))
        self._has_warned = False

    def find(self, call: Call) -> None:
        """Set ``client_address``, ``kept_address`` and ``is_behind_unknown_proxy``. All calls through
        untrusted proxies are counted, and the first one is logged.
        """
        client = call.scope.get("client")
        peer = client[0] if client else ""
        address, is_proxy_trusted = self._parse_peer(peer)
        if not _FORWARDED.isdisjoint(call.headers):
            if is_proxy_trusted:
                hops = [value for name, value in call.scope["headers"] if name == b"x-forwarded-for"]
                address = client_address(peer, hops, self._trusted)
            else:
                call.is_behind_unknown_proxy = True
                self._counters.forwarded_blindly += 1
                self._warn(peer)
        call.client_address = address
        call.kept_address = address if self._keeps == "full" else keep_address(address, self._keeps)

    def _warn(self, peer: str) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        log.warning(
            "a call from %s says that it is forwarded, and trusted_proxies does not name that address: all "
            "callers behind it share one address and its limits. If it is your proxy, add it there.",
            peer,
        )


def client_address(peer: str, forwarded_for: Sequence[bytes], trusted: Sequence[Network]) -> str:
    """The address of the client; an IPv4-mapped address becomes an IPv4 address.

    ``X-Forwarded-For`` counts only if it was sent by a trusted proxy. All its lines are read from the right:
    the first address that is not a trusted proxy's is the client's. Only the last 32 addresses are read.
    """
    address = plain_address(peer)
    if not is_trusted(peer, trusted):
        return address
    hops = b",".join(forwarded_for).decode("latin-1").rsplit(",", _MAX_HOPS)
    for hop in reversed(hops[-_MAX_HOPS:]):
        try:
            parsed = ipaddress.ip_address(_without_port(hop.strip()))
        except ValueError:
            break
        if "%" in hop:
            # A zone can be any text, and has no meaning here.
            break
        address = str(getattr(parsed, "ipv4_mapped", None) or parsed)
        if not is_within(address, trusted):
            break
    return address


def _without_port(hop: str) -> str:
    """The address in ``203.0.113.9:443`` or ``[2001:db8::9]:443``, also quoted; other text unchanged."""
    found = _WITH_PORT.fullmatch(hop)
    return (found["v4"] or found["v6"]) if found else hop
