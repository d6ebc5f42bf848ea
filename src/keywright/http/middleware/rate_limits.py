"""Token buckets: how much a source may do at once, and how much each minute."""

import math
from collections import OrderedDict
from collections.abc import Container
from itertools import islice

from keywright.core.errors import RateLimited

#: The most sources whose bucket is not full.
MAX_SOURCES = 100_000
#: To forget a source, so many of the oldest are compared.
_COMPARED = 8
#: The error of adding up floating-point numbers, in tokens.
_ROUNDING = 0.01


class RateLimit:
    """A bucket of ``burst`` tokens for each source, refilled at ``per_minute``, or per another ``period`` in
    seconds; counted in this process.

    Take a token before the work, and give it back afterwards if the work turns out not to count: so calls at
    the same moment cannot pass the limit. With a ``per_minute`` of 0 there is no limit. ``now`` is in
    monotonic seconds.
    """

    def __init__(
        self,
        per_minute: int,
        *,
        burst: int | None = None,
        period: int = 60,
        error: type[RateLimited] = RateLimited,
        max_sources: int = MAX_SOURCES,
    ) -> None:
        """Without ``burst``, the bucket holds the tokens of a period; ``error`` is raised when it is
        empty.
        """
        self.is_on = per_minute > 0
        #: The time to refill one token, and to refill an empty bucket, in seconds.
        self._interval = period / per_minute if self.is_on else 0.0
        self._window = self._interval * (per_minute if burst is None else burst)
        self._error = error
        self._max_sources = max_sources
        #: When the bucket of each source will be full; the bucket of a source that is not here is full now.
        self._full_at: OrderedDict[str | bytes, float] = OrderedDict()
        #: The sources that are remembered; the bucket of another one is full.
        self.sources: Container[str | bytes] = self._full_at

    def take(self, now: float, *sources: str | bytes) -> None:
        """Take a token from the bucket of each source; or raise ``RateLimited`` and take none."""
        if not self.is_on:
            return
        for source in sources:
            wait = self._full_at.get(source, now) + self._interval - now - self._window
            if wait > _ROUNDING * self._interval:
                raise self._error(math.ceil(wait))
        for source in sources:
            self._full_at[source] = max(self._full_at.get(source, now), now) + self._interval
        if len(self._full_at) > self._max_sources:
            self._forget_some()

    def owe(self, now: float, source: str | bytes, tokens: int) -> None:
        """Take more tokens from the bucket of a source than may be there, for work that turned out larger."""
        if self.is_on and tokens:
            self._full_at[source] = max(self._full_at.get(source, now), now) + tokens * self._interval

    def give_back(self, now: float, *sources: str | bytes) -> None:
        """Put the token back that was taken from each of these."""
        for source in sources:
            full_at = self._full_at.get(source, now) - self._interval
            if full_at > now:
                self._full_at[source] = full_at
            else:
                self._full_at.pop(source, None)

    @property
    def burst(self) -> int:
        """The tokens of a full bucket."""
        return round(self._window / self._interval)

    @property
    def window(self) -> int:
        """The seconds that an empty bucket takes to fill."""
        return math.ceil(self._window)

    def find_state(self, now: float, source: str | bytes) -> tuple[int, int] | None:
        """The tokens that are left in a source's bucket, and the seconds until it is full; None for a full
        one.
        """
        full_at = self._full_at.get(source)
        if full_at is None or full_at <= now:
            return None
        return max(0, int((self._window + now - full_at) / self._interval + _ROUNDING)), math.ceil(
            full_at - now
        )

    def __len__(self) -> int:
        """The number of sources remembered."""
        return len(self._full_at)

    def _forget_some(self) -> None:
        """Forget sources until there are few enough.

        Of the oldest, the one that owes least goes, and the others move to the end. To get a large debt
        forgotten, an attacker needs debts as large from nearly all other sources.
        """
        while len(self._full_at) > self._max_sources:
            oldest = list(islice(self._full_at, _COMPARED))
            del self._full_at[min(oldest, key=self._full_at.__getitem__)]
            for source in oldest:
                if source in self._full_at:
                    self._full_at.move_to_end(source)
