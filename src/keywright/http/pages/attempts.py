"""Limits on wrong passwords and codes."""

from collections.abc import Mapping
from threading import Lock
from time import monotonic

from keywright.core.errors import RateLimited
from keywright.http.middleware.rate_limits import RateLimit
from keywright.http.server.peers import site_of, source_of

#: How many sign-ins may fail in a minute: from one address, from the network around it, and for one name.
#: From a browser that is known for a user, ``known`` replaces these. ``code`` is for the codes of one user,
#: ``known_code`` for those from such a browser.
SIGN_IN_LIMITS = {"address": 10, "site": 30, "name": 20, "known": 10, "code": 10, "known_code": 10}


def sources_of(address: str, name: str) -> dict[str, str]:
    """The sources for which a sign-in from an unknown browser is counted."""
    return {"address": source_of(address), "site": site_of(address), "name": name.casefold()}


class Attempts:
    """Counts attempts per minute for each kind of source (``address``, ``name``). It is thread-safe."""

    def __init__(self, **limits: int) -> None:
        self._limits = {kind: RateLimit(per_minute) for kind, per_minute in limits.items()}
        self._lock = Lock()

    def begin(self, sources: Mapping[str, str]) -> None:
        """Count an attempt; raises ``RateLimited`` when one of these sources must wait."""
        taken: dict[str, str] = {}
        try:
            for kind, source in sources.items():
                with self._lock:
                    self._limits[kind].take(monotonic(), source)
                taken[kind] = source
        except RateLimited:
            self.undo(taken)
            raise

    def undo(self, sources: Mapping[str, str]) -> None:
        """Do not count the attempt: it was right."""
        with self._lock:
            for kind, source in sources.items():
                self._limits[kind].give_back(monotonic(), source)
