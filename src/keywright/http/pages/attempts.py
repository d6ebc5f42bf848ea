"""How often a password may be wrong."""

from collections.abc import Mapping
from threading import Lock
from time import monotonic

from keywright.core.errors import RateLimited
from keywright.http.middleware.rate_limits import RateLimit, site_of, source_of

#: How many attempts to sign in may fail in a minute: from one address, from the network around it, and under
#: one name; of browsers that are known for a user, this many instead. And how many codes of one user.
AT_SIGN_IN = {"address": 10, "site": 30, "name": 20, "known": 10, "code": 10}


def sources_of(address: str, name: str) -> dict[str, str]:
    """The sources for which a stranger's attempt to sign in is counted."""
    return {"address": source_of(address), "site": site_of(address), "name": name.casefold()}


class Attempts:
    """Wrong passwords in a minute for each kind of source (``address``, ``name``). Threads may share it."""

    def __init__(self, **most: int) -> None:
        self._limits = {kind: RateLimit(per_minute) for kind, per_minute in most.items()}
        self._lock = Lock()

    def begin(self, sources: Mapping[str, str]) -> None:
        """Take what a wrong password costs; raises ``RateLimited`` when one of these sources has to wait."""
        taken: dict[str, str] = {}
        try:
            for kind, source in sources.items():
                with self._lock:
                    self._limits[kind].take(monotonic(), source)
                taken[kind] = source
        except RateLimited:
            self.give_back(taken)
            raise

    def give_back(self, sources: Mapping[str, str]) -> None:
        """The password was right."""
        with self._lock:
            for kind, source in sources.items():
                self._limits[kind].give_back(monotonic(), source)
