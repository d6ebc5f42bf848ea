"""Token buckets: how much a source may do at once, and how much each minute."""

import ipaddress
import math
from collections import OrderedDict
from functools import lru_cache
from itertools import islice

from keywright.core.errors import RateLimited

#: The most sources that have a bucket that is not full.
MOST_SOURCES = 100_000
#: Where one has to be forgotten, the fullest bucket of so many is.
_LOOKED_AT = 8
#: What adding up floating-point numbers may be wrong by, in tokens.
_ROUNDING = 0.01


class RateLimit:
    """A bucket of ``burst`` tokens for each source, refilled at ``per_minute``, counted in this process.

    Take before the work, and give back afterwards what turned out not to count: calls at the same moment
    cannot pass the limit then. Where ``per_minute`` is 0 there is no limit. ``now`` is in monotonic seconds.
    """

    def __init__(
        self,
        per_minute: int,
        *,
        burst: int | None = None,
        error: type[RateLimited] = RateLimited,
        most_sources: int = MOST_SOURCES,
    ) -> None:
        """Without ``burst``, the bucket holds what a minute refills; ``error`` is raised when it is empty."""
        self.is_on = per_minute > 0
        #: How long it takes to refill one token, and an empty bucket, in seconds.
        self._one = 60 / per_minute if self.is_on else 0.0
        self._all = self._one * (per_minute if burst is None else burst)
        self._error = error
        self._most_sources = most_sources
        #: When the bucket of each source will be full; one that is not here is full now.
        self._full_at: OrderedDict[str | bytes, float] = OrderedDict()

    def take(self, now: float, *sources: str | bytes) -> None:
        """Take a token from the bucket of each source, or, raising ``RateLimited``, from none."""
        if not self.is_on:
            return
        for source in sources:
            wait = self._full_at.get(source, now) + self._one - now - self._all
            if wait > _ROUNDING * self._one:
                raise self._error(math.ceil(wait))
        for source in sources:
            self._full_at[source] = max(self._full_at.get(source, now), now) + self._one
        if len(self._full_at) > self._most_sources:
            self._make_room()

    def give_back(self, now: float, *sources: str | bytes) -> None:
        """Put the token back that was taken from each of these."""
        for source in sources:
            full_at = self._full_at.get(source, now) - self._one
            if full_at > now:
                self._full_at[source] = full_at
            else:
                self._full_at.pop(source, None)

    def __len__(self) -> int:
        """The number of sources remembered."""
        return len(self._full_at)

    def _make_room(self) -> None:
        """Forget sources until there are few enough.

        Of the oldest, the one that owes least goes and the others come later again. So whoever wants a debt
        forgotten has to make as large a one from nearly every other address.
        """
        while len(self._full_at) > self._most_sources:
            oldest = list(islice(self._full_at, _LOOKED_AT))
            del self._full_at[min(oldest, key=self._full_at.__getitem__)]
            for source in oldest:
                if source in self._full_at:
                    self._full_at.move_to_end(source)


@lru_cache(4096)
def source_of(address: str) -> str:
    """What is counted as one source: an IPv4 address, or the /64 network of an IPv6 address."""
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
