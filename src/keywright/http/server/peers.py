"""The other ends of connections: what counts as one source, and how many one may open."""

import ipaddress
import resource
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from keywright.config import Settings
from keywright.config.values import Network


def plain_address(peer: str) -> str:
    """An IPv4 address as such, also where it came over IPv6; any other address unchanged."""
    return peer.removeprefix("::ffff:") if "." in peer else peer


def is_trusted(peer: str, trusted: Sequence[Network]) -> bool:
    """Whether the peer is a proxy whose word about its client counts."""
    return bool(trusted) and is_within(plain_address(peer), trusted)


def is_within(address: str, networks: Sequence[Network]) -> bool:
    """Whether the address is in one of the networks; text that is no address is not."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in networks)


@lru_cache(4096)
def source_of(address: str) -> str:
    """The source that limits count: an IPv4 address, or the /64 network of an IPv6 address."""
    return _network(address, 64) if ":" in address else address


@lru_cache(4096)
def site_of(address: str) -> str:
    """The network that often has one owner: the /24 of an IPv4 address, the /48 of an IPv6 address."""
    return _network(address, 48 if ":" in address else 24)


def _network(address: str, prefix: int) -> str:
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], prefix), strict=False))
    except ValueError:
        return address


#: The soft limit of descriptors is raised to this, where the hard limit allows it.
_MAX_DESCRIPTORS = 65_536
#: Descriptors that are not for connections: the database's, files, listening sockets.
_RESERVED_DESCRIPTORS = 128


class ConnectionLimit:
    """Counts the connections of this process.

    A trusted proxy, and this machine itself, may open any number: other clients connect through them.
    """

    def __init__(self, settings: Settings, descriptors: int) -> None:
        """``descriptors`` is the number of descriptors that this process may open."""
        self._max = max(1, min(settings.connections_limit, descriptors - _RESERVED_DESCRIPTORS))
        self._max_per_address = settings.connections_per_address
        self._trusted = settings.trusted_proxies
        self._open = 0
        self._by_source: Counter[str] = Counter()

    def admit(self, peer: str) -> bool:
        """Count a connection from this address; False, and not counted, when there are too many."""
        source = source_of(peer)
        if self._open >= self._max:
            return False
        if self._by_source[source] >= self._max_per_address > 0 and not self._is_exempt(peer):
            return False
        self._open += 1
        self._by_source[source] += 1
        return True

    def leave(self, peer: str) -> None:
        """End a connection that was counted."""
        source = source_of(peer)
        self._open -= 1
        self._by_source[source] -= 1
        if not self._by_source[source]:
            del self._by_source[source]

    def _is_exempt(self, peer: str) -> bool:
        is_local = peer in ("", "::1") or peer.startswith(("127.", "::ffff:127."))
        return is_local or is_trusted(peer, self._trusted)


def raise_descriptor_limit() -> int:
    """Let this process open as many files and connections as the system allows; returns the number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    maximum = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < maximum:
        resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, hard))
        soft = maximum
    return _MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
