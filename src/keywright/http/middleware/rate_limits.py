"""Token buckets, which limit the burst and the rate of each source."""

import math
from collections import OrderedDict
from collections.abc import Container
from itertools import islice

from keywright.core.errors import RateLimited

#: The maximum number of sources with a bucket that is not full.
MAX_SOURCES = 100_000
#: How many of the oldest sources are compared to choose which one to forget.
_COMPARED = 8
#: Tolerance for floating-point rounding, in tokens.
_ROUNDING = 0.01


class RateLimit:
    """A bucket of ``burst`` tokens for each source, refilled at ``per_minute``, or per another ``period`` in
    seconds. Counts in this process only.

    Take a token before the work, and give it back if the work turns out not to count: that way, concurrent
    calls cannot exceed the limit. A ``per_minute`` of 0 means no limit. ``now`` is in monotonic seconds.
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
        """Without ``burst``, the bucket holds the tokens of one period; an empty one raises ``error``."""
        self.is_on = per_minute > 0
        #: The time to refill one token, and a whole bucket, in seconds.
        self._interval = period / per_minute if self.is_on else 0.0
        self._window = self._interval * (per_minute if burst is None else burst)
        self._error = error
        self._max_sources = max_sources
        #: When the bucket of each source will be full again; buckets of missing sources are full.
        self._full_at: OrderedDict[str | bytes, float] = OrderedDict()
        #: The sources with a stored bucket; the buckets of all others are full.
        self.sources: Container[str | bytes] = self._full_at

    def take(self, now: float, *sources: str | bytes) -> None:
        """Take a token from the bucket of each source, or raise ``RateLimited`` and take none."""
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
        """Take tokens for work that turned out larger, even more than the bucket has."""
        if self.is_on and tokens:
            self._full_at[source] = max(self._full_at.get(source, now), now) + tokens * self._interval

    def give_back(self, now: float, *sources: str | bytes) -> None:
        """Put a token back into the bucket of each source."""
        for source in sources:
            full_at = self._full_at.get(source, now) - self._interval
            if full_at > now:
                self._full_at[source] = full_at
            else:
                self._full_at.pop(source, None)

    @property
    def burst(self) -> int:
        """The number of tokens in a full bucket."""
        return round(self._window / self._interval)

    @property
    def window(self) -> int:
        """The time to refill an empty bucket, in whole seconds."""
        return math.ceil(self._window)

    def find_state(self, now: float, source: str | bytes) -> tuple[int, int] | None:
        """The tokens left in a source's bucket, and the seconds until it is full; None if it is full."""
        full_at = self._full_at.get(source)
        if full_at is None or full_at <= now:
            return None
        return max(0, int((self._window + now - full_at) / self._interval + _ROUNDING)), math.ceil(
            full_at - now
        )

    def __len__(self) -> int:
        """The number of stored buckets."""
        return len(self._full_at)

    def _forget_some(self) -> None:
        """Forget sources until there are few enough.

        Of the oldest ones, the source that owes least is forgotten, and the others move to the end. To have a
        large debt forgotten, an attacker needs equally large debts from nearly all other sources.
        """
        while len(self._full_at) > self._max_sources:
            oldest = list(islice(self._full_at, _COMPARED))
            del self._full_at[min(oldest, key=self._full_at.__getitem__)]
            for source in oldest:
                if source in self._full_at:
                    self._full_at.move_to_end(source)
