"""Which addresses deliveries may be sent to: protection against SSRF. Pure.

A caller of the API chooses an endpoint's URL, and the server can reach hosts that the caller cannot: its own
machine, the private network, a cloud's metadata service. So the addresses of a host name are checked, and the
connection is made to a checked address.
"""

from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from keywright.config.values import is_this_machine

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_URL = 2000
_PORTS = {"https": 443, "http": 80}
#: Public IPv6 addresses. NAT64 (RFC 6052, RFC 8215), site-local and IPv4-compatible addresses are outside.
_UNICAST = IPv6Network("2000::/3")
#: Exceptions in it: addresses that lead to an IPv4 address (6to4, Teredo), and those for documentation.
_TRANSLATED = tuple(map(IPv6Network, ("2002::/16", "2001::/32", "3fff::/20")))


class Target(NamedTuple):
    """The target of a delivery: ``path`` is the request line's path, ``authority`` the header ``Host``."""

    is_tls: bool
    host: str
    port: int
    path: str
    authority: str


def parse_url(text: str, allowed: Collection[Network]) -> str:
    """Check the URL of an endpoint: http and private addresses are accepted only in ``allowed`` networks. The
    addresses of a host name are checked when a request is sent. Raises ``ValueError``.
    """
    target = parse_target(text)
    address = _parse_host(target.host)
    if address is not None:
        find_allowed([str(address)], allowed)
    if not target.is_tls and (address is None or address.is_global):
        raise ValueError("must begin with https://; http:// is only for addresses in webhook_networks")
    return text


def parse_address(text: str) -> str:
    """Check that a text is a URL, whatever its address. Raises ``ValueError``."""
    parse_target(text)
    return text


def parse_target(text: str) -> Target:
    """Parse a URL. Raises ``ValueError``."""
    problem = "must be an address such as https://example.com/hooks, without user, password and fragment"
    if len(text) > MAX_URL or not text.isascii() or not text.isprintable() or set(text) & set(' "<>\\^`{|}'):
        raise ValueError(problem)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(problem) from None
    host = (parts.hostname or "").rstrip(".")
    if (
        parts.scheme not in _PORTS
        or not host
        or "@" in parts.netloc
        or "#" in text
        or port == 0
        or "%" in host
    ):
        raise ValueError(problem)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    is_tls = parts.scheme == "https"
    return Target(is_tls, host, port or _PORTS[parts.scheme], path, parts.netloc)


def is_allowed(address: Address, allowed: Collection[Network]) -> bool:
    """Whether deliveries may go to an address: a public one, or one in the networks that a setting allows."""
    inner = _inner_address(address)
    if any(
        one.version == network.version and one in network for network in allowed for one in (address, inner)
    ):
        return True
    if isinstance(inner, IPv6Address) and (inner not in _UNICAST or any(inner in one for one in _TRANSLATED)):
        return False
    return inner.is_global and not inner.is_multicast and not inner.is_reserved


def find_allowed(found: Collection[str], allowed: Collection[Network]) -> list[str]:
    """Return the addresses, in order. Raises ``ValueError`` if deliveries may not go to one of them: a host
    name with a public and a private address is an attack or a mistake.
    """
    for one in found:
        if not is_allowed(ip_address(one.partition("%")[0]), allowed):
            raise ValueError(f"{one} is not a public address; the setting webhook_networks can allow it")
    return list(found)


def _parse_host(host: str) -> Address | None:
    """Return the address of a host that is an IP address or names this machine; None for other names."""
    try:
        return ip_address(host)
    except ValueError:
        return ip_address("127.0.0.1") if is_this_machine(host) else None


def _inner_address(address: Address) -> Address:
    """Return the IPv4 address in an IPv4-mapped IPv6 address, else the address itself."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped
