"""The address of a connection's other end: what counts as one source, and whom the settings trust."""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache

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
