"""The listening sockets of a server: one for everything, and optionally one for the administration pages.
Also the sources of connections, and the limits on them.
"""

import ipaddress
import re
import resource
import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from functools import lru_cache
from typing import Self

from keywright.config import Settings
from keywright.config.installation import mark_server
from keywright.config.values import Network, is_this_machine, web_address
from keywright.core import errors as e


def plain_address(peer: str) -> str:
    """The address, with an IPv4-mapped one as an IPv4 address."""
    return peer.removeprefix("::ffff:") if "." in peer else peer


def is_trusted(peer: str, trusted: Sequence[Network]) -> bool:
    """Whether the peer is a trusted proxy, which may report its client's address."""
    return bool(trusted) and is_within(plain_address(peer), trusted)


def is_within(address: str, networks: Sequence[Network]) -> bool:
    """Whether the address is in one of the networks; False for text that is not an address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in networks)


@lru_cache(4096)
def source_of(address: str) -> str:
    """The source that limits apply to: an IPv4 address, or the /64 network of an IPv6 address."""
    return _network(address, 64) if ":" in address else address


@lru_cache(4096)
def site_of(address: str) -> str:
    """The network that probably has one owner: the /24 of an IPv4 address, the /48 of an IPv6 address."""
    return _network(address, 48 if ":" in address else 24)


def _network(address: str, prefix: int) -> str:
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], prefix), strict=False))
    except ValueError:
        return address


#: The target for the soft limit on descriptors, if the hard limit allows it.
_MAX_DESCRIPTORS = 65_536
#: Descriptors reserved for the database, files and listening sockets.
_RESERVED_DESCRIPTORS = 128


class ConnectionLimit:
    """Limits the open connections of this process.

    Trusted proxies and this machine itself may open any number, because other clients connect through them.
    """

    def __init__(self, settings: Settings, descriptors: int) -> None:
        """``descriptors`` is how many descriptors this process may open."""
        self._max = max(1, min(settings.connections_limit, descriptors - _RESERVED_DESCRIPTORS))
        self._max_per_address = settings.connections_per_address
        self._trusted = settings.trusted_proxies
        self._open = 0
        self._by_source: Counter[str] = Counter()

    def admit(self, peer: str) -> bool:
        """Count a connection from this address; return False, without counting it, if there are too many."""
        source = source_of(peer)
        if self._open >= self._max:
            return False
        if self._by_source[source] >= self._max_per_address > 0 and not self._is_exempt(peer):
            return False
        self._open += 1
        self._by_source[source] += 1
        return True

    def leave(self, peer: str) -> None:
        """Uncount a connection that was admitted."""
        source = source_of(peer)
        self._open -= 1
        self._by_source[source] -= 1
        if not self._by_source[source]:
            del self._by_source[source]

    def _is_exempt(self, peer: str) -> bool:
        is_local = peer in ("", "::1") or peer.startswith(("127.", "::ffff:127."))
        return is_local or is_trusted(peer, self._trusted)


def raise_descriptor_limit() -> int:
    """Let this process open as many files and connections as the system allows; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    maximum = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < maximum:
        resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, hard))
        soft = maximum
    return _MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


#: The maximum number of connections that wait to be accepted.
BACKLOG = 2048
#: A host, or an IPv6 address in brackets, with or without a port.
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE)

Address = tuple[str, int]


class ListeningSockets:
    """The open listening sockets of a server, shared by its workers."""

    def __init__(self, settings: Settings, public: socket.socket, admin: socket.socket | None) -> None:
        self.sockets = [public] if admin is None else [public, admin]
        mark_server(settings, _address_of(public))
        #: The base URL of the server.
        self.url = settings.public_url or web_address(*_address_of(public))
        #: The base URL of the administration pages, if they are served.
        self.admin_url = self.url if admin is None else web_address(*_address_of(admin))
        #: The only address that serves the administration pages; None where every address does.
        self.admin_address = None if admin is None else _address_of(admin)

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """Listen at the configured addresses. Raises ``ConfigurationError`` if one cannot be used."""
        with ExitStack() as stack:
            choose = "Choose another address with --host and --port."
            public = stack.enter_context(_listen((settings.host, settings.port), choose))
            admin = settings.admin_host_and_port
            other = None if admin is None else _listen(admin, "Choose another admin_address.")
            if settings.metrics_host_and_ports is not None:
                host, ports = settings.metrics_host_and_ports
                for port in ports:
                    # Each worker opens its own port later; a port that is in use is reported here.
                    _listen((host, port), "Choose another metrics_address.").close()
            # The caller closes the sockets.
            stack.pop_all()
        return cls(settings, public, other)

    def close(self) -> None:
        """Stop listening in this process."""
        for one in self.sockets:
            one.close()


def base_of_links(public_url: str | None, scheme: str, host: str) -> str:
    """The base URL for links that contain a secret: the setting, or the request's ``Host`` if that is this
    machine itself. Any other ``Host`` could be forged, and would receive the secret. Raises
    ``PublicUrlMissing``.
    """
    found = _HOST.fullmatch(host)
    if public_url is None and (found is None or not is_this_machine(found[1] or found[2])):
        raise e.PublicUrlMissing
    return public_url or f"{scheme}://{host}"


def is_at(server: Address | None, address: Address) -> bool:
    """Whether a connection to ``server`` arrived at the address; 0.0.0.0 and :: match any host."""
    return server is not None and server[1] == address[1] and address[0] in (server[0], "0.0.0.0", "::")  # noqa: S104


def _address_of(listening: socket.socket) -> Address:
    host, port = listening.getsockname()[:2]
    return host, port


def _listen(address: Address, advice: str) -> socket.socket:
    host, port = address
    try:
        family, kind, protocol, _, found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with ExitStack() as stack:
            listening = stack.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(found)
            listening.listen(BACKLOG)
            stack.pop_all()
    except OSError as problem:
        raise e.ConfigurationError(
            f"Cannot listen on {host}:{port}: {problem.strerror}. {advice}"
        ) from problem
    return listening
