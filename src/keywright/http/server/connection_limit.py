"""How many connections a server process has open at once: in all, and from one address."""

import resource
from collections import Counter

from keywright.config import Settings
from keywright.http.middleware.credentials import is_trusted
from keywright.http.middleware.rate_limits import source_of

#: What the soft limit of descriptors is raised to, where the hard one allows it.
_MOST_DESCRIPTORS = 65_536
#: Descriptors that are not for connections: the database's, files, sockets that listen.
_SPARE_DESCRIPTORS = 128


class ConnectionLimit:
    """Counts the connections of this process.

    A trusted proxy, and this machine itself, may have as many as there are: others come through them.
    """

    def __init__(self, settings: Settings, descriptors: int) -> None:
        """``descriptors`` is how many this process may have open."""
        self._most = max(1, min(settings.connections_limit, descriptors - _SPARE_DESCRIPTORS))
        self._most_per_address = settings.connections_per_address
        self._trusted = settings.trusted_proxies
        self._open = 0
        self._by_source: Counter[str] = Counter()

    def admit(self, peer: str) -> bool:
        """Count a connection from this address, unless there are too many."""
        source = source_of(peer)
        if self._open >= self._most:
            return False
        if self._by_source[source] >= self._most_per_address > 0 and not self._is_exempt(peer):
            return False
        self._open += 1
        self._by_source[source] += 1
        return True

    def leave(self, peer: str) -> None:
        """A connection that was counted has ended."""
        source = source_of(peer)
        self._open -= 1
        self._by_source[source] -= 1
        if not self._by_source[source]:
            del self._by_source[source]

    def _is_exempt(self, peer: str) -> bool:
        is_here = peer in ("", "::1") or peer.startswith(("127.", "::ffff:127."))
        return is_here or is_trusted(peer, self._trusted)


def raise_descriptor_limit() -> int:
    """Let this process open as many files and connections as it may; returns how many these are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return _MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
