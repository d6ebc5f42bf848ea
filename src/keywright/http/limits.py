"""How many failures an address or an API key may have before it has to wait."""

import ipaddress
from collections import OrderedDict

from keywright.errors import RateLimited

#: More sources than this are not remembered; the longest silent one is forgotten first.
_MOST_SOURCES = 100_000


class FailureLimit:
    """At most ``per_minute`` failures a minute and source, counted in this process; 0 is no limit.

    A source may fail that often at once, and then as often as time gives back.
    """

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._failures: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, source: str, now: float) -> None:
        """Raise ``RateLimited`` when this source has to wait; ``now`` is in monotonic seconds."""
        if source not in self._failures:
            return
        excess = self._owed(source, now) - self._per_minute
        if excess > -1:
            raise RateLimited(max(1, int((excess + 1) * 60 / self._per_minute) + 1))

    def count(self, source: str, now: float) -> None:
        """This source has failed once more."""
        if self._per_minute == 0:
            return
        owed = min(self._owed(source, now), float(self._per_minute))
        self._failures[source] = (owed + 1, now)
        self._failures.move_to_end(source)
        if len(self._failures) > _MOST_SOURCES:
            self._failures.popitem(last=False)

    def _owed(self, source: str, now: float) -> float:
        owed, at = self._failures.get(source, (0.0, now))
        return max(0.0, owed - (now - at) * self._per_minute / 60)


def source_of(address: str) -> str:
    """What is counted as one source: an IPv4 address, or the /64 network of an IPv6 address."""
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
    except ValueError:
        return address
