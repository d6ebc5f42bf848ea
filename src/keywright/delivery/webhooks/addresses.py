"""Which addresses deliveries may be sent to. Pure.

An endpoint's URL is chosen by a caller of the API, and the server can reach what the caller cannot: its own
machine, the private network, the metadata of a cloud. So the addresses behind a name are checked, and the
connection is made to the very address that was checked.
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
#: The public part of IPv6. NAT64 (RFC 6052, RFC 8215), site-local and IPv4-compatible addresses are outside.
_UNICAST = IPv6Network("2000::/3")
#: In it, addresses that lead to an IPv4 address, 6to4 and Teredo, and those for documents.
_TRANSLATED = tuple(map(IPv6Network, ("2002::/16", "2001::/32", "3fff::/20")))


class Target(NamedTuple):
    """Where a delivery goes: ``path`` is the path of the request line, ``authority`` the header ``Host``."""

    is_tls: bool
    host: str
    port: int
    path: str
    authority: str


def parse_url(text: str, allowed: Collection[Network]) -> str:
    """The URL of an endpoint: https; http and private addresses only where these networks have them. What a
    name leads to is checked when something is sent there. Raises ``ValueError``.
    """
    target = parse_target(text)
    address = _parse_host(target.host)
    if address is not None:
        find_allowed([str(address)], allowed)
    if not target.is_tls and (address is None or address.is_global):
        raise ValueError("must begin with https://; http:// is only for addresses in webhook_networks")
    return text


def parse_address(text: str) -> str:
    """A URL to which something can be sent, wherever it leads. Raises ``ValueError``."""
    parse_target(text)
    return text


def parse_target(text: str) -> Target:
    """The parts of a URL. Raises ``ValueError``."""
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
    """Whether deliveries may go there: to a public address, or one of the networks that a setting allows."""
    inner = _inner_address(address)
    if any(
        one.version == network.version and one in network for network in allowed for one in (address, inner)
    ):
        return True
    if isinstance(inner, IPv6Address) and (inner not in _UNICAST or any(inner in one for one in _TRANSLATED)):
        return False
    return inner.is_global and not inner.is_multicast and not inner.is_reserved


def find_allowed(found: Collection[str], allowed: Collection[Network]) -> list[str]:
    """Those of the addresses to which deliveries may go, in their order. Raises ``ValueError`` where one of
    them is refused: a name that has a public address and a private one is an attempt, or a mistake.
    """
    for one in found:
        if not is_allowed(ip_address(one.partition("%")[0]), allowed):
            raise ValueError(f"{one} is not a public address; the setting webhook_networks can allow it")
    return list(found)


def _parse_host(host: str) -> Address | None:
    """The address that a host is, or that everyone knows for it; None for another name."""
    try:
        return ip_address(host)
    except ValueError:
        return ip_address("127.0.0.1") if is_this_machine(host) else None


def _inner_address(address: Address) -> Address:
    """The IPv4 address inside an IPv4-mapped one, else the address itself."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped
